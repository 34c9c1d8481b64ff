"""Attempts whose folders somebody has removed while their processes live: what the kernel still tells of them.

Their folders are made again, so that they are followed to their ends like all others. A supervisor has what it claimed
its attempt by open to its end, also where the files are gone: order, claim, record of the start and the lists of the
job's hosts are read there.
Where it was killed too, the attempt's processes are found by mark and group; then nobody here knows any more what it
holds, and how it ends. A mark in the environment proves nothing of a foreign user's process: without a supervisor that
must be in the attempt's own control group. Signals nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gsched.base.ids import parse_attempt_name
from gsched.run import attempt_files
from gsched.run.account import UnixAccount
from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import tag_of
from gsched.run.order import Order, read_order, written_order
from gsched.run.processes import process_tree
from gsched.run.processes.attempt_marks import left_by
from gsched.run.spool import Spool, Started, SupervisorClaim

_FORK_SERVER = b"gsched.run.forkserver"
"""In the command line of each supervisor, which is a fork of the fork server."""
_LISTS = (attempt_files.HOSTFILE, attempt_files.AFFINITY)
"""For the job to read: its user's."""
_FILES = (*_LISTS, attempt_files.ORDER, attempt_files.STARTED, attempt_files.CLAIM)
"""What a supervisor has open, in the order in which it is written again."""
_MOST_LISTED = 4 << 20
_LOOKS, _LOOK_S = 20, 0.001
_OPEN_FILE = re.compile(rf"/attempts/([0-9]+\.[0-9]+)/({'|'.join(_FILES)})(?: \(deleted\))?")


def put_back(spool: Spool, cluster: str, names: Collection[str]) -> set[str]:
    """Make the folders again of those of these attempts that have lost theirs and whose supervisors live; names them.
    Raises ResourceExhausted, OSError."""
    missing = {name for name in names if not spool.is_claimed(name)}
    found = _supervised(process_tree.scan(), cluster) if missing else {}
    for name in found.keys() & missing:
        order, files = found[name]
        spool.put_back(name, files, order.account)
    return found.keys() & missing


def record_again(spool: Spool, cluster: str) -> None:
    """Make the folders of attempts that run and have none. Raises ResourceExhausted, OSError."""
    known = set(spool.names())
    table = process_tree.scan()
    supervised = _supervised(table, cluster)
    for name, (order, files) in supervised.items():
        if not spool.is_claimed(name):
            spool.put_back(name, files, order.account)
    by_name: dict[str, list[process_tree.Process]] = {}
    for pid, name in left_by(table, cluster, _whose).items():
        if name not in known and name not in supervised and not table[pid].is_dead and not _is_of_server(pid):
            by_name.setdefault(name, []).append(table[pid])
    for name, found in by_name.items():
        _record(spool, cluster, name, found)


def _whose(name: str) -> None:
    """Nobody knows whose an attempt without a folder is."""


def _supervised(table: Iterable[int], cluster: str) -> dict[str, tuple[Order, Mapping[str, bytes]]]:
    """Name -> order and files, of the attempts of this cluster's host whose supervisors live."""
    found = dict[str, tuple[Order, Mapping[str, bytes]]]()
    for pid in table:
        name, files = _open_files(pid) if _is_of_server(pid) else ("", {})
        try:
            claim = msgspec.json.decode(files[attempt_files.CLAIM], type=SupervisorClaim)
            order = read_order(files[attempt_files.ORDER])
        except (LookupError, ValueError):
            continue
        # Who is about to become a job has these files open as well, until it does.
        if claim.pid == pid and order.environment.get(process_tree.MARK_VARIABLE) == f"{cluster}/{name}":
            found[name] = order, {file: files[file] for file in _FILES if file in files}
    return found


def _open_files(pid: int) -> tuple[str, dict[str, bytes]]:
    """The attempt whose files a process has open, and what stands in them."""
    name, found = "", dict[str, bytes]()
    with contextlib.suppress(OSError):  # it ends at this moment
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            match = _OPEN_FILE.search(os.readlink(path))
            if match is not None and match.end() == len(match.string):
                name = match[1]
                with open(path, "rb") as file:
                    status, is_list = os.fstat(file.fileno()), match[2] in _LISTS
                    if _is_ours(status) or (is_list and stat.S_ISREG(status.st_mode)):
                        found[match[2]] = file.read(_MOST_LISTED if is_list else -1)
    return name, found


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file was written by an agent or supervisor of this user: an order is executed."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _record(spool: Spool, cluster: str, name: str, found: Collection[process_tree.Process]) -> None:
    """One whose supervisor was killed."""
    proven = [each for each in found if _is_proven(each, cluster, name)]
    if not proven:
        return
    main = min(proven, key=lambda each: (each.start, each.pid))
    nobody = SupervisorClaim(pid=0, start=0, boot_id=process_tree.boot_id())
    job_id, attempt = parse_attempt_name(name)
    order = Order(
        job_id=job_id,
        attempt=attempt,
        command="",
        account=_account_of(main.pid),
        environment={process_tree.MARK_VARIABLE: f"{cluster}/{name}"},
        gpus_unknown=True,
    )
    path = str(spool.folder(name))
    since_s = time.clock_gettime(time.CLOCK_BOOTTIME) - main.start / process_tree.TICKS_PER_S
    started = Started(
        pid=main.pid,
        start=main.start,
        started_at=time.time() - since_s,
        supervisor=nobody,
        exec_home="",
        exec_cwd="",
        stdout=f"{path}/{attempt_files.STDOUT}",
        stdout_from=0,
        stderr=f"{path}/{attempt_files.STDERR}",
        stderr_from=0,
    )
    files = (written_order(order), msgspec.json.encode(started), msgspec.json.encode(nobody))
    names = (attempt_files.ORDER, attempt_files.STARTED, attempt_files.CLAIM)
    spool.put_back(name, dict(zip(names, files, strict=True)), order.account)


def _is_proven(process: process_tree.Process, cluster: str, name: str) -> bool:
    if process_tree.owner_of(process.pid) == os.geteuid():
        return True
    return f"/{cgroup_files.FOLDER}/{tag_of(cluster)}/{name}" in cgroup_files.places_of(process.pid)


def _is_of_server(pid: int) -> bool:
    """Whether it is a supervisor, the fork server, or a fork of one of them that is no program of its own yet."""
    try:
        return process_tree.owner_of(pid) == os.geteuid() and _FORK_SERVER in _command_line(pid)
    except OSError:
        return False


def _command_line(pid: int) -> bytes:
    """Its beginning. A process that executes a program at this very moment has none, as a supervisor does that falls
    asleep or wakes (run.sleeping). Raises OSError: it is gone, or a thread of the kernel's.
    """
    for _ in range(_LOOKS):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if line := file.read(4096):
                return line
        os.readlink(f"/proc/{pid}/exe")
        time.sleep(_LOOK_S)
    return b""


def _account_of(pid: int) -> UnixAccount | None:
    """Whose process it is, where that is not this one's user. Its name is not asked for: that may take long."""
    uid, gid = process_tree.owner_of(pid), process_tree.group_of(pid)
    if uid is None or gid is None or uid == os.geteuid():
        return None
    return UnixAccount(name=str(uid), uid=uid, gid=gid)
