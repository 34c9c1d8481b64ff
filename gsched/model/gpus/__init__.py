"""What is told of one GPU and of the work on it: readings, use over time, errors, closure. Nothing here knows a job.

Start with `gpu_use`. What is unknown is None, never 0. Who holds a GPU is said in `ledgers`.
"""
