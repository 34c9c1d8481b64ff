"""Which running jobs make room for a job of a higher queue, and which of the preempted go on.

Start with `preemption`. It stops nothing itself: the plan says who is to be stopped.
"""
