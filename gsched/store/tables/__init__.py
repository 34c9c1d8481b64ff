"""The tables of a store, their versions, and how rows are chosen and read.

Start with `schema`; `migrations` leads to it from every released version. A released step never changes.
"""
