"""Attempts whose folders somebody has removed while their processes live: what the kernel still tells of them.

Their folders are made again, so that they are followed to their ends like all others: a supervisor that lives writes
how its job ended, else the end alone is seen. A mark in the environment proves nothing of a foreign user's process:
that must be in the attempt's control group or below a supervisor. Signals nobody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping

import msgspec

from gsched.base.ids import parse_attempt_name
from gsched.base.wholefile import replace_file
from gsched.run import attemptfiles, contain
from gsched.run.account import Account
from gsched.run.fence import tree
from gsched.run.order import Order
from gsched.run.remains import left_by
from gsched.run.spool import Claim, Spool, Started

_FORK_SERVER = b"gsched.run.forkserver"
"""In the command line of each supervisor, which is a fork of the fork server."""


def record_again(spool: Spool, cluster: str) -> None:
    """Make the folders of attempts that run and have none. Raises ResourceExhausted, OSError."""
    table = contain.scan()
    by_name: dict[str, list[contain.Process]] = {}
    known = set(spool.names())
    for pid, name in left_by(table, cluster).items():
        if name not in known and not table[pid].is_dead and not _is_supervisor(pid):
            by_name.setdefault(name, []).append(table[pid])
    for name, found in by_name.items():
        _record(spool, cluster, name, found, table)


def _record(
    spool: Spool, cluster: str, name: str, found: Collection[contain.Process], table: Mapping[int, contain.Process]
) -> None:
    proven = [each for each in found if _is_proven(each, name)]
    if not proven:
        return
    main = min(proven, key=lambda each: (each.start, each.pid))
    above = next((each for each in contain.ancestors(main.ppid) if _is_supervisor(each.pid)), None)
    claim = Claim(pid=above.pid if above else 0, start=above.start if above else 0, boot_id=contain.boot_id())
    job_id, attempt = parse_attempt_name(name)
    order = Order(
        job_id=job_id,
        attempt=attempt,
        command="",
        account=_account_of(main.pid),
        environment={contain.MARK_VARIABLE: f"{cluster}/{name}"},
        any_gpu=True,
    )
    if not spool.write_order(order):
        return
    path = str(spool.folder(name))
    since_s = time.clock_gettime(time.CLOCK_BOOTTIME) - main.start / contain.TICKS_PER_S
    started = Started(
        pid=main.pid,
        start=main.start,
        started_at=time.time() - since_s,
        supervisor=claim,
        exec_home="",
        exec_cwd="",
        stdout=f"{path}/{attemptfiles.STDOUT}",
        stdout_from=0,
        stderr=f"{path}/{attemptfiles.STDERR}",
        stderr_from=0,
    )
    replace_file(f"{path}/{attemptfiles.STARTED}", msgspec.json.encode(started))
    replace_file(f"{path}/{attemptfiles.CLAIM}", msgspec.json.encode(claim))


def _is_proven(process: contain.Process, name: str) -> bool:
    if contain.owner_of(process.pid) == os.geteuid():
        return True
    in_group = any(place.endswith(f"/{name}") for place in tree.places_of(process.pid))
    return in_group or any(_is_supervisor(each.pid) for each in contain.ancestors(process.ppid))


def _is_supervisor(pid: int) -> bool:
    """Or the fork server itself, which has no process of a job below it but by way of a supervisor."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return contain.owner_of(pid) == os.geteuid() and _FORK_SERVER in file.read(4096)
    except OSError:
        return False


def _account_of(pid: int) -> Account | None:
    """Whose process it is, where that is not this one's user."""
    uid = contain.owner_of(pid)
    if uid is None or uid == os.geteuid():
        return None
    return Account(name=str(uid), uid=uid, gid=os.stat(f"/proc/{pid}").st_gid)
