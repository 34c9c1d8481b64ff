"""How well jobs used what they asked for, as `geff` prints it: a table, all of one job, sums by week, JSON.

Start with `judged_job`. Nothing here asks anybody, and what is unknown is `-`, never 0.
"""
