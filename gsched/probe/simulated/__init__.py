"""Simulated GPUs: inventories, files that stand in for the GPUs of a host. A named mode, never a fallback.

Start with `inventory`.
"""
