"""Services of the jobs of a host: programs with a page of their own, and connections to them.

Start with `job_services`. It must never connect to a socket that is not the job's, nor write a secret anywhere but into
the job's environment.
"""
