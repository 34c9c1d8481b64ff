"""Commands of PBS that have no counterpart here: each says what to use instead, and exits with 1."""

from __future__ import annotations

from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program

_MANAGED = "configuration files say it (gadmin ckconfig, reconfig); gqueues -l and ghosts -l show it"
_RESERVED = "grsvadd, grsvmod, grsvdel and grsvs make, change, remove and show reservations"
INSTEAD = {
    "qmgr": _MANAGED,
    "qterm": "gadmin and the service manager stop the daemons",
    "qchkpt": "there is no checkpointing",
    "qgpumode": "gsub -gpu mode=... says how a job uses its GPUs",
    "qgpureset": "gadmin closes and opens GPUs",
    "pbs_rsub": _RESERVED,
    "pbs_ralter": _RESERVED,
    "pbs_rdel": _RESERVED,
    "pbs_rstat": _RESERVED,
    "pbs_release_nodes": "a job keeps its hosts until it ends",
    "pbs_attach": "glaunch starts processes within a job",
    "pbs_track": "glaunch starts processes within a job",
}
FAILURE = 1


def main(call: Call) -> int:
    """Say what to use."""
    name = program(call)
    text = f"{name}: is not supported: {INSTEAD[name]}\n"
    if call.argv[1:] in (["--help"], ["-h"]):
        call.write(text)
        return 0
    call.error(text)
    return FAILURE
