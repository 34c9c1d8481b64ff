"""What hosts and limits will have left later: by the ends of what runs, planned jobs and advance reservations.

Start with `future_ledgers` (`Future`: ledgers of hosts at later times); `future_limits` does the same for limits, and
`releases` says for all hosts at once when enough could be free. Nothing here plans or starts a job.
"""
