"""Compute modes of GPUs: set for jobs that want another one, and set back afterwards.

Start with `compute_modes`. What is due to be set back outlives the agent in `compute_mode_records`; attempts that begin
or end together are served together by `mode_requests`.
"""
