"""Questions about the past: read from the store by a process of its own, so that no answer holds the scheduler up.

Start with `service`. The exception is `history_rows`: the engine's thread makes the rows of jobs by it, and
`store.eventlog` writes them with the events.
"""
