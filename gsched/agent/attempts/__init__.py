"""The attempts of one host: orders carried out once, results repeated until the master has them on disk.

Start with `host_attempts`; its `adopt` takes up what an earlier agent left, also one that was killed. Never starts an
attempt twice, never ends one unasked.
"""
