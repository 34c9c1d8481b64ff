"""What commands that tell of hosts work out of the master's answers: an order, a layout, windows of free slots.

Start with `load_listing` (gload). Nothing here prints by itself but for the call that it is given, and nothing decides.
"""
