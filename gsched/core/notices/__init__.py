"""Notices about jobs: which events make one, which host sends it, and what has become of it.

Start with `notice_making`. It sends nothing and knows no secret: where a notice goes is in a blob of the store.
"""
