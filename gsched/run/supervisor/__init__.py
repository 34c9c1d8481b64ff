"""The supervisor of one attempt, which outlives agent and fork server, and everything it does for its job.

Start with `supervisor`. Runs in the bare interpreter of the fork server: standard library and
msgspec only, and little of that.
"""
