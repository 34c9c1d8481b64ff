"""Which function answers to which command name.

It imports no command before that command is asked for: a fault in one command must not take the others down, and a
command run without the door pays for itself alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from gsched.base.errors import BadRequest

if TYPE_CHECKING:
    from gsched.cli.session.call import Call
    from gsched.dialect.options import OptionTable

    Main = Callable[[Call], int]

COMMANDS: dict[str, str] = {
    "gsub": "gsched.cli.commands.gsub:main",
    "gjobs": "gsched.cli.commands.gjobs:main",
    "ghosts": "gsched.cli.commands.ghosts:main",
    "ghist": "gsched.cli.commands.ghist:main",
    "gqueues": "gsched.cli.commands.gqueues:main",
    "gid": "gsched.cli.commands.gid:main",
    "gload": "gsched.cli.commands.gload:main",
    "gparams": "gsched.cli.commands.gparams:main",
    "gclusters": "gsched.cli.commands.gclusters:main",
    "glshosts": "gsched.cli.commands.glshosts:main",
    "glsinfo": "gsched.cli.commands.glsinfo:main",
    "gusers": "gsched.cli.commands.gusers:main",
    "gugroup": "gsched.cli.commands.gugroup:main",
    "gmgroup": "gsched.cli.commands.gmgroup:main",
    "gacct": "gsched.cli.commands.gacct:main",
    "gapp": "gsched.cli.commands.gapp:main",
    "gkill": "gsched.cli.commands.gkill:main",
    "gmod": "gsched.cli.commands.gmod:main",
    "gswitch": "gsched.cli.commands.gswitch:main",
    "gtop": "gsched.cli.commands.gtop:main",
    "gbot": "gsched.cli.commands.gbot:main",
    "grun": "gsched.cli.commands.grun:main",
    "grequeue": "gsched.cli.commands.grequeue:main",
    "gbgadd": "gsched.cli.commands.gbgadd:main",
    "gbgmod": "gsched.cli.commands.gbgmod:main",
    "gbgdel": "gsched.cli.commands.gbgdel:main",
    "gjgroup": "gsched.cli.commands.gjgroup:main",
    "grsvadd": "gsched.cli.commands.grsvadd:main",
    "grsvmod": "gsched.cli.commands.grsvmod:main",
    "grsvdel": "gsched.cli.commands.grsvdel:main",
    "grsvs": "gsched.cli.commands.grsvs:main",
    "glimits": "gsched.cli.commands.glimits:main",
    "gpeek": "gsched.cli.commands.gpeek:main",
    "gpost": "gsched.cli.commands.gpost:main",
    "gread": "gsched.cli.commands.gread:main",
    "gwait": "gsched.cli.commands.gwait:main",
    "gjdepinfo": "gsched.cli.commands.gjdepinfo:main",
    "gstop": "gsched.cli.commands.gstop:main",
    "gresume": "gsched.cli.commands.gresume:main",
    "glaunch": "gsched.cli.commands.glaunch:main",
    "elim.gpu": "gsched.probe.elim_gpu:main",
}
"""Command name -> "module:function"; the function takes a Call and returns the exit code."""

ALIASES: dict[str, str] = {
    "bsub": "gsub",
    "bjobs": "gjobs",
    "bhosts": "ghosts",
    "bhist": "ghist",
    "bqueues": "gqueues",
    "lsid": "gid",
    "lsload": "gload",
    "bparams": "gparams",
    "lsclusters": "gclusters",
    "lshosts": "glshosts",
    "lsinfo": "glsinfo",
    "busers": "gusers",
    "bugroup": "gugroup",
    "bmgroup": "gmgroup",
    "bacct": "gacct",
    "bapp": "gapp",
    "bkill": "gkill",
    "bmod": "gmod",
    "bswitch": "gswitch",
    "btop": "gtop",
    "bbot": "gbot",
    "brun": "grun",
    "brequeue": "grequeue",
    "bgadd": "gbgadd",
    "bgmod": "gbgmod",
    "bgdel": "gbgdel",
    "bjgroup": "gjgroup",
    "brsvadd": "grsvadd",
    "brsvmod": "grsvmod",
    "brsvdel": "grsvdel",
    "brsvs": "grsvs",
    "blimits": "glimits",
    "bpeek": "gpeek",
    "bpost": "gpost",
    "bread": "gread",
    "bwait": "gwait",
    "bjdepinfo": "gjdepinfo",
    "bstop": "gstop",
    "bresume": "gresume",
    "blaunch": "glaunch",
}
"""LSF's own names: a symbolic link of that name to one of our scripts is enough for programs written for LSF."""

LOCAL_ONLY = frozenset({"elim.gpu"})
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
    target = COMMANDS.get(ALIASES.get(name, name))
    if target is None:
        raise BadRequest(f"{name}: no such command of gsched")
    return target
