"""Commands that bring work into the cluster and wait for it: jobs (gsub), tasks of a job (glaunch), conditions (gwait).

Start with `gsub`; what it does after a job was accepted is in gsched.cli.submit. A command here never decides whether
a job is admitted or where it runs: the master does.
"""
