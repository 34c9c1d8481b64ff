"""Who may call what, how often and how large, and what is written down about it.

Start with `request_gate`: every call passes it. It never trusts a name that a request bears.
"""
