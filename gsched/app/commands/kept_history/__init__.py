"""Words of `gadmin history`: what is kept of the past, and the room that it takes.

Start with `history_group`. They must never remove a job that is in no archive: the master
does, by the ages of lsb.params.
"""
