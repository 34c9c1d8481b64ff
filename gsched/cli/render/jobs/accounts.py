"""`gacct` (bacct): what finished jobs took, summed up and one by one. GPU time is gsched's own.

Source of the layout: transcripts of bacct of LSF, which programs read line by line; trailing blanks belong to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from gsched.base.units import format_scaled_mib
from gsched.cli.render.jobs import job_lines
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.text_columns import INDENT, INDENT_WITH_YEAR, cell, cut_head, fold, left, printable
from gsched.cli.render.text.time_texts import long_stamp, short_stamp
from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan

RULE = "-" * 78 + "\n"
_ABOUT = "\nAccounting information about jobs that are: \n"
_TABLE = "     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP\n"
_BRIEF = "U/UID     QUEUE     SUBMIT_TIME  CPU_T      WAIT   TURNAROUND  FROM      EXEC_ON   JOB_NAME\n"


def heading(wanted: AccountFilter, zone: tzinfo) -> str:
    """What was asked for, a line each, and a rule."""
    states = {"DONE": "completed normally", "EXIT": "exited"}
    lines = [
        _names("submitted by", "users", wanted.users),
        _names("accounted on", "projects", wanted.projects),
        "  - " + states.get("".join(wanted.states), "completed normally or exited"),
        _names("executed on", "hosts", wanted.hosts),
        *(
            f"  - {verb} between  {_stamp(span.since, zone)} ,and   {_stamp(span.until, zone)}"
            for verb, span in _spans(wanted)
            if span
        ),
        _names("submitted to", "queues", wanted.queues),
        _names("accounted on", "service classes", (wanted.service_class,) if wanted.service_class else ()),
    ]
    if wanted.reservation:
        lines.append(f"  - accounted on reservation {wanted.reservation}")
    if wanted.application:
        lines.append(f"  - associated with application {wanted.application}")
    return _ABOUT + "".join(f"{line}\n" for line in lines) + RULE + "\n"


def _names(verb: str, what: str, names: Sequence[str]) -> str:
    return f"  - {verb} {what} " + "".join(f"{name}, " for name in names) if names else f"  - {verb} all {what}."


def _spans(wanted: AccountFilter) -> tuple[tuple[str, TimeSpan], ...]:
    return ("completed", wanted.completed), ("submitted", wanted.submitted), ("dispatched", wanted.dispatched)


def _stamp(at: float | None, zone: tzinfo) -> str:
    return "the beginning" if at is None else long_stamp(at, zone, year=True)


@dataclass(slots=True)
class Measure:
    """Sum, largest and smallest of a quantity."""

    count: int = 0
    total: float = 0.0
    largest: float = 0.0
    smallest: float = 0.0

    def add(self, value: float) -> None:
        # Not by max() and min(): of jobs there may be a million.
        if value > self.largest or not self.count:
            self.largest = value
        if value < self.smallest or not self.count:
            self.smallest = value
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Summary:
    """What all jobs took together. Times in seconds."""

    done: int = 0
    exited: int = 0
    cpu: Measure = field(default_factory=Measure)
    wait: Measure = field(default_factory=Measure)
    turnaround: Measure = field(default_factory=Measure)
    hog: Measure = field(default_factory=Measure)
    gpu: Measure = field(default_factory=Measure)
    gpu_jobs: int = 0
    first_end: float | None = None
    last_end: float | None = None

    def add(self, account: Account) -> None:
        self.done += account.state == "DONE"
        self.exited += account.state != "DONE"
        self.cpu.add(account.cpu_s)
        self.wait.add(wait_s(account))
        turnaround = turnaround_s(account)
        self.turnaround.add(turnaround)
        self.hog.add(account.cpu_s / turnaround if turnaround else 0.0)
        self.gpu.add(account.gpu_s)
        self.gpu_jobs += account.gpu_s > 0
        at = account.finished_at
        if self.first_end is None or at < self.first_end:
            self.first_end = at
        if self.last_end is None or at > self.last_end:
            self.last_end = at


def turnaround_s(account: Account) -> float:
    """From submission to the end: a difference of printed times, whole seconds."""
    return float(max(0, int(account.finished_at) - int(account.submitted_at)))


def wait_s(account: Account) -> float:
    """From submission to dispatch; a job that never started waited up to its end."""
    until = account.finished_at if account.dispatched_at is None else account.dispatched_at
    return float(max(0, int(until) - int(account.submitted_at)))


def hog_factor(account: Account) -> float:
    """CPU time over turnaround time."""
    turnaround = turnaround_s(account)
    return account.cpu_s / turnaround if turnaround else 0.0


def render_summary(summary: Summary, zone: tzinfo) -> str:
    """The block SUMMARY."""
    cpu, wait, turnaround, hog = summary.cpu, summary.wait, summary.turnaround, summary.hog
    lines = [
        "SUMMARY:      ( time unit: second ) ",
        f" Total number of done jobs:  {summary.done:6d}      Total number of exited jobs: {summary.exited:5d}",
        f" Total CPU time consumed: {cpu.total:9.1f}      Average CPU time consumed: {cpu.average:7.1f}",
        f" Maximum CPU time of a job: {cpu.largest:7.1f}      Minimum CPU time of a job: {cpu.smallest:7.1f}",
        f" Total wait time in queues: {wait.total:7.1f}",
        f" Average wait time in queue:{wait.average:7.1f}",
        f" Maximum wait time in queue:{wait.largest:7.1f}      Minimum wait time in queue:{wait.smallest:7.1f}",
        f" Average turnaround time: {turnaround.average:9.0f} (seconds/job)",
        f" Maximum turnaround time: {turnaround.largest:9.0f}      Minimum turnaround time: {turnaround.smallest:9.0f}",
        f" Average hog factor of a job: {hog.average:5.2f} ( cpu time / turnaround time )",
        f" Maximum hog factor of a job: {hog.largest:5.2f}      Minimum hog factor of a job: {hog.smallest:5.2f}",
        *_throughput(summary, zone),
    ]
    if summary.gpu_jobs:
        gpu = summary.gpu
        lines += [
            f" Total GPU time consumed: {gpu.total / 3600:9.2f} hours (GPUs held * time), in {summary.gpu_jobs} job(s)",
            f" Maximum GPU time of a job: {gpu.largest / 3600:7.2f} hours",
        ]
    return "\n".join(lines) + "\n"


def _throughput(summary: Summary, zone: tzinfo) -> Iterator[str]:
    """Jobs per hour between the first end and the last; of jobs that ended at one time there is none."""
    if summary.first_end is None or summary.last_end is None:
        return
    hours = (int(summary.last_end) - int(summary.first_end)) / 3600
    jobs = summary.done + summary.exited
    if hours:
        yield f" Total throughput: {jobs / hours:13.2f} (jobs/hour)  during {hours:8.2f} hours"
    begin, end = short_stamp(summary.first_end, zone), short_stamp(summary.last_end, zone)
    yield f" Beginning time: {begin:>18}      Ending time: {end:>21}"


def render_job(account: Account, job: ShownJob, zone: tzinfo, *, unfolded: bool = False, year: bool = False) -> str:
    """One job of -l; with `unfolded` (-UF) each of its lines is one physical line."""
    indent = INDENT_WITH_YEAR if year else INDENT

    def line(text: str) -> str:
        return text + "\n" if unfolded else fold(text, indent=indent)

    def event(at: float, text: str) -> str:
        return line(f"{long_stamp(at, zone, year=year)}: {text}")

    parts = [line(job_lines.header(job, with_state=True))]
    parts.append(event(job.view.submitted_at, job_lines.submission(job, with_queue=False, zone=zone)))
    if account.dispatched_at is not None and job.placed:
        text = job_lines.placement("Dispatched", job.placed)
        if job.effective_req:
            text += f", Effective RES_REQ <{printable(job.effective_req)} >"
        parts.append(event(account.dispatched_at, text + ";"))
    how = "Completed <done>" if account.state == "DONE" else job_lines.completion(job.term_reason)
    parts.append(event(account.finished_at, how + "."))
    parts.append("\nAccounting information about this job:\n")
    if job.view.share_group:
        parts.append(f"     Share group charged <{job.view.share_group}>\n")
    parts.append(_TABLE + _values(account, job))
    if job.exceptions:
        parts.append(f"     EXCEPTION STATUS:  {'  '.join(job.exceptions)}\n")
    if account.gpu_s:
        parts.append(f"     GPUs: {job.gpu_count};  GPU time: {account.gpu_s / 3600:.4f} hours\n")
    return "".join(parts)


def _values(account: Account, job: ShownJob) -> str:
    memory, swap = job.usage.max_mem_mib, job.usage.swap_mib
    status = "done" if account.state == "DONE" else "exit"
    return (
        f"{account.cpu_s:10.2f} {wait_s(account):8.0f} {turnaround_s(account):14.0f} {status:>8} "
        f"{hog_factor(account):14.4f} {_size(memory):>6} {_size(swap):>6}\n"
    )


def _size(mib: float | None) -> str:
    return "-" if mib is None else format_scaled_mib(mib)


def render_brief(rows: Iterable[tuple[Account, ShownJob]], zone: tzinfo, *, wide: bool = False) -> str:
    """-b: a line per job; `wide` (-w) cuts nothing."""
    lines = [_BRIEF]
    for account, job in rows:
        hosts = job.placed[0].host if job.placed else "-"
        name = printable(job.display_name)
        lay, named = (left, name) if wide else (cell, cut_head(name, 10))
        spec, at = job.spec, short_stamp(job.view.submitted_at, zone)
        lines.append(
            f"{lay(spec.user, 9)} {lay(spec.queue, 9)} {at} {account.cpu_s:6.2f} {wait_s(account):8.0f} "
            f"{turnaround_s(account):10.0f}  {lay(spec.submit_host, 9)} {lay(hosts, 9)} {named}\n"
        )
    return "".join(lines)
