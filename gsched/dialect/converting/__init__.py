"""Scripts of one batch system's dialect printed in another's: #BSUB, #SBATCH and #PBS lines.

Start with `conversion`. A script is read by its own dialect's reader (`asked_scripts`), and what it asks for is printed
by the module of the other dialect (`bsub_lines`, `sbatch_lines`, `qsub_lines`). What cannot be said there is told of,
never dropped in silence; of a script's body only lines that would come alive are changed. Nothing here talks to a
daemon or opens a file.
"""
