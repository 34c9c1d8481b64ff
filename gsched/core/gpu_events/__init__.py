"""What agents say about GPUs of jobs: faults, processes that are in the way, changes below a job.

Start with `gpu_faults`, which may end jobs; `idle_gpus` and `gpu_memory_overuse` do so where they are asked to, all
others only write into histories. What a fault is, and which GPU is closed for one, the agent has decided
(`agent.gpu.gpu_health`).
"""
