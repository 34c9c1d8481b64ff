"""The master: wiring of engine, store and gRPC. It decides nothing itself.

Start with `daemon`, then `engine_thread`; `rpc` hears people, `agents` the hosts.
"""
