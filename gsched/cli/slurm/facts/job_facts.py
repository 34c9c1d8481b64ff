"""One job, one element of an array, or the elements of an array that still wait, in Slurm's words.

Every command that shows jobs takes its facts from here, so that they never differ. Nothing is made up: what gsched does
not know is None or empty. Source: squeue(1), sacct(1), scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

import functools
import grp
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from gsched.base import indices
from gsched.base.ids import array_of, index_of
from gsched.base.node_lists import fold_nodes
from gsched.cli.slurm.facts.slurm_clock import SlurmClock
from gsched.cli.slurm.job_states import reason_of, state_of
from gsched.model.jobs.job import FINISHED, PENDING, JobSpec, Usage
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.views.view import JobView

BY_OWNER = frozenset({"TERM_OWNER", "TERM_FORCE_OWNER", "TERM_REQUEUE_OWNER"})
ENDED_FROM_OUTSIDE = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL"})
"""States whose job has no exit code of its own; that of its script stands in the step."""
MOST_PRIORITY = (1 << 32) - 2
_OF_QUEUE = 1_000
"""What the priority of a queue counts in that of its jobs."""
_LONGEST_LIST = 64
_MEMORY = re.compile(r"\bmem=([0-9.]+)(MB|GB|TB|KB)?", re.ASCII)
_UNITS = {"KB": 1 / 1024, "MB": 1.0, "": 1.0, "GB": 1024.0, "TB": 1024.0**2}


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """`elements`: of several elements that wait, their indices `2-5%2`, and `count` of them; else empty and 1."""

    view: JobView
    clock: SlurmClock
    elements: str = ""
    count: int = 1

    @property
    def spec(self) -> JobSpec:
        return self.view.spec

    # -- numbers and names ----------------------------------------------------------------------------------------

    @property
    def array_id(self) -> int:
        """Number of the job, of an element that of its array."""
        return array_of(self.view.job_id)

    @property
    def index(self) -> str:
        """`3`, or `2-5%2`; empty of a job that is no array."""
        return self.elements or shown_index(self.view)

    @property
    def shown_id(self) -> str:
        """`12`, `12_3`, `12_[4-9%2]`."""
        if self.elements:
            return f"{self.array_id}_[{self.elements}]"
        return f"{self.array_id}_{self.index}" if self.index else str(self.view.job_id)

    @property
    def raw_id(self) -> str:
        """The job's own number; of elements that wait together that of their array."""
        return str(self.array_id) if self.elements else str(self.view.job_id)

    @property
    def name(self) -> str:
        return self.spec.display_name

    @property
    def uid(self) -> int | None:
        """The owner's; None on a host that does not know the owner."""
        account = _account(self.spec.user)
        return account[0] if account is not None else None

    @property
    def group(self) -> tuple[int, str] | None:
        """The owner's primary group."""
        account = _account(self.spec.user)
        return (account[1], account[2]) if account is not None else None

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return state_of(self.view)

    @property
    def reason(self) -> str:
        return reason_of(self.view)

    @property
    def is_pending(self) -> bool:
        return self.view.state in PENDING

    @property
    def has_ended(self) -> bool:
        return self.view.state in FINISHED

    @property
    def exit_code(self) -> tuple[int, int]:
        """(exit code, signal) of its script; 0 and 0 while there is none."""
        result = self.view.result
        if not self.has_ended or result is None:
            return 0, 0
        return (0, result.signal) if result.signal is not None else (result.exit_code or 0, 0)

    @property
    def job_exit_code(self) -> tuple[int, int]:
        """The same of the job as a whole: none of one that was ended from outside."""
        return (0, 0) if self.state in ENDED_FROM_OUTSIDE else self.exit_code

    # -- time -----------------------------------------------------------------------------------------------------

    @property
    def started_at(self) -> float | None:
        return self.view.started_at or self.view.dispatched_at

    @property
    def planned_at(self) -> float | None:
        """When it is expected to start, while it waits."""
        return self.view.planned.at if self.is_pending and self.view.planned is not None else None

    @property
    def ends_at(self) -> float | None:
        """When it has ended, or will by its run limit."""
        if self.view.finished_at is not None:
            return self.view.finished_at
        started, limit = self.started_at, self.spec.run_limit_s
        return None if self.is_pending or started is None or limit is None else started + limit

    @property
    def elapsed_s(self) -> float:
        """From its start to its end or now."""
        if self.is_pending or self.started_at is None:
            return 0.0
        return max(0.0, (self.view.finished_at or self.clock.now) - self.started_at)

    @property
    def priority(self) -> int:
        """The priority of its queue counts first, then its own among its owner's; 0 only of a job that is held."""
        if self.view.state == "PSUSP":
            return 0
        own = min(max(0, self.spec.priority or 0), _OF_QUEUE - 1)
        return min(max(1, self.view.queue_priority * _OF_QUEUE + own), MOST_PRIORITY)

    @property
    def eligible_at(self) -> float:
        return max(self.view.submitted_at, self.spec.begin_at or 0.0)

    # -- what it has ----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[HostAllocation, ...]:
        """What it holds or held on each host, the first execution host first."""
        return self.view.allocation.hosts if self.view.allocation is not None else ()

    @property
    def hosts(self) -> list[str]:
        return [part.host for part in self.parts]

    @property
    def node_list(self) -> str:
        return fold_nodes(self.hosts)

    @property
    def cpus(self) -> int:
        return sum(part.slots for part in self.parts) or self.spec.slots

    @property
    def nodes(self) -> int:
        """Nodes that it has, or needs at least."""
        return len(self.parts) or requested_nodes(self.spec)

    @property
    def memory_mib(self) -> float:
        """Memory reserved on a node; 0: none is."""
        held = max((part.amounts.get("mem", 0.0) for part in self.parts), default=0.0)
        return held or requested_memory(self.spec)

    @property
    def gpus_per_node(self) -> int:
        return max((part.whole_gpus for part in self.parts), default=0) or (
            requested_gpus(self.spec) if not self.parts else 0
        )

    @property
    def gpus(self) -> int:
        """All that it has, or asks for."""
        return sum(part.whole_gpus for part in self.parts) if self.parts else requested_gpus(self.spec) * self.nodes

    @property
    def usage(self) -> Usage:
        """What is known of its use, up to now or its end."""
        result = self.view.result
        return result.usage if result is not None else self.view.usage or Usage()


