"""Layouts of hosts and their GPUs. LSF 10.1 is the source of each form.

Start with `host_tables`, and for GPUs with `gpu_tables` and `gpu_long`.
"""
