"""Which function answers to which command name.

It imports no command before that command is asked for: a fault in one command must not take the others down, and a
command run without the door pays for itself alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from gsched import command_table
from gsched.base.errors import BadRequest

if TYPE_CHECKING:
    from gsched.cli.session.call import Call
    from gsched.dialect.options import OptionTable

    Main = Callable[[Call], int]

COMMANDS: dict[str, str] = {
    name: "gsched.probe.elim_gpu:main" if mode == command_table.IS_ELIM else f"gsched.cli.commands.{topic}.{name}:main"
    for name, _, mode, topic in command_table.COMMANDS
}
"""Command name -> "module:function"; the function takes a Call and returns the exit code."""

_SLURM_MODULES = {
    **{name: f"accounting.{name}" for name in ("sacct", "sacctmgr", "sshare", "sstat")},
    **{name: f"others.{name}" for name in ("sattach", "sprio")},
    **dict.fromkeys(("sbcast", "scrontab", "sdiag", "sreport", "strigger"), "others.not_there"),
    "scontrol": "control.scontrol",
}
"""Those that are not in gsched.cli.slurm itself."""
SLURM_COMMANDS: dict[str, str] = {
    name: f"gsched.cli.slurm.{_SLURM_MODULES.get(name, name)}:main" for name, _ in command_table.SLURM_COMMANDS
}
"""The same of Slurm's names."""

PBS_COMMANDS: dict[str, str] = {name: f"gsched.cli.pbs.{module}:main" for name, _, module in command_table.PBS_COMMANDS}
"""The same of PBS's names."""

ALIASES: dict[str, str] = {theirs: ours for ours, theirs, *_ in command_table.COMMANDS if theirs}
"""LSF's own names: a symbolic link of that name to one of our scripts is enough for programs written for LSF."""

LOCAL_ONLY = frozenset(name for name, _, mode, _ in command_table.COMMANDS if mode == command_table.IS_ELIM)
"""Programs that are started by a daemon and run for ever: never through the door, and not imported when it warms up."""


def load(name: str) -> Main:
    """Import and return the function behind a command name. Raises BadRequest for a name nobody answers to."""
    module, _, function = _target(name).partition(":")
    return cast("Main", getattr(importlib.import_module(module), function))


def table_of(name: str) -> OptionTable:
    """The options of a command: the TABLE of its module. Raises BadRequest for a name nobody answers to.

    Those of LOCAL_ONLY read their few options themselves and have no table.
    """
    return cast("OptionTable", importlib.import_module(_target(name).partition(":")[0]).TABLE)


def _target(name: str) -> str:
    target = COMMANDS.get(ALIASES.get(name, name)) or (SLURM_COMMANDS | PBS_COMMANDS).get(name)
    if target is None:
        raise BadRequest(f"{name}: no such command of gsched")
    return target
