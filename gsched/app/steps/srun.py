"""`srun` where there is a job: what it asks for, where it asks, and the exit code.

It is within the job where the agent's socket is told and this is the job's first host; else (in salloc, with --jobid,
on another host of the job) the master passes it on.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import cast

STEP_FAILURE = 1


def main(argv: list[str]) -> int | None:
    """Run the step that argv asks for, and return the highest exit code of its tasks; None where there is no job that
    it could be of. `glaunch --srun` is srun within a job that srun has submitted.
    """
    name, words = (argv[0], argv[1:]) if argv[0] in ("srun", "salloc") else ("srun", argv[2:])
    if name != "srun" or not is_in_job(words):
        return None
    if "site" not in sys.modules:
        import_module("site").main()  # left out at the start, by -S
    # By its name: the launcher imports this module for every srun, and must import next to nothing by it.
    run = cast("Callable[[list[str]], int]", import_module("gsched.app.steps.step_run").run)
    return run([name, *words])


def is_in_job(arguments: list[str], environment: dict[str, str] | None = None) -> bool:
    """Whether srun with these words is a step of a job that is there: the environment names one, or --jobid does."""
    env = os.environ if environment is None else environment
    if env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID"):
        return True
    for word in arguments:
        if word == "--":
            return False
        if word.startswith("--jobid"):
            return True
    return False


def address_of(name: str) -> str:
    """The address of the host of this name, for SLURM_LAUNCH_NODE_IPADDR; 127.0.0.1 where nobody knows."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return "127.0.0.1"


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def pass_on(handler: Callable[[int, object], object] | signal.Handlers) -> None:
    """Have these signals go to the tasks; what is ignored already stays so. SIG_IGN: whoever sends them sends them to
    the tasks too.
    """
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
