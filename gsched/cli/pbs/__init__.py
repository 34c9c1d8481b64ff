"""PBS's commands: its names, options, columns, texts and exit codes over gsched's jobs, hosts and queues.

Start with `qsub` and `qstat`. Each command is a function of a Call, as in gsched.cli.commands; what its options mean
is gsched.dialect.pbs's to say. They show whatever there is, however it was submitted.
"""
