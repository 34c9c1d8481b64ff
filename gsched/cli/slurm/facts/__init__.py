"""Facts of jobs and hosts in Slurm's words, as several of its commands show them.

Start with `job_facts`. Nothing here asks the master or knows in which columns a fact stands.
"""
