"""Supervisors that sleep: a program in C waits in their place, with a hundredth of an interpreter's memory.

Start with `handing_over`. Never takes the end of a process from the kernel, nor decides anything about an attempt.
"""
