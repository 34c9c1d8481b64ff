"""Commands that tell of hosts and their GPUs: what they hold, their load, their groups, the resources that there are.

Start with `ghosts`. A command here never asks an agent: it shows what the master knows.
"""
