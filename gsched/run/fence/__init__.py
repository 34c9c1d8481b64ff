"""The fence of a job: a control group of its own, in which the GPUs that it was not given cannot be opened.

Start with `cgroup_root`, which finds out at the start of an agent what the machine allows. `group` is what supervisors
and executors work with, in the two forms `v2` and `v1`.
"""
