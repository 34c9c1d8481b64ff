"""Everything an agent does with GPUs: looking, judging, clearing, compute modes, MIG and MPS.

Start with `gpu_watch` and `gpu_guard`. Which GPU a job gets is not decided here; a job is told its GPUs by
`attempts.job_environment` (with MPS by `mps_for_jobs`).
"""
