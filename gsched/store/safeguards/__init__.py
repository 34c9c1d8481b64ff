"""What keeps a store from being lost, mixed up or written twice: locks, reserves, what a failed write means.

Start with `continuity`, which compares a database with what is known of it elsewhere. Nothing here deletes a store.
"""
