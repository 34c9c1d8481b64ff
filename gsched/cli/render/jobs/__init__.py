"""Layouts of jobs: tables, long records, histories, accounts. LSF 10.1 is the source of each form.

Start with `job_table` and `jobs_long`, which show what `shown_job` has of a job.
"""
