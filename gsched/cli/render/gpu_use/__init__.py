"""What jobs made of their GPUs, as commands print it: LSF's layout, tables, JSON.

Start with `use_lines`. Nothing here asks anybody, and what is unknown is never shown as 0.
"""
