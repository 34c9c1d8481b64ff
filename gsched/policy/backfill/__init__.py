"""Planned starts for jobs that cannot start now, and what may start before them without delaying them.

Start with `reservations` (`Reservations.reserve` makes a planned start). `plan_making` says whether that of the cycle
before stands, `start_planner` finds the time, `planned_fit` says whether it fits, `plan_entry` enters it;
`backfill_check` says whether a job that starts now would delay one. `advance_reservation_guard` is about advance
reservations. Nothing here starts a job.
"""
