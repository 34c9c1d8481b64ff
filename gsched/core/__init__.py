"""The state machine and the engine: commands in, events and instructions out. Pure: no I/O, no clock, no threads.

Start with `engine`; `command` is what it takes, `decision` what it answers, `state` what it knows. Two parts of the
engine have modules of their own: `scheduling_cycles`, and `job_requests` (to submit, change and control jobs).
"""
