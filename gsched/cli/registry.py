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
    from gsched.cli.call import Call
    from gsched.dialect.options import OptionTable

    Main = Callable[[Call], int]

COMMANDS: dict[str, str] = {
    "gsub": "gsched.cli.gsub:main",
    "gjobs": "gsched.cli.gjobs:main",
    "ghosts": "gsched.cli.ghosts:main",
    "ghist": "gsched.cli.ghist:main",
    "gqueues": "gsched.cli.gqueues:main",
    "gid": "gsched.cli.gid:main",
    "gload": "gsched.cli.gload:main",
    "gparams": "gsched.cli.gparams:main",
    "gclusters": "gsched.cli.gclusters:main",
    "glshosts": "gsched.cli.glshosts:main",
    "glsinfo": "gsched.cli.glsinfo:main",
    "gusers": "gsched.cli.gusers:main",
    "gugroup": "gsched.cli.gugroup:main",
    "gmgroup": "gsched.cli.gmgroup:main",
    "gacct": "gsched.cli.gacct:main",
    "gapp": "gsched.cli.gapp:main",
    "gkill": "gsched.cli.gkill:main",
    "gmod": "gsched.cli.gmod:main",
    "gswitch": "gsched.cli.gswitch:main",
    "gtop": "gsched.cli.gtop:main",
    "gbot": "gsched.cli.gbot:main",
    "grun": "gsched.cli.grun:main",
    "grequeue": "gsched.cli.grequeue:main",
    "gbgadd": "gsched.cli.gbgadd:main",
    "gbgmod": "gsched.cli.gbgmod:main",
    "gbgdel": "gsched.cli.gbgdel:main",
    "gjgroup": "gsched.cli.gjgroup:main",
    "grsvadd": "gsched.cli.grsvadd:main",
    "grsvmod": "gsched.cli.grsvmod:main",
    "grsvdel": "gsched.cli.grsvdel:main",
    "grsvs": "gsched.cli.grsvs:main",
    "glimits": "gsched.cli.glimits:main",
    "gpeek": "gsched.cli.gpeek:main",
    "gpost": "gsched.cli.gpost:main",
    "gread": "gsched.cli.gread:main",
    "gwait": "gsched.cli.gwait:main",
    "gjdepinfo": "gsched.cli.gjdepinfo:main",
    "gstop": "gsched.cli.gstop:main",
    "gresume": "gsched.cli.gresume:main",
    "glaunch": "gsched.cli.glaunch:main",
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
