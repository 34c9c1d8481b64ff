"""Where a job starts: the best of the hosts that can take it, or why none can.

Start with `placement`; `fast_path` is the same for jobs of one host and whole GPUs. It changes only this cycle's view.
"""
