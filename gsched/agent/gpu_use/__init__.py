"""What running attempts make of their GPUs: sampled (gpu_use_recorder), summed up (use_totals), kept in their folders.

Start at gpu_use_recorder. Nothing here changes a GPU or a process, and what a driver cannot tell is never taken for 0.
"""
