"""The prompt that `gadmin` (badmin) and `lsadmin` open when they are called without words, as LSF's do.

Start with `administration_prompt`. A line is carried out as the same words on a command line are; nothing here may know
what any of them does. `line_editing` is loaded on a terminal alone.
"""
