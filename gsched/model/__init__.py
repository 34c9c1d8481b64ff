"""Frozen data and the ledger. Pure: no I/O, no clock, no randomness; nothing here decides anything.

Start with `jobs` (a job as it was asked for), `event` and `ledgers`; `config` is what the files of a cluster say.
"""
