"""How PBS's users say what they want: qsub's options and #PBS lines, read into one submission of gsched.

Start with `qsub` (a submission) and `qsub_options` (what is taken, and what is refused by name). Nothing is ignored in
silence: each option of OpenPBS's manual, and of Torque's where it has more, is honoured, or refused with what to say
instead. Nothing here talks to a daemon or opens a file by itself.
"""
