"""Hosts as configured and as they report themselves, and the resources that they have or share.

Start with `host`. What a host has not told is unknown, never 0. Who holds what of it is said in `ledgers`.
"""
