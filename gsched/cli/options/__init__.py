"""How commands read what they were given: job ids, sizes, times, filters.

Start with `job_selection`. Sources of the forms: bsub(1), bjobs(1), brsvadd(1) of LSF 10.1.
"""
