"""Commands that tell how the cluster is set up and how far it is used: queues, users, limits, application profiles.

Start with `gqueues`. A command here never reads a file of the configuration: it shows what the master goes by.
"""
