"""What running attempts make of their GPUs: sampled, summed up, and kept in the attempts' folders.

Start with `gpu_use_recorder`. Nothing here changes a GPU or a process, and what a driver cannot tell is never taken
for 0.
"""