def shown_index(job: JobView) -> str:
    """Index of an array's element as its owner counts; empty of a job that is none."""
    index = index_of(job.job_id)
    return str(index - job.spec.index_shift) if index else ""


def requested_nodes(spec: JobSpec) -> int:
    """Nodes that it asks for at least."""
    found = re.search(r"span\[(?:ptile=([0-9]+)|hosts=1)", spec.res_req, re.ASCII)
    if found is not None and found[1]:
        return -(-spec.slots // max(1, int(found[1])))
    return max(1, len(spec.hosts)) if spec.front_end else 1


def requested_gpus(spec: JobSpec) -> int:
    """GPUs that it asks for on each node."""
    requirement = spec.combined_gpu_req or spec.gpu_req
    found = re.search(r"\bnum=([0-9]+)", requirement, re.ASCII)
    return int(found[1]) if found is not None else int(bool(requirement))


def requested_memory(spec: JobSpec) -> float:
    """MiB that it asks for on each node; 0: nothing is said."""
    found = _MEMORY.search(spec.res_req)
    return float(found[1]) * _UNITS[found[2] or ""] if found is not None else 0.0


@functools.lru_cache(maxsize=1024)
def _account(user: str) -> tuple[int, int, str] | None:
    """(uid, gid, group's name)."""
    try:
        account = pwd.getpwnam(user)
    except (KeyError, ValueError):  # ValueError: a name with a NUL byte
        return None
    try:
        return account.pw_uid, account.pw_gid, grp.getgrgid(account.pw_gid).gr_name
    except KeyError:
        return account.pw_uid, account.pw_gid, str(account.pw_gid)


def folded(jobs: Iterable[SlurmJob], env: Mapping[str, str]) -> Iterator[SlurmJob]:
    """The jobs with the elements of an array that wait for one reason, next to each other, as one."""
    for key, group in groupby(jobs, key=_waits_with):
        members = list(group)
        if key is None or len(members) < 2:
            yield from members
            continue
        first = members[0]
        text = str(indices.of([index_of(job.view.job_id) - first.spec.index_shift for job in members]))
        limit = f"%{first.spec.array_limit}" if first.spec.array_limit else ""
        longest = _length(env.get("SLURM_BITSTR_LEN", ""))
        if longest and len(text) > longest:
            text = text[: max(0, longest - 3)] + "..."
        yield SlurmJob(first.view, first.clock, text + limit, len(members))


def _waits_with(job: SlurmJob) -> tuple[int, str, str] | None:
    """What is the same of elements that are shown as one; None: it is shown for itself."""
    if not job.is_pending or not index_of(job.view.job_id):
        return None
    return job.array_id, job.view.state, job.reason


def _length(text: str) -> int:
    """SLURM_BITSTR_LEN; 0: no limit."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else _LONGEST_LIST
