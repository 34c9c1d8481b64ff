"""Containers that a job's processes run in, by programs without a daemon: Apptainer and Podman.

Start with `container_words`: what is executed in place of a job's own words. Nothing here talks to a daemon of
containers, and no process of a container may ever be outside the job's own tree and control group.
"""
