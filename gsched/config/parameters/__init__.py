"""How values of their own form are read that several files have, or that fill a module: limits, shares, PREEMPTION ...

Start with `job_limits`, the largest. Nothing here knows a file as a whole.
"""
