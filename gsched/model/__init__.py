"""Frozen data and the ledger. Pure: no I/O, no clock, no randomness; nothing here decides anything.

Start with `job`, `event` and `ledger`.
"""
