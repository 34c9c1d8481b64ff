"""Everything an agent does with GPUs: looking, judging, clearing, MIG and MPS.

Start with `gpu_watch` and `gpu_guard`. A GPU with a fault (an XID, memory errors) is closed by `gpu_health`; what is a
fault says `gpu_condition`. Which GPU a job gets is not decided here (`policy.devices`); a job is told its GPUs by
`attempts.job_environment` (with MPS by `mps_for_jobs`).
"""
