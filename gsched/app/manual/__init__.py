"""Manual pages and shell completion, written from the tables that the commands themselves read their options by.

Start with `entries`: what there is to say about each command; `roff` and `shells` write it down.
It must never say of a command what its table does not say: what is not in a table stands in `facts`, and nowhere else.
"""
