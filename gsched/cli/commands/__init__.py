"""One module for each command, named as the command is: its table of options and what it does.

Start with `gqueues`, one of the short ones. Each has `TABLE` and `main(call) -> exit code`. What several share lies
in the folders beside.
"""
