"""The screens, with textual: the cluster, one job, a question before a job is killed.

Start with `top_app`. Only `gsched top` loads this package, in a terminal; nothing here waits for the master.
"""
