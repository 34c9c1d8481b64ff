"""Which attempt a process comes from when nobody answers for it any more: by its mark, or by its control group.

Both outlive every daemon, so a restart of the agent forgets nothing. A mark is believed of processes of the attempt's
own user alone: anybody can put any mark into the environment of processes of his own. Reads /proc only (proc(5),
environ and cgroup) and signals nobody. A process that carries neither, because it cleared its environment where there
are no groups, is told apart by whoever has seen it while its job lived.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import tag_of
from gsched.run.processes import process_tree

_NAME = r"([0-9]+\.[0-9]+)"
_ANY_GROUP = re.compile(f"/{cgroup_files.FOLDER}/[^/]+/{_NAME}")


def left_by(pids: Iterable[int], cluster: str, uid_of: Callable[[str], int | None]) -> dict[int, str]:
    """Process id -> name of the attempt (`17.1`) of this cluster's host that it was started by; others are left out.

    `cluster` is unique to the cluster and host, as for ProcessExecutor. `uid_of(name)`: number of the user that the
    attempt ran as; where it is not known, a mark counts for processes of this process's own user.
    """
    mark = re.compile(re.escape(f"{cluster}/") + _NAME)
    group = re.compile(f"/{cgroup_files.FOLDER}/{tag_of(cluster)}/{_NAME}")
    found = {}
    for pid in pids:
        groups = (group.fullmatch(place) for place in cgroup_files.places_of(pid))
        name = next((each[1] for each in groups if each is not None), "")
        if not name and (marked := mark.fullmatch(process_tree.mark_of(pid))) is not None:
            name = marked[1] if _is_of(pid, uid_of(marked[1])) else ""
        if name:
            found[pid] = name
    return found


def is_job_of_any(pid: int) -> bool:
    """Whether the process is a job's of some cluster on this machine.

    Its control group says so for certain: root alone makes groups there. A mark is believed of processes of this
    process's own user, whose clusters have no groups.
    """
    in_group = any(_ANY_GROUP.fullmatch(place) is not None for place in cgroup_files.places_of(pid))
    return in_group or (bool(process_tree.mark_of(pid)) and _is_of(pid, None))


def _is_of(pid: int, uid: int | None) -> bool:
    return process_tree.owner_of(pid) == (os.getuid() if uid is None else uid)
