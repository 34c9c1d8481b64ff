"""Commands that change jobs: end, stop and requeue them, change what they ask for, their queue and their order.

Start with `gkill`. Which jobs are meant is read by gsched.cli.options, what is said of each by gsched.cli.answers. A
command here never decides who may do it, or whether a job takes it: the master does.
"""
