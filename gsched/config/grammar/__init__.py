"""From the text of a file to sections, tables and single values, each with its place; problems are collected.

Start with `sections`; `findings` has what is wrong, and where. It knows the names of LSF's parameters that mean nothing
here, but never what any other means.
"""
