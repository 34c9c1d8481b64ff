"""The attempts of one host: orders carried out once, results repeated until the master has them on disk.

Start with `attempt_orders`. Never starts an attempt twice, never ends one unasked.
"""
