"""How people say what they want: LSF's option grammar, #BSUB lines, command words. Text in, one submission out.

Nothing here talks to a daemon or opens a file by itself.
"""
