"""A module for each of LSF's files (lsb.queues, lsf.conf ...) and for each large part of one.

Start with `lsb_queues`, or the module of another file; a row of `queue_parameters` says how a line of a queue is read.
Never accept part of a file: what is wrong becomes a finding, and the whole folder is refused.
"""
