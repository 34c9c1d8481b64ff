"""Limits of lsb.resources, lsb.users, queues and groups: how much is allowed, and how much is taken.

Start with `job_limits`. It says no, or yes; it never chooses.
"""
