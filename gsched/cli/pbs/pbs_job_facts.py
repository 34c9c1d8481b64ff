"""Jobs and arrays as PBS tells of them: states, attributes in qstat's order, exit status.

Source: qstat(1B) and pbs_job_attributes(7B) of OpenPBS 23; the numbers of ends in its job.h.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise

from gsched.base.coded_text import order_of, sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, index_of
from gsched.base.patterns import expand_job_id
from gsched.cli.pbs.pbs_call import shown_id
from gsched.dialect.pbs.chunk_lists import Chunk, text_of
from gsched.dialect.pbs.job_chunks import chunks_of, said_of
from gsched.dialect.pbs.pbs_values import parse_duration, show_duration, show_job, show_size
from gsched.dialect.slurm.array_lists import shifted
from gsched.dialect.slurm.dependencies import depend_list
from gsched.model.jobs.job import FINISHED, PENDING, JobSpec
from gsched.model.views.view import JobView

STATES = "QRHEFWSXBTMU"
"""Letters of states; no job here is ever in E, M, T or U."""
_ENDS = {
    "TERM_RUNLIMIT": -29,
    "TERM_CPULIMIT": -28,
    "TERM_MEMLIMIT": -27,
    "TERM_SWAP": -26,
}
_DELETED = 265
"""Exit status of a job that somebody has ended: 256 and KILL, as qdel leaves it in PBS."""
_BY_SOMEBODY = frozenset({"TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN", "TERM_ORPHAN_SYSTEM"})

Attributes = dict[str, str | dict[str, str]]
"""Name -> value, or resource -> value."""


@dataclass(frozen=True, slots=True)
class PbsJob:
    """A line of qstat: a job, an array's element, or an array with its elements."""

    job: JobView
    """Of an array its first element."""
    members: tuple[JobView, ...] = ()
    """All elements of an array that is shown as one; none: it is a job."""

    @property
    def spec(self) -> JobSpec:
        return self.job.spec

    @property
    def is_array(self) -> bool:
        return bool(self.members)

    @property
    def number(self) -> int:
        return array_of(self.job.job_id)

    def name(self, server: str) -> str:
        """`12.server`, `12[].server`, `12[3].server`."""
        if self.is_array:
            return show_job(self.number, None, server, is_array=True)
        return shown_id(self.job.job_id, self.spec, server)

    @property
    def state(self) -> str:
        """The letter."""
        if not self.is_array:
            return letter_of(self.job)
        states = {letter_of(member) for member in self.members}
        if states <= {"X", "F"}:
            return "F"
        if states & {"R", "S", "X", "F"}:
            return "B"
        return next(letter for letter in "QHW" if letter in states)


def letter_of(job: JobView) -> str:
    """Its state; an element that has ended is X."""
    if job.state in FINISHED:
        return "X" if index_of(job.job_id) else "F"
    if job.state in ("USUSP", "SSUSP"):
        return "S"
    if job.state not in PENDING:
        return "R"
    if job.state == "PSUSP" or _waits_for_jobs(job):
        return "H"
    return "W" if _waits_for_time(job) else "Q"


def _reason(job: JobView) -> str:
    return order_of(job.pending_reasons[0].text)[0] if job.pending_reasons else ""


def _waits_for_jobs(job: JobView) -> bool:
    return bool(job.spec.dependency) and _reason(job).startswith("dependency.")


def _waits_for_time(job: JobView) -> bool:
    return job.spec.begin_at is not None and _reason(job) == "pending.start_time"


def hold_of(job: JobView) -> str:
    """Hold_Types: u by a user, s by an administrator or by another job, n by nobody."""
    if _waits_for_jobs(job):
        return "s"
    if job.state == "PSUSP":
        return "s" if _reason(job) == "pending.suspended_by_admin" else "u"
    return "n"


def exit_status(job: JobView) -> int | None:
    """Of one that has ended; None where PBS has none."""
    if job.state not in FINISHED:
        return None
    result = job.result
    if result is None or result.term_reason in _BY_SOMEBODY:
        return _DELETED
    if result.term_reason in _ENDS:
        return _ENDS[result.term_reason]
    if result.exit_code is not None:
        return result.exit_code
    return 256 + result.signal if result.signal is not None else -1


def collected(jobs: Iterable[JobView], *, one_by_one: bool) -> list[PbsJob]:
    """Lines of qstat in order of numbers: elements one by one, or each array once."""
    ordered = sorted(jobs, key=lambda job: (array_of(job.job_id), index_of(job.job_id)))
    if one_by_one:
        return [PbsJob(job) for job in ordered]
    arrays: dict[int, list[JobView]] = {}
    for job in ordered:
        arrays.setdefault(array_of(job.job_id), []).append(job)
    return [
        PbsJob(members[0], tuple(members)) if index_of(members[0].job_id) else PbsJob(members[0])
        for members in arrays.values()
    ]


