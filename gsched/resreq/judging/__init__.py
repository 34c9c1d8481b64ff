"""What a select or order expression says of hosts: of one, or of all at once in columns.

Start with `select`; `compiler` says once what an expression means. What a host does not tell makes it infeasible, and
is never taken as 0. It reads no text.
"""
