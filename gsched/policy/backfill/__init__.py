"""Planned starts for jobs that cannot start now, and what may start before them without delaying them.

Start with `reservations` (`Reservations.reserve` makes a planned start); `start_planner` finds the time, and
`backfill_check` says whether a job that starts now would delay one.
`advance_reservation_guard` and `advance_reservation_windows` are about advance reservations. Nothing here starts a job.
"""