def comment_of(job: JobView) -> str:
    """Why it waits, or since when it runs."""
    if job.state in PENDING:
        return f"Not Running: {sentence(job.pending_reasons[0].text)}" if job.pending_reasons else ""
    return ""


def chunks_or_none(job: JobView) -> Sequence[Chunk]:
    """Its chunks; none where they cannot be told."""
    try:
        return chunks_of(job.spec)
    except BadRequest:
        return ()


def resources_asked(job: JobView) -> dict[str, str]:
    """Resource_List."""
    spec, said, chunks = job.spec, said_of(job.spec), chunks_or_none(job)
    found: dict[str, str] = {}
    memory = sum(chunk.count * chunk.mem_mib for chunk in chunks)
    gpus = sum(chunk.count * chunk.ngpus for chunk in chunks)
    if "cput" in said:
        found["cput"] = _duration(said["cput"])
    if memory:
        found["mem"] = show_size(memory)
    found["mpiprocs"] = str(sum(chunk.count * chunk.mpiprocs for chunk in chunks) or spec.slots)
    found["ncpus"] = str(spec.slots)
    if gpus:
        found["ngpus"] = str(gpus)
    found["nodect"] = str(sum(chunk.count for chunk in chunks) or 1)
    if "nodes" in said:
        found["nodes"] = said["nodes"]
    found["place"] = said.get("place", "scatter" if "nodes" in said else "free" if "select" in said else "pack")
    found["select"] = said.get("select") or text_of(chunks)
    if spec.run_limit_s is not None:
        found["walltime"] = show_duration(spec.run_limit_s)
    return found


def _duration(text: str) -> str:
    try:
        return show_duration(parse_duration(text))
    except BadRequest:
        return text


def resources_used(job: JobView, now: float) -> dict[str, str]:
    """resources_used; empty of one that has not started."""
    usage = job.result.usage if job.result is not None else job.usage
    if job.started_at is None and job.dispatched_at is None:
        return {}
    seconds = (job.finished_at or now) - (job.started_at or job.dispatched_at or now)
    cpu = usage.cpu_s if usage is not None else 0.0
    memory = (usage.max_mem_mib or usage.mem_mib or 0.0) if usage is not None else 0.0
    swap = (usage.max_swap_mib or usage.swap_mib or 0.0) if usage is not None else 0.0
    slots = job.allocation.slots if job.allocation is not None else job.spec.slots
    return {
        "cpupercent": str(math.floor(100 * cpu / seconds) if seconds >= 1 else 0),
        "cput": show_duration(cpu),
        "mem": show_size(memory),
        "ncpus": str(slots),
        "vmem": show_size(memory + swap),
        "walltime": show_duration(seconds),
    }


def moment(at: float, zone: tzinfo) -> str:
    """As ctime(3) writes it."""
    return datetime.fromtimestamp(at, zone).strftime("%a %b %e %H:%M:%S %Y")


def _file(job: JobView, path: str, extension: str) -> str:
    """`HOST:PATH`."""
    full = posixpath.join(job.spec.run_dir, path or "/dev/null")
    return f"{job.spec.submit_host}:{expand_job_id(full, job.job_id, extension=extension)}"


def exec_host(job: JobView) -> str:
    """`n1/0*68+n2/0*68`."""
    return "+".join(f"{part.host}/0*{part.slots}" for part in job.allocation.hosts) if job.allocation else ""


def exec_vnode(job: JobView) -> str:
    """`(n1:ncpus=68)+(n2:ncpus=68:ngpus=1)`."""
    parts = job.allocation.hosts if job.allocation is not None else ()
    return "+".join(
        f"({part.host}:ncpus={part.slots}{f':ngpus={len(part.gpus)}' if part.gpus else ''})" for part in parts
    )


