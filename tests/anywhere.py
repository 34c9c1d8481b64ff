#!/usr/bin/env python3
"""Run `make test` (--all: and `make test-all`; --rest: that alone) in fresh clones under conditions that broke tests.

    tests/anywhere.py [--all | --rest] [--keep] [CONDITION ...]      tests/anywhere.py --list

Each condition gets a clone of what is committed. What needs another user, or a Python below a closed home, is made in a
mount namespace of its own, so that the machine is left as it was; without root only the caller's own conditions are
tried, and the others are named. Exit code 0 when all that could be tried have passed, else 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUEST = "guest"
GUEST_ID = 2999
SPIN = "while :; do :; done"


@dataclass(frozen=True)
class Condition:
    """Where and how the tests are run. `set` and `unset` change the environment; `umask` is octal."""

    name: str
    place: str
    as_root: bool
    has_closed_python: bool = False
    busy: int = 0
    copies: int = 1
    umask: str = "022"
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


CONDITIONS = (
    Condition("user-in-tmp", "tmp", as_root=False, set={"LANG": "C", "LC_ALL": "C"}),
    Condition("user-at-home", "home", as_root=False, umask="077", unset=("HOME",)),
    Condition("root-with-a-closed-python", "a place with blanks", as_root=True, has_closed_python=True),
    Condition("root-in-tmp-on-a-busy-machine", "tmp", as_root=True, busy=6),
    Condition("root-with-umask-077", "home", as_root=True, umask="077", unset=("HOME",), set={"LANG": "C"}),
    Condition("user-with-blanks-on-a-busy-machine", "a place with blanks", as_root=False, busy=6),
    Condition("twice-at-the-same-time", "home", as_root=True, copies=2),
)


def main() -> int:
    """Try the conditions one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also make test-all")
    parser.add_argument("--rest", action="store_true", help="only make test-all, where make test has passed before")
    parser.add_argument("--keep", action="store_true", help="keep clones and logs of conditions that passed")
    parser.add_argument("--list", action="store_true", help="name the conditions")
    parser.add_argument("condition", nargs="*", help="those to try; all by default")
    options = parser.parse_args()
    if options.list:
        print(*(f"{each.name:36} {each}" for each in CONDITIONS), sep="\n")
        return 0
    unknown = set(options.condition) - {each.name for each in CONDITIONS}
    if unknown:
        parser.error(f"no such condition: {', '.join(sorted(unknown))}")
    targets = ["test-all"] if options.rest else ["test", "test-all"] if options.all else ["test"]
    failed = []
    for condition in CONDITIONS:
        if options.condition and condition.name not in options.condition:
            continue
        why = unavailable(condition)
        if why:
            print(f"{condition.name}: not tried: {why}", flush=True)
        elif not attempt(condition, targets, options.keep):
            failed.append(condition.name)
    print(f"failed: {', '.join(failed)}" if failed else "passed under all conditions that were tried")
    return 1 if failed else 0


def unavailable(condition: Condition) -> str:
    """Why the condition cannot be tried here; empty when it can."""
    if not condition.has_closed_python and next(open_interpreters(), None) is None:
        return "needs a Python 3.11 with venv and ensurepip that every user can execute (on Debian: python3-venv)"
    if os.geteuid() == 0:
        return "" if shutil.which("unshare") and shutil.which("setpriv") else "needs unshare and setpriv"
    return "needs root" if condition.as_root or condition.has_closed_python else ""


