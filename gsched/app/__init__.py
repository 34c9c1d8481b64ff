"""Where processes begin: the launcher of the commands, `gsched`, `gadmin`, the daemons. Everything else is below.

Start with `launch` (the commands of users) and `entry` (`gsched` and `gadmin`).
"""
