"""What a job has in its environment so that `glaunch`, and MPI by way of it, starts tasks on its hosts.

Open MPI reads OMPI_MCA_* (version 4) and PRTE_MCA_* (version 5, PRRTE): what starts its daemons on other hosts in the
place of ssh, and which hosts there are. The Hydra of MPICH (HYDRA_*) and that of Intel MPI (I_MPI_HYDRA_*) know LSF:
they call `blaunch -n HOST COMMAND` and take hosts and slots from LSB_MCPU_HOSTS, but by themselves only where
LSF_BINDIR is set. On one host, too, that is how they know how many slots there are. What the job was submitted with of
these names is kept.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from gsched.dialect.launching.launcher_names import bare_launcher, with_path

SOCKET = "GSCHED_AGENT_SOCKET"
GIVEN = "GSCHED_MPI_VARIABLES"
"""Names of those that were put there: a job that is submitted by such a job must not have them from it."""

OPEN_MPI_LAUNCHER = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
OPEN_MPI_HOSTS = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
OPEN_MPI_SLOTS = ("OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots")
"""Of a host that is named once, in a host file of ours (same order): without it, as many as it has cores."""
HYDRA_KINDS = ("HYDRA_RMK", "HYDRA_LAUNCHER", "I_MPI_HYDRA_RMK", "I_MPI_HYDRA_BOOTSTRAP")
HYDRA_LAUNCHER = ("HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC")
HYDRA_INHERITED = "HYDRA_ENV"
"""`none`: a process has what its host's proxy has, and that `glaunch` has given what the job has on that host.

Otherwise MPICH writes the variables of the first host over it: the numbers of that host's GPUs.
"""


def launcher() -> str:
    """Path of `glaunch`, beside the interpreter; empty where it is not installed."""
    path = Path(sys.executable).parent / "glaunch"
    return str(path) if path.exists() else ""


def commands_folder() -> str:
    """The folder of gsched's commands on this host, which need not be in the PATH that a job was submitted with."""
    return str(Path(sys.executable).parent)


def with_launcher(command: str) -> str:
    """The command line; one that begins with `glaunch` has its path on this host: PATH is the submission's."""
    program = launcher() if bare_launcher(command) == "glaunch" else ""
    return with_path(command, shlex.quote(program)) if program else command


def launch_variables(environment: Mapping[str, str], socket: str, hostfile: str, slots: int) -> dict[str, str | None]:
    """Name -> value, None for what is not to be there. `socket`: the agent's, empty where there is none.

    `slots`: how many the job has; with one there is nothing to be told.
    """
    inherited = environment.get(GIVEN, "").split()
    found: dict[str, str | None] = dict.fromkeys((*inherited, GIVEN, SOCKET))
    if not socket:
        return found
    found[SOCKET] = socket
    program = launcher() if slots > 1 else ""
    if not program or len(program.split()) > 1:  # an MPI takes a path apart at its blanks, and starts nothing then
        return found
    wanted = {
        **dict.fromkeys(OPEN_MPI_LAUNCHER, program),
        **dict.fromkeys(OPEN_MPI_HOSTS, hostfile),
        **dict.fromkeys(OPEN_MPI_SLOTS, "1"),
        **dict.fromkeys(HYDRA_KINDS, "lsf"),
        **dict.fromkeys(HYDRA_LAUNCHER, program),
        HYDRA_INHERITED: "none",
    }
    given = {name: value for name, value in wanted.items() if name not in environment or name in inherited}
    if HYDRA_LAUNCHER[0] not in given:  # another launcher may bring no environment along
        given.pop(HYDRA_INHERITED, None)
    for hosts, default in zip(OPEN_MPI_HOSTS, OPEN_MPI_SLOTS, strict=True):
        if hosts not in given:  # a file of the job's own says what its hosts have
            given.pop(default, None)
    return {**found, **given, GIVEN: " ".join(given)}
