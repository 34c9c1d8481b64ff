"""The event store: what is durable, and what the past looked like. SQLAlchemy lives only here; nothing here decides.

Start with `eventlog` (writes) and `history_queries` (reads).
"""
