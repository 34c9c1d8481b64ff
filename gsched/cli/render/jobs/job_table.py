"""`gjobs` short and wide: one row per job. Columns of bjobs(1) of LSF 10.1, cut as it cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import tzinfo

from gsched.base.ids import array_of
from gsched.cli.render.jobs.shown_job import ShownJob, slots_on_host
from gsched.cli.render.text.reason_texts import DEFAULT_LEVEL
from gsched.cli.render.text.text_columns import cell, cut_head, left, printable
from gsched.cli.render.text.time_texts import as_of, packed_cpu, packed_stamp, short_stamp
from gsched.model.views.jobs_in_columns import JobsInColumns

HEADER = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"
_ALL_HEADER = (
    HEADER.rstrip("\n")
    + "    PROJ_NAME  CPU_USED     MEM     SWAP    PIDS         START_TIME     FINISH_TIME    SLOTS\n"
)
_EXTRA_AT = HEADER.index("SUBMIT_TIME") + 15
_MORE_HOSTS = " " * 45
NO_HOST = "   -    "
"""EXEC_HOST of a pending job where nothing is cut: a word of its own, so that counting words works."""


Extra = tuple[str, Callable[[ShownJob], str]]
"""A further column behind the usual ones: its heading and its values."""


@dataclass(frozen=True, slots=True)
class ReasonLines:
    """Rows are followed by reasons (bjobs -p, -s). `asked_at`: now, where they say when they were found; None: the text
    is LSF's.
    """

    asked_at: float | None = None


def render_short(
    jobs: Iterable[ShownJob],
    zone: tzinfo,
    *,
    header: bool = True,
    reasons: ReasonLines | None = None,
    extra: Extra | None = None,
) -> str:
    """The default listing; with `reasons` each row is followed by its reasons (bjobs -p, -s)."""
    lines = [_header(extra)] if header else []
    for job in jobs:
        row = f"{job.job_id:<7d} {_short_start(job)} {_short_name(job.display_name)} {_last_columns(job, zone, extra)}"
        lines += [row, _short_end(job, zone, reasons)]
    return "".join(lines)


def render_wide(
    jobs: Iterable[ShownJob],
    zone: tzinfo,
    *,
    header: bool = True,
    reasons: ReasonLines | None = None,
    extra: Extra | None = None,
) -> str:
    """-w: nothing is cut; several hosts are joined with `:`."""
    lines = [_header(extra)] if header else []
    for job in jobs:
        row = f"{job.job_id:<7d} {_wide_start(job)} {_wide_name(job.display_name)} {_last_columns(job, zone, extra)}"
        lines += [row, _wide_end(job, zone, reasons)]
    return "".join(lines)


def render_columns(
    jobs: JobsInColumns,
    zone: tzinfo,
    *,
    wide: bool = False,
    header: bool = True,
    reasons: ReasonLines | None = None,
    level: int = DEFAULT_LEVEL,
) -> str:
    """The text of `render_short` and `render_wide`; what many jobs have in common is laid out once."""
    start, name_of, end = (_wide_start, _wide_name, _wide_end) if wide else (_short_start, _short_name, _short_end)
    shown = [ShownJob(view=view, level=level, zone=zone) for view in jobs.alike]
    starts, ends = [start(job) for job in shown], [end(job, zone, reasons) for job in shown]
    stamps: dict[float, str] = {}
    lines = [HEADER] if header else []
    for place, job_id, name, at in zip(jobs.places, jobs.job_ids, jobs.names, jobs.submitted_at, strict=True):
        second = at // 1
        stamp = stamps.get(second) or stamps.setdefault(second, short_stamp(second, zone))
        lines.append(f"{array_of(job_id):<7d} {starts[place]} {name_of(name)} {stamp}{ends[place]}")
    return "".join(lines)


def render_all_columns(jobs: Iterable[ShownJob], zone: tzinfo, *, header: bool = True) -> str:
    """-W: as -w, with project, usage (sizes in KB), process ids, start and end. `-` where nothing is known."""
    lines = [_ALL_HEADER] if header else []
    for job in jobs:
        usage = job.usage
        cells = (
            left(packed_stamp(job.view.submitted_at, zone), 14),
            left(printable(job.spec.project), 10),
            left(packed_cpu(usage.cpu_s), 12),
            left(_kib(usage.mem_mib), 7),
            left(_kib(usage.swap_mib), 7),
            left(",".join(str(pid) for pid in usage.pids) or "-", 12),
            left("-" if job.view.dispatched_at is None else packed_stamp(job.view.dispatched_at, zone), 14),
            left("-" if job.ended_at is None else packed_stamp(job.ended_at, zone), 14),
            str(job.spec.slots),
        )
        lines.append(f"{job.job_id:<7d} {_wide_start(job)} {_wide_name(job.display_name)} {' '.join(cells)}\n")
    return "".join(lines)


def _header(extra: Extra | None) -> str:
    return HEADER if extra is None else f"{HEADER.rstrip():<{_EXTRA_AT}}{extra[0]}\n"


def _last_columns(job: ShownJob, zone: tzinfo, extra: Extra | None) -> str:
    submitted = short_stamp(job.view.submitted_at, zone)
    return submitted if extra is None else f"{submitted:<14} {extra[1](job)}"


def _short_start(job: ShownJob) -> str:
    """The columns between number and name."""
    host = cell(slots_on_host(job.placed[0]), 11) if job.placed else " " * 11
    return (
        f"{cell(job.spec.user, 7)} {cell(job.view.state, 5)} {cell(job.spec.queue, 10)} "
        f"{cell(job.spec.submit_host, 11)} {host}"
    )


def _short_name(name: str) -> str:
    return cell(cut_head(printable(name), 10), 10)


def _short_end(job: ShownJob, zone: tzinfo, reasons: ReasonLines | None) -> str:
    """What follows the columns of a row: its end, and further lines."""
    hosts = [f"{_MORE_HOSTS}{cell(slots_on_host(host), 11).rstrip()}\n" for host in job.placed[1:]]
    return "".join(["\n", *hosts, *_reason_lines(job, zone, reasons)])


def _wide_start(job: ShownJob) -> str:
    hosts = ":".join(slots_on_host(host) for host in job.placed) or NO_HOST
    return (
        f"{left(job.spec.user, 7)} {left(job.view.state, 5)} {left(job.spec.queue, 10)} "
        f"{left(job.spec.submit_host, 11)} {left(hosts, 11)}"
    )


def _wide_name(name: str) -> str:
    return left(printable(name), 10)


def _wide_end(job: ShownJob, zone: tzinfo, reasons: ReasonLines | None) -> str:
    return "".join(["\n", *_reason_lines(job, zone, reasons)])


def _kib(mib: float | None) -> str:
    return "-" if mib is None else f"{mib * 1024:.0f}"


def _reason_lines(job: ShownJob, zone: tzinfo, reasons: ReasonLines | None) -> list[str]:
    if reasons is None:
        return []
    lines = [f" {printable(reason)};\n" for reason in (*job.pending_reasons, *job.suspending_reasons)]
    at = job.view.pending_reasons_at
    if job.pending_reasons and at is not None and reasons.asked_at is not None:
        lines.append(f" ({as_of(at, reasons.asked_at, zone)})\n")
    return lines
