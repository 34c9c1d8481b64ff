"""The state machine and the engine: commands in, events and instructions out. Pure: no I/O, no clock, no threads."""