def attributes_of(
    shown: PbsJob, server: str, now: float, zone: tzinfo, shift_of: Callable[[int], int] = lambda number: 0
) -> Attributes:
    """What qstat -f tells, in its order. `shift_of`: of another array's indices, by its number."""
    job, spec = shown.job, shown.spec
    found: Attributes = {"Job_Name": spec.display_name, "Job_Owner": f"{spec.user}@{spec.submit_host}"}
    used = resources_used(job, now) if not shown.is_array else {}
    if used:
        found["resources_used"] = used
    found |= {"job_state": shown.state, "queue": spec.queue, "server": server}
    if spec.project:
        found["Account_Name"] = spec.project
    if shown.is_array:
        found |= _array_facts(shown)
    elif index_of(job.job_id):
        found |= {"array_id": show_job(shown.number, None, server, is_array=True)}
        found |= {"array_index": str(index_of(job.job_id) - spec.index_shift)}
    found |= {"Checkpoint": "u", "ctime": moment(job.submitted_at, zone)}
    if spec.dependency:
        found["depend"] = depend_of(spec.dependency, server, shift_of)
    found["Error_Path"] = _file(job, spec.error_file or spec.output_file, "err")
    if not shown.is_array and job.allocation is not None:
        found |= {"exec_host": exec_host(job), "exec_vnode": exec_vnode(job)}
    found["Hold_Types"] = hold_of(job)
    if spec.interactive:
        found["interactive"] = "True"
    found |= {"Join_Path": "n" if spec.error_file else "oe", "Keep_Files": "n", "Mail_Points": _mail_points(spec)}
    if spec.mail_user:
        found["Mail_Users"] = spec.mail_user
    changed = job.finished_at or job.started_at or job.dispatched_at or job.submitted_at
    found |= {"mtime": moment(changed, zone), "Output_Path": _file(job, spec.output_file, "out")}
    found |= {"Priority": str(spec.priority or 0), "qtime": moment(job.submitted_at, zone)}
    found |= {"Rerunable": str(bool(spec.rerunnable)), "Resource_List": resources_asked(job)}
    found |= _course(shown, zone)
    return found


def depend_of(condition: str, server: str, shift_of: Callable[[int], int]) -> str:
    """`afterok:62.server`, whoever submitted the job; a condition that PBS has no word for as it stands."""

    def job(number: int, indices: str) -> str:
        if not indices:
            return show_job(number, None, server)
        try:
            text, _ = shifted(indices.replace(" ", ""), -shift_of(number))
        except BadRequest:  # an asterisk: all elements
            text = ""
        return show_job(number, None, server).replace(".", f"[{text}].", 1)

    return depend_list(condition, job) or condition


def _array_facts(shown: PbsJob) -> Attributes:
    spec = shown.spec
    states = [letter_of(member) for member in shown.members]
    counts = {
        "Queued": sum(state in "QHW" for state in states),
        "Running": sum(state in "RS" for state in states),
        "Exiting": 0,
        "Expired": sum(state == "X" for state in states),
    }
    left = [
        index_of(member.job_id) - spec.index_shift
        for member, state in zip(shown.members, states, strict=True)
        if state in "QHW"
    ]
    indices = [index_of(member.job_id) - spec.index_shift for member in shown.members]
    found: Attributes = {
        "array": "True",
        "array_state_count": " ".join(f"{name}:{count}" for name, count in counts.items()) + " ",
        "array_indices_submitted": _ranges(indices),
        "array_indices_remaining": _ranges(left) if left else "-",
    }
    if spec.array_limit:
        found["max_run_subjobs"] = str(spec.array_limit)
    return found


def _ranges(indices: Sequence[int]) -> str:
    """`0-9,12`, or `1-9:2` where the step is the same throughout."""
    steps = {later - earlier for earlier, later in pairwise(indices)}
    if len(indices) > 1 and len(steps) == 1:
        step = steps.pop()
        return f"{indices[0]}-{indices[-1]}" + (f":{step}" if step > 1 else "")
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _mail_points(spec: JobSpec) -> str:
    letters = ("a" if spec.notify_error else "", "b" if spec.notify_begin else "", "e" if spec.notify_end else "")
    return "".join(letters) or "n"


def _course(shown: PbsJob, zone: tzinfo) -> Attributes:
    """What has become of it."""
    job, spec = shown.job, shown.spec
    found: Attributes = {}
    started = job.started_at or job.dispatched_at
    if started is not None and not shown.is_array:
        found["stime"] = moment(started, zone)
        if job.pid is not None:
            found["session_id"] = str(job.pid)
    if job.finished_at is not None and shown.state in "FX":
        found["obittime"] = moment(job.finished_at, zone)
    found["Variable_List"] = {
        "PBS_O_HOME": spec.home,
        "PBS_O_LOGNAME": spec.user,
        "PBS_O_HOST": spec.submit_host,
        "PBS_O_WORKDIR": spec.cwd,
        "PBS_O_SYSTEM": "Linux",
        "PBS_O_QUEUE": spec.queue,
    }
    comment = comment_of(job)
    if comment:
        found["comment"] = comment
    found["etime"] = moment(job.submitted_at, zone)
    if job.planned is not None and job.planned.at is not None and job.state in PENDING:
        found["estimated"] = {"start_time": moment(job.planned.at, zone)}
    if job.attempt:
        found["run_count"] = str(job.attempt)
    status = exit_status(job) if not shown.is_array else None
    if status is not None:
        found["Exit_status"] = str(status)
    found["project"] = spec.project or "_pbs_project_default"
    return found
