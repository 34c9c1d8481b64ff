"""From the master's answers to what the layouts print, and the lines that commands on jobs answer with.

Start with `projection`. Nothing is computed anew that the master has said.
"""
