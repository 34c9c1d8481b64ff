"""The names of the files in an attempt's folder.

Who reads and writes them are the supervisor in the fork server's bare interpreter, and the agent's spool.
"""

from __future__ import annotations

ORDER, CLAIM, STARTED, STATUS, SCRIPT, SUSPENDED = "order", "claim", "started", "status", "script", "suspended"
LIMITS = "limits"
WAITED = "waited"
STDOUT, STDERR, HOSTFILE, AFFINITY = "stdout", "stderr", "hostfile", "affinity"
NODEFILE, GPUFILE = "nodefile", "gpufile"
INPUT, FAILED, LAST, UNKILLABLE, WARNED = "input", "failed", "last", "unkillable", "warned"
WANTS_REQUEUE = "requeue"
ACTION_DUE = "action_due"
"""There as long as an action of JOB_CONTROLS that stops the job, or lets it go on, is not over."""
STOPPED = "stopped"
"""There when a job was stopped as usual because the site's action has failed, until it goes on."""
DEADLINE = "deadline"
"""Of a job that saves its state: until when it may (UTC seconds), or nothing. It is the job's to read."""
SIGNALLED = "signalled"
"""Number of the last signal that the agent has sent because the master has passed it on."""
USAGE = "usage"
"""Names of the files in an attempt's folder."""
