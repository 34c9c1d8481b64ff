"""scontrol: what it shows, changes and refuses.

Start with `scontrol`, which has the table of its commands. What may be changed is the master's to say.
"""
