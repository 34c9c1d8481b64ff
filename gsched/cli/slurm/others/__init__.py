"""Slurm's smaller commands: sprio, sattach, and those that are not there and say what to use instead.

Start with `sprio`.
"""
