"""Commands under other systems' names: scripts that find gsched and the cluster from anywhere.

Each file names its interpreter, the place of gsched and the configuration folder, so that it works with any HOME, PATH,
working directory and environment. Nothing here ever replaces a file that gsched did not write.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
from collections.abc import Mapping
from pathlib import Path

import gsched
from gsched import command_table
from gsched.base.envdir import conf_dir
from gsched.base.errors import BadRequest, Conflict

HEAD = """\
#!/bin/bash -p
# {name}: a command of gsched, {mark}; the same command writes it anew.
if [[ -z ${{GSCHED_ENVDIR-}}${{LSF_ENVDIR-}} ]]; then export LSF_ENVDIR={conf}; fi
if [[ -n ${{GSCHED_ENVDIR-}} && -n ${{LSF_ENVDIR-}} ]]; then GSCHED_ENVDIR=$LSF_ENVDIR; fi
gsched_python={python}
if [[ ! -x $gsched_python ]]; then
  echo "{name}: there is no $gsched_python any more; {again} writes these commands for another installation" >&2
  exit 255
fi
# The interpreter does not start with a directory for its standard input; so it gets one that cannot be read.
[[ -d /dev/stdin ]] && exec 0>/dev/null
"""
# What asks the door does not need the interpreter where gsched was installed with a C compiler.
NATIVE_NAME = "gsched-command"
"""The native launcher, which takes the name as its first argument; as launcher/build_launcher.py has it."""
NATIVE = """\
gsched_native=${{gsched_python%/*}}/{native}
[[ -x $gsched_native ]] && exec "$gsched_native" {name} "$@"
"""
# As bin/launcher starts the commands: without `site`, and with LC_CTYPE as the caller set it.
COMMAND = """\
exec "$gsched_python" {flags} -S -X utf8 -c '
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


def script_values(envdir: str, system: str) -> dict[str, str]:
    """What fills HEAD and COMMAND, but for the name. `system`: the word behind `gsched names`."""
    place = Path(gsched.__file__).parent.parent
    again = f"gsched names {system}"
    return {
        "mark": f"written by `{again}`",
        "again": again,
        "conf": shlex.quote(envdir),
        "python": shlex.quote(os.path.abspath(sys.executable)),
        "native": NATIVE_NAME,
        "flags": _flags(place),
        "folder": shlex.quote(str(place)),
        # Within double quotes within single quotes.
        "gone": f'gsched is not installed for " + sys.executable + " any more; {again} writes these commands anew',
    }


def start_of(name: str, values: Mapping[str, str]) -> str:
    """The part of a script that starts the command of this name."""
    through_door = command_table.run_mode(name) not in command_table.WITHOUT_DOOR
    return ((NATIVE if through_door else "") + COMMAND).format(name=name, **values)


def folder_of_cluster(conf: str | None, environment: Mapping[str, str]) -> str:
    """The configuration folder, absolute. Raises BadRequest where there is no cluster."""
    envdir = os.path.abspath(conf or conf_dir(environment))
    if not os.path.isfile(os.path.join(envdir, "lsf.conf")):
        raise BadRequest(f"there is no lsf.conf in {envdir}; --conf names the configuration folder of a cluster")
    return envdir


def put_files(target: Path, texts: Mapping[str, str], mark: str, *, plain: str) -> None:
    """Write the files, all but `plain` to be executed.

    Raises Conflict when a file of another origin is in the way (nothing is written then), OSError when the folder
    cannot be written.
    """
    for name in texts:
        if os.path.lexists(target / name) and not _is_ours(target / name, mark):
            raise Conflict(f"{target / name} is there and was not {mark}; remove it or choose another folder")
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write(target / name, text, 0o644 if name == plain else 0o755)


def _flags(place: Path) -> str:
    """The interpreter's: nothing of the caller's environment counts, except where gsched is one user's package."""
    is_of_user = site.ENABLE_USER_SITE and str(place) == site.getusersitepackages()
    return "-E -P" if is_of_user else "-I"


def _is_ours(path: Path, mark: str) -> bool:
    try:
        with open(path, "rb") as file:
            return mark.encode() in file.read(400)
    except OSError:
        return False


def _write(path: Path, text: str, mode: int) -> None:
    """Put the file there whole: a command that is being started finds the old one or the new one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, "utf-8", "surrogateescape")
        new.chmod(mode)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
