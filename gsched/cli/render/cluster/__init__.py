"""Layouts of queues, users, limits, reservations and the cluster itself. LSF 10.1 is the source of each form.

Start with `queues`.
"""
