"""A job's message boxes, and which of them gsched uses itself: nowhere else is one chosen.

What is in them is kept with the job; who may post there is for core to say. docs/commands.md has the same as a table.
"""

from __future__ import annotations

MOST_BOX = 128
"""MAX_JOB_MSG_NUM of LSF's lsb.params; the boxes are 0 to this."""
GPUS_BOX = 0
"""Where the scheduler tells which GPUs the job has got, as LSF does."""
QMSG_BOX = 1
"""Where qmsg posts, of PBS's commands."""
IDLE_BOX = 124
"""Where a job is warned that its GPUs are idle (GPU_IDLE)."""
PROFILES_BOX = 125
"""Where a launch lists what its profilers have left; shown below a heading of its own, not among the messages."""
CHECKPOINT_BOX, RESULT_BOX = 126, 127
"""What calls of a Python program save, and what they return (gsched.api.executor), where it goes through the master."""
SNAPSHOT_BOX = 128
"""What the job was submitted from (gsub --snapshot)."""
OWN_BOXES = frozenset({CHECKPOINT_BOX, RESULT_BOX})
"""Boxes that a job's owner alone posts to and reads the attachments of, which takes the place of the one before: what
is there is unpickled, so that whoever posts it acts for its owner.
"""
