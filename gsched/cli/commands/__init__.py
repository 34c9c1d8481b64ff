"""One module for each command, named as the command is, in a folder of its topic: its options and what it does.

Start with `cluster`, whose `gqueues` is one of the short ones. Each has `TABLE` and `main(call) -> exit code`;
gsched.command_table says which folder has a command's module. What several share lies in the folders beside this one:
commands never import each other.
"""
