"""Processes as /proc shows them: who belongs to an attempt, what they use, how they are signalled.

Start with `process_tree`. A process is known by pid and start time; a pid alone is never trusted.
"""
