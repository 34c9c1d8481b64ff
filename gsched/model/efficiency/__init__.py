"""How well a job used what it asked for: what is said of it, what would have been enough, and what it cost. Pure.

Start with `verdicts`. What was not measured is unknown: nothing is said of it, and it counts as used.
"""
