"""What agents say about GPUs of jobs: faults, processes that are in the way, changes below a job.

Start with `gpu_faults`, which may end jobs; all others only write into histories.
"""
