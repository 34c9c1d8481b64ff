"""Guaranteed pools of lsb.resources: what is kept free for service classes, and what of it others may borrow.

Start with `guarantee_use`. It says no, or yes; it never chooses a place and never ends a job.
"""
