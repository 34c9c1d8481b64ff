"""One-off tasks on other hosts, as lsrun, lsgrun and lslogin start them: each is an interactive job of gsub.

Start with `remote_task`. Source of the options: lsrun(1), lsgrun(1), lslogin(1) of LSF 10.1. Nothing here goes past the
scheduler: queues, limits and GPUs count for a task as for any job.
"""
