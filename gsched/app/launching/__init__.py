"""`glaunch --launch PROFILE` within a job: the ranks of a training program on all hosts of the job.

Start with `launch_run`. What is started, and with which environment, is gsched.dialect.launching's to say; tasks are
started by what glaunch has. Nothing here starts a process on another host by itself, or leaves one there.
"""
