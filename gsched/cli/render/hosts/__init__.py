"""Layouts of hosts and their GPUs. LSF 10.1 is the source of each form."""