def attempt(condition: Condition, targets: list[str], keep: bool) -> bool:
    """Make clones, run the targets in each at the same time, and print what came of it."""
    base = Path(tempfile.mkdtemp(prefix="gsched-anywhere-", dir="/tmp" if condition.place == "tmp" else "/var/tmp"))
    base.chmod(0o755)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        for _ in range(condition.busy):
            spinning = stack.enter_context(subprocess.Popen(["/bin/sh", "-c", SPIN]))
            stack.callback(spinning.kill)
        runs = [start(condition, base, number, targets) for number in range(condition.copies)]
        codes = [process.wait() for process, _ in runs]
    for number, (code, (_, log)) in enumerate(zip(codes, runs, strict=True)):
        said = log.read_text(errors="replace")
        counts = ", ".join(re.findall(r"^(?:=+ )?(\d+ (?:passed|failed|error).*? in [\d.]+s)", said, re.M))
        which = f" ({number + 1} of {len(runs)})" if len(runs) > 1 else ""
        end = f"FAILED, see {log}" if code else "passed"
        took = f"{time.monotonic() - began:.0f} s with installation"
        print(f"{condition.name}{which}: {end}: {counts}; {took}", flush=True)
        for line in said.splitlines() if code else ():
            if line.startswith(("FAILED ", "ERROR tests", "make")):
                print(f"    {line[:200]}", flush=True)
    passed = not any(codes)
    if passed and not keep:
        shutil.rmtree(base, ignore_errors=True)
    return passed


def start(condition: Condition, base: Path, number: int, targets: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
    """Begin to run the targets in a new clone; also returns the file that what they print goes to."""
    place = base / str(number) / ("gsched clone" if " " in condition.place else "gsched")
    place.parent.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place)], check=True)
    home = place.parent
    home.chmod(0o700 if condition.place == "home" else 0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GSCHED_", "LSF_", "LSB_"))}
    env |= {"HOME": str(home), "TMPDIR": "/tmp", "PYTHON": str(python(condition, base)), **condition.set}
    for name in (*condition.unset, "MAKEFLAGS", "MAKELEVEL"):
        env.pop(name, None)
    line = f'umask {condition.umask}; cd "$1" && shift && for target; do make "$target" || exit; done'
    words = ["/bin/sh", "-c", line, "sh", str(place), *targets]
    if os.geteuid() == 0 and not condition.as_root:
        env |= {"USER": GUEST, "LOGNAME": GUEST}
        subprocess.run(["chown", "-R", f"{GUEST_ID}:{GUEST_ID}", str(home)], check=True)
        words = [*guest(base, home), *words]
    log = base / f"log.{number}"
    with log.open("wb") as file:
        return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file), log


def guest(base: Path, home: Path) -> list[str]:
    """What runs a command as an ordinary user whom nothing but a namespace of its own knows."""
    entry = f"{GUEST}:x:{GUEST_ID}:"
    for name, line in (("passwd", f"{entry}{GUEST_ID}::{home}:/bin/sh"), ("group", entry)):
        (base / name).write_text(Path("/etc", name).read_text().rstrip("\n") + f"\n{line}\n")
    mounts = f'mount --bind "{base}/passwd" /etc/passwd && mount --bind "{base}/group" /etc/group && exec "$@"'
    become = ["setpriv", f"--reuid={GUEST_ID}", f"--regid={GUEST_ID}", "--clear-groups", "--"]
    return ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", mounts, "sh", *become]


def python(condition: Condition, base: Path) -> Path:
    """The interpreter to install with: one that everybody may execute, or one below a home that is root's alone."""
    if not condition.has_closed_python:
        return next(open_interpreters())
    home = base / "closed home"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    source = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    unneeded = shutil.ignore_patterns("__pycache__", "test", "site-packages", "dist-packages")
    shutil.copytree(Path(os.__file__).parent, home / "lib" / version, symlinks=True, ignore=unneeded)
    (home / "bin").mkdir()
    shutil.copy2(source, home / "bin" / version)
    (home / "bin" / "python3").symlink_to(version)
    home.chmod(0o700)
    return home / "bin" / version


def open_interpreters() -> Iterator[Path]:
    """Pythons that gsched can be installed with, and that every user can execute; without root: that the caller can."""
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for folder in ("/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(":")):
        path = Path(folder, "python3")
        if not path.exists() or subprocess.run([str(path), "-c", check], capture_output=True).returncode:
            continue
        real = Path(os.path.realpath(path))
        if os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in (real, *real.parents)):
            yield path


if __name__ == "__main__":
    sys.exit(main())
