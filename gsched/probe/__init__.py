"""Probes: what a host measures of itself and its GPUs, through NVML, /proc and elims. Decides nothing.

Start with `gpu`, `elims` or `load`. What cannot be measured is None, never 0.
"""
