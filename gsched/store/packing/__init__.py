"""How rows are made small: events by a dictionary of what all events say, blobs by what was stored before them.

Start with `packed_events` and `packed_blobs`. What is packed says so by its first bytes, so that rows of before stay
readable. Nothing here interprets a content, and nothing that is packed is ever packed anew.
"""
