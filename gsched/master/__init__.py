"""The master: wiring of engine, store and gRPC. It decides nothing itself."""
