"""Simulation: the same engine under virtual time, with virtual agents. Deterministic: equal traces give equal runs.

Start with `world`.
"""
