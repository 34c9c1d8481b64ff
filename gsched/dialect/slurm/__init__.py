"""How Slurm's users say what they want: sbatch's options and #SBATCH lines, read into one submission of gsched.

Start with `sbatch` (a submission) and `option_table` (what is taken, and what is refused by name). Nothing is ignored
in silence: each option of the manual is honoured, or refused with what to say instead. Nothing here talks to a daemon
or opens a file by itself.
"""
