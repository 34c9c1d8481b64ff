"""What leaves a store again: old finished jobs, their events, what these named, and the room that they took.

Start with `removal`, which an open store is asked through, as `unused_contents` is for what only such jobs had;
`gsched.store.tables.floor` says what must stay. It decides nothing of ages or sizes, and must never touch a job that is
not over.
"""
