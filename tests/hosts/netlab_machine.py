"""What netlab.py asks of the machine: namespaces, control groups, users, and what of its files every user must see."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grpc

from gsched.agent import trusted_files
from gsched.base.errors import GschedError

REPOSITORY = Path(__file__).resolve().parents[2]
USERS = {"alice": 2001, "bob": 2002, "carol": 2003, "gsched": 2900}
"""Of every host of a lab."""
TOOLS = ("unshare", "nsenter", "setpriv", "ip")
PREFIX = "gsnet"


@functools.cache
def unavailable() -> str:
    """Why this machine cannot have a lab; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: util-linux, iproute2)"
    trial = "mount -t proc proc /proc && mount -t sysfs sysfs /sys && ip link add trial0 type veth peer name trial1 && "
    trial += "ip link add trial2 type bridge"
    done = subprocess.run([*new_namespaces(), "sh", "-c", trial], capture_output=True, text=True)
    if done.returncode != 0:
        return f"no hosts can be made of namespaces here: {' '.join(done.stderr.split())}"
    closed = next((path for path in (*needed(), *samples()) if not is_open(path)), None)
    if closed:
        return f"{closed} is closed to other users (a clone and a .venv made with umask 022 are open)"
    try:
        trusted_files.check("/etc")  # of the interpreter and the sources: agents of root look at them as well
    except GschedError as error:
        return error.text
    return ""


def new_namespaces() -> list[str]:
    kinds = ["--net", "--uts", "--ipc", "--mount", "--propagation", "private", "--pid"]
    return ["unshare", *kinds, "--fork", "--kill-child=SIGKILL", "--"]


def run(words: list[str], stdin: str = "") -> None:
    """Raises CalledProcessError with what the command said."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        error = subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        error.add_note(f"{stdin}{done.stderr}")
        raise error


def pairs(values: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={value}" for name, value in values.items())


@functools.cache
def needed() -> tuple[Path, ...]:
    """Folders that every user of a host must be able to enter: the sources, and all that the interpreter is made of."""
    found = [REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)]
    link = Path(sys.executable)
    while link.is_symlink():
        link = link.parent / os.readlink(link)
        found.append(link.parent)
    kept: list[Path] = []
    for path in sorted({path.resolve() for path in found}):
        if path != Path("/usr/bin") and not any(path.is_relative_to(above) for above in (*kept, Path("/usr"))):
            kept.append(path)
    return tuple(kept)


def samples() -> tuple[Path, ...]:
    """Files in those folders by which it shows whether others can read what is there: a command, sources, a package."""
    return Path(sys.executable).with_name("gsched"), Path(trusted_files.__file__), Path(grpc.__file__)


def is_open(path: Path) -> bool:
    """Whether others may read the file, or enter the folder and list it."""
    wanted = 0o005 if path.is_dir() or path.parent.name == "bin" else 0o004
    return path.stat().st_mode & wanted == wanted


def own_files(paths: Iterable[str]) -> list[str]:
    """Those of the paths that are a host's own: not the sources and the interpreter, nor folders on the way to them."""

    def is_needed(path: Path) -> bool:
        return any(path.is_relative_to(each) or each.is_relative_to(path) for each in needed())

    return [path for path in paths if not is_needed(Path(path))]


def closed_above(path: Path) -> str:
    """The topmost folder above that other users may not enter; empty when there is none."""
    above = reversed(path.parents)
    return next((str(each) for each in above if not os.stat(each).st_mode & 0o001), "")


def wait_for_namespace(pid: int) -> None:
    """Until the process has a network of its own."""
    own = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + 120
    while os.readlink(f"/proc/{pid}/ns/net") == own:
        assert time.monotonic() < deadline, "unshare takes too long"
        time.sleep(0.002)


def child_of(pid: int) -> int:
    """The one child of unshare or nsenter. Raises StopIteration when it has none."""
    try:
        return next(int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except FileNotFoundError:
        raise StopIteration from None


def start_of(pid: int) -> str:
    """When the process was started, in ticks since boot; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return ""


# -- users ------------------------------------------------------------------------------------------------------------


def add_users(etc: Path) -> None:
    """The lab's users, each with a group of its own."""
    names = set(USERS)
    for name, line in (
        ("passwd", "{name}:x:{uid}:{uid}::/home/{name}:/bin/sh"),
        ("group", "{name}:x:{uid}:"),
        ("shadow", "{name}:*:19000:0:99999:7:::"),
    ):
        path = etc / name
        lines = [each for each in path.read_text().splitlines() if each.partition(":")[0] not in names]
        lines += [line.format(name=user, uid=uid) for user, uid in USERS.items()]
        path.write_text("\n".join([*lines, ""]))


def make_homes(folder: Path) -> None:
    folder.mkdir(mode=0o755, exist_ok=True)
    for name, uid in USERS.items():
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, uid, uid)


# -- control groups ---------------------------------------------------------------------------------------------------


def hierarchies() -> list[str]:
    """Where hierarchies of control groups are mounted, of both versions."""
    found: dict[str, None] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] in ("cgroup", "cgroup2"):
            found[before.split()[4]] = None
    return list(found)


def make_groups(name: str) -> dict[str, str]:
    """A group of this name in each hierarchy that lets us: what the host takes for the top of the hierarchy."""
    made = {}
    for base in hierarchies():
        with contextlib.suppress(OSError):
            group = Path(base) / name
            group.mkdir(exist_ok=True)
            _allow_all_processors(group)
            if Path(base).is_relative_to("/sys"):  # hidden by the host's own /sys
                made[base] = str(group)
    return made


def _allow_all_processors(group: Path) -> None:
    """A new group of version 1 allows none, which hwloc, and so Open MPI, takes for a machine of one core."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).exists():
            (group / name).write_text((group.parent / name).read_text())


def remove_groups(name: str) -> None:
    for base in hierarchies():
        for folder, _, _ in os.walk(os.path.join(base, name), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def sweep() -> None:
    """Remove the groups of labs whose makers were killed: their processes have gone with them."""
    for base in hierarchies():
        for path in Path(base).glob(f"{PREFIX}-*-*-*-*"):
            _, pid, start, _ = path.name.split("-", 3)
            if start_of(int(pid)) != start:
                remove_groups(path.name)
