"""Queues, users, application profiles and limits as configured, with their windows and shares.

Start with `queue`. It knows no job and no host, and counts nothing.
"""
