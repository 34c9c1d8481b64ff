"""What every command has at hand: its call, its connection to the master, the caller's time zone.

Start with `call.Call`. Never reads sys.argv, os.environ or standard streams by itself: a command may run in the door.
"""
