"""How people say what they want: LSF's option grammar, #BSUB lines, command words. Text in, one submission out.

Start with `options` (the grammar) and `bsub` (a submission). Nothing here talks to a daemon or opens a file by itself.
"""
