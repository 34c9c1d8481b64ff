"""The command server of a host: one started process in which the commands of its users run at once.

Start with `server`.
"""
