"""GPUs as NVIDIA's driver tells of them: NVML in a process of its own, and the device nodes.

Start with `nvml_child`, the agent's side; `nvml` is the process that it asks. Only here is NVML spoken to, and never
in the agent itself: a driver may hang.
"""
