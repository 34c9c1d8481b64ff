"""The report on a finished job, and the room for it above or below what the job has printed.

Start with `job_report`.
"""
