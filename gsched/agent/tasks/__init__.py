"""Tasks of jobs over several hosts: what `glaunch` asks for, carried out here or passed on by the master.

Start with `launch_server`. A task runs only for the user and the job that it belongs to.
"""
