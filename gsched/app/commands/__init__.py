"""The words of `gsched`, `gadmin`, `lsadmin` and LSF's commands for daemons, as click reads them.

Start with `groups`: the table of words, each in a module that is imported when the word is said. A word reads its
options, calls what carries it out (`clusters`, `installation`, the master) and prints; it holds no rule of its own.
"""
