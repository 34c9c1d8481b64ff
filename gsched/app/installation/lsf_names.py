"""`gsched names lsf DIR`: the commands under LSF's names, for programs and people that know only those.

Each file names its interpreter, the place of gsched and the configuration folder, so that it works with any HOME, PATH,
working directory and environment. LSF_ENVDIR in the environment still wins, else GSCHED_ENVDIR: LSF's names are called,
so LSF's variable comes first here. It must never replace a file that it did not write.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import gsched
from gsched.base.envdir import conf_dir, read_setting
from gsched.base.errors import BadRequest, Conflict
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

_HEAD = """\
#!/bin/bash -p
# {name}: a command of gsched, {mark}; the same command writes it anew.
if [[ -z ${{GSCHED_ENVDIR-}}${{LSF_ENVDIR-}} ]]; then export LSF_ENVDIR={conf}; fi
if [[ -n ${{GSCHED_ENVDIR-}} && -n ${{LSF_ENVDIR-}} ]]; then GSCHED_ENVDIR=$LSF_ENVDIR; fi
python={python}
if [[ ! -x $python ]]; then
  echo "{name}: there is no $python any more; gsched names lsf writes these commands for another installation" >&2
  exit 255
fi
# The interpreter does not start with a directory for its standard input; so it gets one that cannot be read.
[[ -d /dev/stdin ]] && exec 0>/dev/null
"""
# As bin/launcher starts the commands: without `site`, and with LC_CTYPE as the caller set it.
_COMMAND = """\
exec "$python" {flags} -S -X utf8 -c '
import sys
folder, locale, name, *rest = sys.argv[1:]
sys.path.insert(0, folder)
try:
    from gsched.app.launch import start
    del sys.path[0]
except ModuleNotFoundError:
    # Installed anew in another way, such as editable.
    del sys.path[0]
    import site
    site.main()
    try:
        from gsched.app.launch import start
    except ModuleNotFoundError:
        print(name + ": {gone}", file=sys.stderr)
        sys.exit(255)
start(name, rest, locale)
' {folder} "${{LC_CTYPE-}}" {name} "$@"
"""
_ADMINISTRATION = """\
exec "$python" {flags} -X utf8 -c '
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
# Within double quotes within single quotes.
_GONE = 'gsched is not installed for " + sys.executable + " any more; gsched names lsf writes these commands anew'
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
    envdir = os.path.abspath(conf or conf_dir(environment))
    if not os.path.isfile(os.path.join(envdir, "lsf.conf")):
        raise BadRequest(f"there is no lsf.conf in {envdir}; --conf names the configuration folder of a cluster")
    cluster = load(envdir).required().cluster
    texts = _texts(target, envdir)
    for name in texts:
        if os.path.lexists(target / name) and not _is_ours(target / name):
            raise Conflict(f"{target / name} is there and was not {MARK}; remove it or choose another folder")
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write(target / name, text)
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
    place = Path(gsched.__file__).parent.parent
    values = {
        "mark": MARK,
        "conf": shlex.quote(envdir),
        "python": shlex.quote(os.path.abspath(sys.executable)),
        "flags": _flags(place),
        "folder": shlex.quote(str(place)),
        "gone": _GONE,
    }
    texts = {name: (_HEAD + _COMMAND).format(name=name, **values) for name in sorted({*ALIASES, *LOCAL_ONLY})}
    for name, function in ADMINISTRATION.items():
        texts[name] = (_HEAD + _ADMINISTRATION).format(name=name, function=function, **values)
    texts[PROFILE] = _PROFILE.format(
        mark=MARK,
        path=shlex.quote(str(target / PROFILE)),
        conf=values["conf"],
        server_dir=shlex.quote(read_setting(envdir, "LSF_SERVERDIR")),
        folder=shlex.quote(str(target)),
    )
    return texts


def _flags(place: Path) -> str:
    """The interpreter's: nothing of the caller's environment counts, except where gsched is one user's package."""
    is_of_user = site.ENABLE_USER_SITE and str(place) == site.getusersitepackages()
    return "-E -P" if is_of_user else "-I"


def _is_ours(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return MARK.encode() in file.read(400)
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    """Put the file there whole: a command that is being started finds the old one or the new one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, "utf-8", "surrogateescape")
        new.chmod(0o644 if path.name == PROFILE else 0o755)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
