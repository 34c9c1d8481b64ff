"""`ghist`: the events of a job in order, and how many seconds it spent in each state.

The seconds are differences of whole-second stamps, so that they agree with the printed times and add up to TOTAL.
PEND lasts from submission to dispatch, RUN from dispatch to the end; what follows the end is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo
from math import floor

import msgspec

from gsched.base.ids import show_job
from gsched.cli.render.gpu_use.use_lines import gpu_use_block
from gsched.cli.render.jobs import job_lines
from gsched.cli.render.jobs.job_gpus import gpu_table
from gsched.cli.render.jobs.jobs_long import SEPARATOR
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.text_columns import INDENT, INDENT_WITH_YEAR, cell, cut_head, fold, left, printable
from gsched.cli.render.text.time_texts import hms, long_stamp
from gsched.model.event import JobMoved
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.views.past_query import JobTimes
from gsched.model.views.view import JobView

STATES = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN")
_SHORT_TITLE = "Summary of time in seconds spent in various states:\n"
_SHORT_HEADER = "JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL\n"
_LONG_HEADER = "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL\n"


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job. The kinds below know their words and the state they lead to.

    `state` "" leaves the state as it is, "END" ends the counting.
    """

    at: float
    state: str = ""

    def lines(self) -> tuple[str, ...]:
        """The texts of the event, each to be printed behind its stamp; a bare change of state has none."""
        return ()


class Dispatched(HistoryEvent, frozen=True, kw_only=True):
    """The scheduler chose hosts."""

    placed: tuple[HostAllocation, ...]
    effective_req: str
    state: str = "RUN"

    def lines(self) -> tuple[str, ...]:
        text = job_lines.placement("Dispatched", self.placed)
        if self.effective_req:
            text += f", Effective RES_REQ <{printable(self.effective_req)} >"
        return (text + ";",)


class Starting(HistoryEvent, frozen=True, kw_only=True):
    """The job's process exists."""

    pid: int

    def lines(self) -> tuple[str, ...]:
        return (f"Starting (Pid {self.pid});",)


class Executing(HistoryEvent, frozen=True, kw_only=True):
    """The command runs, and where."""

    exec_home: str
    exec_cwd: str
    pid: int

    def lines(self) -> tuple[str, ...]:
        home, cwd = printable(self.exec_home), printable(self.exec_cwd)
        return (f"Running with execution home <{home}>, Execution CWD <{cwd}>, Execution Pid <{self.pid}>;",)


class MessagePosted(HistoryEvent, frozen=True, kw_only=True):
    """An external message."""

    text: str
    user: str
    box: int = 0

    def lines(self) -> tuple[str, ...]:
        return (f'External Message "{printable(self.text)}" was posted from "{self.user}" to message box {self.box};',)


class Remark(HistoryEvent, frozen=True, kw_only=True):
    """Any event that is one sentence; `state` says where it leads. The functions below make LSF's own."""

    text: str

    def lines(self) -> tuple[str, ...]:
        return (f"{printable(self.text)};",)


class HistoryEnd(HistoryEvent, frozen=True, kw_only=True):
    """The job is DONE or EXIT. `cpu_s` None means that it never ran."""

    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float | None = None
    succeeded: bool
    term_reason: str = ""
    state: str = "END"

    def lines(self) -> tuple[str, ...]:
        how = job_lines.ending(self.succeeded, self.exit_code, self.signal, self.cpu_s) + ";"
        return (how,) if self.succeeded else (how, job_lines.completion(self.term_reason) + ";")


def suspended(at: float, *, state: str, why: str = "") -> Remark:
    """bstop: `state` is PSUSP or USUSP; `why`: what was said of it."""
    while_pending = " while pending" if state == "PSUSP" else ""
    return Remark(at=at, state=state, text=f"Suspended by the user or administrator{while_pending}{_because(why)}")


def suspended_by_system(at: float, reason: str) -> Remark:
    """The scheduler stopped the job."""
    return Remark(at=at, state="SSUSP", text=f"Suspended: {reason}")


def resumed(at: float, *, state: str, why: str = "") -> Remark:
    """bresume: `state` is PEND or RUN; `why`: what was said of it."""
    text = "Pending: Waiting for re-scheduling after being resumed by user" if state == "PEND" else "Running"
    return Remark(at=at, state=state, text=text + _because(why))


def _because(why: str) -> str:
    return f": {printable(why)}" if why else ""


