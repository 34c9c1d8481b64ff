"""Commands of advance reservations: make, change, delete and list them.

Start with `grsvadd`; the options that they share are in gsched.cli.options.reservation_options. A command here never
looks for room itself: the master does.
"""
