"""The store in the hands of its administrator: checked, copied with the configuration, put back, moved, begun anew.

Start with `store_copies`. Nothing here removes what it finds, and nothing talks to a running master.
"""
