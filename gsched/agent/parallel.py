"""What a job has in its environment so that `glaunch`, and MPI by way of it, starts tasks on its hosts.

Open MPI reads OMPI_MCA_* (version 4) and PRTE_MCA_* (version 5, PRRTE): what starts its daemons on other hosts in the
place of ssh, and which hosts there are. MPICH's Hydra, which is not told, starts one process here: it knows LSF's way
by itself, with blaunch. What the job was submitted with of these names is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

SOCKET = "GSCHED_AGENT_SOCKET"
GIVEN = "GSCHED_MPI_VARIABLES"
"""Names of those that were put there: a job that is submitted by such a job must not have them from it."""


def launcher() -> str:
    """Path of `glaunch`, beside the interpreter; empty where it is not installed."""
    path = Path(sys.executable).parent / "glaunch"
    return str(path) if path.exists() else ""


def launch_variables(environment: Mapping[str, str], socket: str, hostfile: str, hosts: int) -> dict[str, str | None]:
    """Name -> value, None for what is not to be there. `socket`: the agent's, empty where there is none.

    `hosts`: how many the job has; with one, MPI needs no help.
    """
    inherited = environment.get(GIVEN, "").split()
    found: dict[str, str | None] = dict.fromkeys((*inherited, GIVEN, SOCKET))
    if not socket:
        return found
    found[SOCKET] = socket
    program = launcher()
    if hosts < 2 or not program:
        return found
    wanted = {
        "OMPI_MCA_plm_rsh_agent": program,
        "PRTE_MCA_plm_ssh_agent": program,
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "HYDRA_LAUNCHER": "lsf",
        "HYDRA_LAUNCHER_EXEC": program,
        "HYDRA_RMK": "lsf",
    }
    given = {name: value for name, value in wanted.items() if name not in environment or name in inherited}
    return {**found, **given, GIVEN: " ".join(given)}
