"""Planned starts for jobs that cannot start now, and what may start before them without delaying them.

Start with `reservations`; `start_planner` finds the time. Nothing here starts a job.
"""
