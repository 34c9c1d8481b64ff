"""Names of hosts and users in the files: groups, patterns, members that a program lists, hosts of masters, names that
nobody has.

Start with `grouping`. A name is never guessed: what it could stand for is said where it stands.
"""
