"""What a daemon asks of its machine: files that only their owner reads, locks of GPUs, accounts, the service manager.

Start with `gpu_lock` or `atomic_write`. Nothing here blocks, and commands that must start fast import none of it.
"""
