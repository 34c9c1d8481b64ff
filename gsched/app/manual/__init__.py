"""Manual pages and shell completion, written from the tables that the commands themselves read their options by.

It must never say of a command what its table does not say: what is not in a table stands in `facts`, and nowhere else.
"""
