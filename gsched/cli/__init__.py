"""The commands of users and administrators: read options, ask the master, print. Holds no rule of scheduling.

Start with `commands`; `registry` finds the module of a command.
"""
