"""`gsched names lsf DIR`: the commands under LSF's names, for programs and people that know only those.

LSF_ENVDIR in the environment still wins, else GSCHED_ENVDIR: where LSF's names are called, LSF's variable comes first.
It must never replace a file that it did not write.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.app.installation.name_scripts import HEAD, folder_of_cluster, put_files, script_values, start_of
from gsched.base.envdir import read_setting
from gsched.cli.registry import ALIASES, LOCAL_ONLY
from gsched.config.configuration import load
from gsched.config.template import link_lsf_layout

ADMINISTRATION = {
    "badmin": "gadmin",
    **{name: name for name in ("lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons")},
}
"""LSF's name -> the function of gsched.app.entry that answers to it; these need no door."""
PROFILE = "profile.lsf"
MARK = "written by `gsched names lsf`"

_WANTED = (
    ("LSF_UNIT_FOR_LIMITS", "MB", "programs written for LSF take KB where it is not set, and gsched takes MB"),
    ("LSF_CONFDIR", "", "some programs look for it there"),
)
"""What programs read in lsf.conf, with its value (the folder where that is empty) and what is wrong without it."""

_ADMINISTRATION = """\
exec "$gsched_python" {flags} -X utf8 -c '
import sys
_, folder, *sys.argv = sys.argv
sys.path.insert(0, folder)
try:
    from gsched.app.entry import {function}
except ModuleNotFoundError:
    print("{name}: {gone}", file=sys.stderr)
    sys.exit(255)
del sys.path[0]
{function}()
' {folder} {name} "$@"
"""
_PROFILE = """\
# LSF's environment for sh and bash, {mark}:  . {path}
LSF_ENVDIR={conf}
LSF_SERVERDIR={server_dir}
LSF_BINDIR={folder}
# There are no libraries of LSF; some programs refuse to start where this is not set.
LSF_LIBDIR={folder}
case ":$PATH:" in
  *":$LSF_BINDIR:"*) ;;
  *) PATH=$LSF_BINDIR:$PATH ;;
esac
export LSF_ENVDIR LSF_SERVERDIR LSF_BINDIR LSF_LIBDIR PATH
"""


def write_lsf_names(folder: str, conf: str | None, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Write the commands and profile.lsf into `folder`, for the cluster of `conf` (default: the environment's).

    Raises BadRequest where there is no cluster, ConfigError when its files are wrong, Conflict when a file of another
    origin is in the way (nothing is written then), OSError when the folder cannot be written.
    """
    target = Path(os.path.abspath(folder))
    envdir = folder_of_cluster(conf, environment)
    cluster = load(envdir).required().cluster
    texts = _texts(target, envdir)
    put_files(target, texts, MARK, plain=PROFILE)
    for name, value, why in _WANTED:
        if not read_setting(envdir, name):
            line = f"{name}={value or envdir}"
            say(f"{envdir}/lsf.conf: add {line}: {why}")
    try:
        link_lsf_layout(envdir, cluster)
    except OSError as problem:
        say(f"{problem.filename}: {problem.strerror}: programs that look for lsb.params there will not find it")
    say(f"{len(texts) - 1} commands and {PROFILE} are in {target}, for the cluster {cluster} of {envdir}")
    say(f"use them: . {shlex.quote(str(target / PROFILE))}")


def _texts(target: Path, envdir: str) -> dict[str, str]:
    """Contents of all files by name."""
    values = script_values(envdir, "lsf")
    texts = {
        name: HEAD.format(name=name, **values) + start_of(name, values) for name in sorted({*ALIASES, *LOCAL_ONLY})
    }
    for name, function in ADMINISTRATION.items():
        texts[name] = (HEAD + _ADMINISTRATION).format(name=name, function=function, **values)
    texts[PROFILE] = _PROFILE.format(
        mark=MARK,
        path=shlex.quote(str(target / PROFILE)),
        conf=values["conf"],
        server_dir=shlex.quote(read_setting(envdir, "LSF_SERVERDIR")),
        folder=shlex.quote(str(target)),
    )
    return texts