def signalled(at: float, signal: str, user: str) -> Remark:
    """bkill: `signal` is a name such as KILL."""
    return Remark(at=at, text=f"Signal <{signal}> requested by user or administrator <{user}>")


def requeued(at: float, *, hold: bool = False) -> Remark:
    """The job went back to its queue; `hold`: as PSUSP."""
    return Remark(at=at, state="PSUSP" if hold else "PEND", text="Pending: Job has been requeued")


def requeue_requested(at: float, user: str) -> Remark:
    """brequeue of a started job, whose attempt is to end first."""
    return Remark(at=at, text=f"Requeue requested by user or administrator <{user}>")


def switched(at: float, queue: str, user: str) -> Remark:
    """bswitch."""
    return Remark(at=at, text=f"Switched to Queue <{queue}> by user or administrator <{user}>")


def moved(event: JobMoved) -> Remark:
    """btop, bbot; qorder of PBS."""
    end = "top" if event.to_top else "bottom"
    how = f"moved to position {event.position} relative to <{end}>"
    if event.exchanged_with:
        how = f"changed places with job <{show_job(event.exchanged_with)}>"
    return Remark(at=event.at, text=f"Job {how} by user or administrator <{event.by}>")


def forced(at: float, user: str) -> Remark:
    """brun."""
    return Remark(at=at, text=f"Job is forced to run by user or administrator <{user}>")


class Modified(HistoryEvent, frozen=True, kw_only=True):
    """bmod: one text per change."""

    user: str
    changes: tuple[str, ...]

    def lines(self) -> tuple[str, ...]:
        changes = "; ".join(printable(change) for change in self.changes) or "nothing"
        return (f"Parameters of Job are changed by user or administrator <{self.user}>: {changes};",)


def unreachable(at: float) -> Remark:
    """The host was lost from sight."""
    return Remark(at=at, state="UNKWN", text="Unknown; unable to reach the execution host")


def post_done(at: float) -> Remark:
    """All that follows a job's end is done."""
    return Remark(at=at, text="Post job process done successfully")


def post_failed(at: float) -> Remark:
    """A post-execution command failed."""
    return Remark(at=at, text="Post job process failed")


class HistoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job and what happened after its submission, in order of time."""

    job: ShownJob
    events: tuple[HistoryEvent, ...] = ()
    last: JobView | None = None
    """The job as the last of them left it."""


def state_seconds(record: HistoryRecord, now: float) -> dict[str, int]:
    """Whole seconds per state of STATES up to the end of the job, or `now`."""
    seconds = dict.fromkeys(STATES, 0)
    state, since = ("PSUSP" if record.job.spec.hold else "PEND"), int(record.job.view.submitted_at // 1)
    for event in record.events:
        if not event.state:
            continue
        at = max(since, int(event.at // 1))
        _count(seconds, state, at - since)
        state, since = event.state, at
    _count(seconds, state, max(0, int(now // 1) - since))
    return seconds


def _count(seconds: dict[str, int], state: str, time: int) -> None:
    """Time after an end is not counted: it is over, until the job is requeued."""
    if state != "END":
        seconds["UNKWN" if state == "ZOMBI" else state] += time


def render_history(
    records: Iterable[HistoryRecord],
    zone: tzinfo,
    now: float,
    *,
    unfolded: bool = False,
    year: bool = False,
    with_gpus: bool = False,
) -> str:
    """`ghist -l`, and with `unfolded` `ghist -UF`. `now` ends the counting of jobs that have not ended. `with_gpus`:
    what they made of their GPUs stands below their end.
    """
    return SEPARATOR.join(
        "".join(_record(each, zone, now, unfolded=unfolded, year=year, with_gpus=with_gpus)) for each in records
    )


def _record(
    record: HistoryRecord, zone: tzinfo, now: float, *, unfolded: bool, year: bool, with_gpus: bool
) -> Iterator[str]:
    job = record.job
    indent = INDENT_WITH_YEAR if year else INDENT

    def line(text: str) -> str:
        return text + "\n" if unfolded else fold(text, indent=indent)

    submitted = job_lines.submission(job, with_queue=True, zone=zone)
    yield "\n" + line(job_lines.header(job, with_state=False))
    yield line(f"{long_stamp(job.view.submitted_at, zone, year=year)}: {submitted}")
    used = gpu_use_block(job.usage.gpus, job.usage.cpu_s) if with_gpus else ""
    ended = next((event for event in reversed(record.events) if isinstance(event, HistoryEnd)), None)
    for event in record.events:
        stamp = long_stamp(event.at, zone, year=year)
        is_told = bool(used) and event is ended
        for text in event.lines():
            # LSF ends the line with a full stop where this block follows.
            yield line(f"{stamp}: {text.removesuffix(';')}." if is_told else f"{stamp}: {text}")
        if is_told:
            yield used
    if with_gpus and job.gpus_held:
        yield gpu_table(job.gpus_held)
    used_s = None if job.view.dispatched_at is None or ended is None else ended.at - job.view.dispatched_at
    for heading, texts in job_lines.used_of_host(job, used_s):
        yield f"\n{heading}:\n" + "".join(f"{text}\n" for text in texts)
    by = record.events[-1].at if has_ended(record) else now
    yield f"\nSummary of time in seconds spent in various states by  {long_stamp(by, zone, year=year)}\n" + _LONG_HEADER
    yield "  " + _cells(state_seconds(record, now), 9, 12) + "\n"


def has_ended(record: HistoryRecord) -> bool:
    """Whether the job is over, as far as its events say: a later requeue counts."""
    states = [event.state for event in record.events if event.state]
    return bool(states) and states[-1] == "END"


def seconds_of_times(told: JobTimes, now: float) -> dict[str, int]:
    """The same of a job that only waited and ran."""
    waited, ran = _waited_and_ran(told, now)
    return {**_NO_TIME, "PEND": waited, "RUN": ran}


_NO_TIME = dict.fromkeys(STATES, 0)


def _waited_and_ran(told: JobTimes, now: float) -> tuple[int, int]:
    since = floor(told.submitted_at)
    end = floor(now if told.finished_at is None else told.finished_at)
    begun = end if told.dispatched_at is None else floor(told.dispatched_at)
    if since <= begun <= end:
        return begun - since, end - begun
    end = max(since, end)  # a clock that was set back
    begun = min(end, max(since, begun))
    return begun - since, end - begun


def _plain_row(told: JobTimes, now: float) -> str:
    """As `summary_row`, of plain characters: of such rows there may be a million, and others want the processor too."""
    waited, ran = _waited_and_ran(told, now)
    name = told.name
    if len(name) > 8:
        name = "*" + name[-7:]
    return "%-7.7s %-7.7s %-9s %-8d0       %-8d0       0       0       %-10d\n" % (  # noqa: UP031  # half the time
        show_job(told.job_id),
        told.user,
        name,
        waited,
        ran,
        waited + ran,
    )


def _cells(seconds: dict[str, int], each: int, last: int, *, as_hms: bool = False) -> str:
    if as_hms:
        return "".join(left(hms(seconds[state]), each) for state in STATES) + left(hms(sum(seconds.values())), last)
    return "".join(f"{seconds[state]:<{each}d}" for state in STATES) + f"{sum(seconds.values()):<{last}d}"


SUMMARY_HEAD = _SHORT_TITLE + _SHORT_HEADER
SUMMARY_HEAD_HMS = (
    "Summary of time in hours:minutes:seconds spent in various states:\n"
    "JOBID   USER    JOB_NAME  PEND      PSUSP     RUN       USUSP     SSUSP     UNKWN     TOTAL\n"
)


def summary_row(told: HistoryRecord | JobTimes, now: float, *, wide: bool = False, as_hms: bool = False) -> str:
    """A job's row of `ghist`; `wide` (-w) cuts nothing, `as_hms` (-hms): times as HH:MM:SS."""
    if isinstance(told, JobTimes):
        if not wide and not as_hms and told.name.isascii() and told.name.isprintable() and told.user.isascii():
            return _plain_row(told, now)
        label, user, name, seconds = show_job(told.job_id), told.user, told.name, seconds_of_times(told, now)
    else:
        label, user, name = told.job.label, told.job.spec.user, told.job.display_name
        seconds = state_seconds(told, now)
    name = printable(name)
    if wide:
        start = f"{left(label, 7)} {left(user, 7)} {left(name, 9)} "
    else:
        start = f"{cell(label, 7)} {cell(user, 7)} {cell(cut_head(name, 8), 9)} "
    cells = _cells(seconds, 10, 10, as_hms=True) if as_hms else _cells(seconds, 8, 10)
    return start + cells + "\n"


def render_summary(records: Iterable[HistoryRecord | JobTimes], now: float, *, wide: bool = False) -> str:
    """`ghist`: one row per job."""
    return SUMMARY_HEAD + "".join(summary_row(record, now, wide=wide) for record in records)
