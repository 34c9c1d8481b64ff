"""The daemons of a cluster as a whole: a private one on this machine, or those on all hosts of a shared one.

Start with `private_up` and `fleet_control`. It starts, stops and asks daemons; it never looks into a store itself.
"""
