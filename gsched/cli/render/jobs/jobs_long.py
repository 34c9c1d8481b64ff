"""`gjobs -l`: one record per job, folded; `gjobs -UF`: the same with every event on one physical line.

Order of the parts as LSF 10.1 prints them: header, submission, limits, start, usage, end, reasons, MEMORY USAGE,
CPU USAGE, SCHEDULING PARAMETERS, EXTERNAL MESSAGES, RESOURCE REQUIREMENT DETAILS, GPU REQUIREMENT DETAILS; gsched's own
are I/O USAGE behind CPU USAGE, and IDLE GPUS, PROFILES, WHY IT FAILED and WARNINGS at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from gsched.base.coded_text import has_code
from gsched.cli.render.gpu_use.use_lines import gpu_use_block
from gsched.cli.render.hosts.topology import affinity_table
from gsched.cli.render.jobs import job_lines
from gsched.cli.render.jobs.job_gpus import gpu_table, process_table
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.limit_lines import job_limits
from gsched.cli.render.text.reason_texts import planned_text
from gsched.cli.render.text.size_texts import in_words
from gsched.cli.render.text.text_columns import INDENT, INDENT_WITH_YEAR, cell, fold, fold_words, left, printable
from gsched.cli.render.text.thresholds import threshold_table
from gsched.cli.render.text.time_texts import as_of, long_stamp, short_stamp
from gsched.model.jobs.reason import NEVER
from gsched.model.views.view import Message

SEPARATOR = "-" * 78 + "\n"
_MESSAGE_HEADER = " MSG_ID FROM       POST_TIME      MESSAGE                             ATTACHMENT\n"
_BY_THEN = "and by then at the latest, if run limits are kept"
_UNLIMITED = 1 << 30


class _Layout:
    """Line width, indent and stamps of one listing."""

    def __init__(self, zone: tzinfo, *, unfolded: bool, year: bool, asked_at: float | None) -> None:
        self.zone = zone
        self.asked_at = asked_at
        self.year = year
        self.indent = INDENT_WITH_YEAR if year else INDENT
        self.fold_at = {"line_width": _UNLIMITED} if unfolded else {}

    def line(self, text: str) -> str:
        return fold(text, indent=self.indent, **self.fold_at)

    def words(self, text: str) -> str:
        return fold_words(text, indent=self.indent, **self.fold_at)

    def event(self, at: float, text: str) -> str:
        return self.line(f"{long_stamp(at, self.zone, year=self.year)}: {text}")


def render_long(
    jobs: Iterable[ShownJob],
    zone: tzinfo,
    *,
    unfolded: bool = False,
    year: bool = False,
    asked_at: float | None = None,
) -> str:
    """Records of `jobs`, a line of dashes between them. `asked_at`: now, where pending reasons say when they were
    found; None: the text is LSF's.
    """
    layout = _Layout(zone, unfolded=unfolded, year=year, asked_at=asked_at)
    return SEPARATOR.join("".join(_record(job, layout)) for job in jobs)


def _record(job: ShownJob, layout: _Layout) -> Iterator[str]:
    yield "\n" + layout.line(job_lines.header(job, with_state=True))
    yield layout.event(job.view.submitted_at, job_lines.submission(job, with_queue=False, zone=layout.zone))
    yield from job_limits(job)
    if job.view.dispatched_at is not None:
        yield layout.event(job.view.dispatched_at, _start(job))
    if job.ended_at is not None:
        yield from _end(job, job.ended_at, layout)
    elif job.view.dispatched_at is not None and job.usage.sampled_at is not None:
        yield from _usage(job, job.usage.sampled_at, layout)
    if job.gpus_held:
        yield gpu_use_block(job.usage.gpus, job.usage.cpu_s)
    yield from _reasons(f" PENDING REASONS{_as_of(job, layout)}:", job.pending_reasons, layout)
    yield from _reasons(" SUSPENDING REASONS:", job.suspending_reasons, layout)
    yield from _estimation(job, layout)
    for heading, texts in job_lines.used_of_host(job, job.used_s):
        yield f"\n {heading}:\n" + "".join(f" {text}\n" for text in texts)
    yield "\n SCHEDULING PARAMETERS:\n" + threshold_table(job.external_indices, job.thresholds)
    if job.exceptions:
        yield f"\n EXCEPTION STATUS:  {'  '.join(job.exceptions)}\n"
    if job.messages:
        yield "\n EXTERNAL MESSAGES:\n" + message_table(job.messages, layout.zone)
    yield from _details(job, layout)


def _details(job: ShownJob, layout: _Layout) -> Iterator[str]:
    """What it required, and what it got of GPUs and processors."""
    if job.combined_req:
        yield "\n RESOURCE REQUIREMENT DETAILS:\n" + layout.line(f" Combined: {printable(job.combined_req)}")
        if job.effective_req:
            yield layout.line(f" Effective: {printable(job.effective_req)}")
    if job.spec.combined_gpu_req:
        yield "\n GPU REQUIREMENT DETAILS:\n" + layout.line(f" Combined: {printable(job.spec.combined_gpu_req)}")
        if job.view.dispatched_at is not None:
            yield layout.line(f" Effective: {printable(job.spec.combined_gpu_req)}")
    if job.gpus_held:
        yield gpu_table(job.gpus_held)
        yield process_table(job.gpus_held)
    if job.affinity:
        yield affinity_table(job.affinity)
    yield _host_file(job)
    sections = (
        ("SERVICE", job_lines.service(job, layout.zone)),
        ("LENT GPUS", job_lines.lent_gpus(job)),
        ("RESTARTS", job_lines.restarts(job, layout.zone)),
        ("KEPT WHILE SUSPENDED", job_lines.kept_while_suspended(job)),
        ("IDLE GPUS", job_lines.idle_gpus(job, layout.zone)),
    )
    for heading, texts in sections:
        if texts:
            yield f"\n {heading}:\n" + "".join(layout.line(f" {text};") for text in texts)
    if job.profiles:
        yield "\n PROFILES:\n" + fold_words(printable(job.profiles), indent=1, **layout.fold_at)
    if why := job_lines.why_it_failed(job.failure):
        yield "\n WHY IT FAILED:\n" + layout.line(f" {why};")
    if job.warnings:
        yield "\n WARNINGS:\n" + "".join(layout.line(f" {printable(text)};") for text in job.warnings)


def _host_file(job: ShownJob) -> str:
    """-hostfile: what it asked for; empty where there is none."""
    if not job.host_file:
        return ""
    rows = "".join(f" {host:<15} {slots:>5}\n" for host, slots in job.host_file.items())
    return f"\n USER-SPECIFIED HOST FILE:\n {'HOST':<15} SLOTS\n{rows}"


def _start(job: ShownJob) -> str:
    text = job_lines.placement("Started", job.placed)
    if job.view.exec_home:
        text += f", Execution Home <{printable(job.view.exec_home)}>"
    if job.view.exec_cwd:
        text += f", Execution CWD <{printable(job.view.exec_cwd)}>"
    return text + ";"


def _end(job: ShownJob, ended_at: float, layout: _Layout) -> Iterator[str]:
    cpu_s = job.usage.cpu_s if job.ran else None
    yield layout.event(ended_at, job_lines.ending(job.view.state == "DONE", job.exit_code, job.signal, cpu_s) + ".")
    if job.view.state != "DONE":
        yield layout.event(ended_at, job_lines.completion(job.term_reason) + ".")


def _usage(job: ShownJob, sampled_at: float, layout: _Layout) -> Iterator[str]:
    usage = job.usage
    yield layout.event(sampled_at, "Resource usage collected.")
    yield layout.words(f"The CPU time used is {usage.cpu_s:.0f} seconds.")
    facts = [f"MEM: {in_words(usage.mem_mib)}"] if usage.mem_mib is not None else []
    facts += [f"SWAP: {in_words(usage.swap_mib)}"] if usage.swap_mib is not None else []
    facts += [f"NTHREAD: {usage.threads}"] if usage.threads is not None else []
    if job.judges_idle and job.idle_factor is not None:
        yield layout.words(f"IDLE_FACTOR(cputime/runtime):   {job.idle_factor:.2f}")
    if facts:
        yield layout.words(";  ".join(facts))
    if usage.pgid is not None:
        yield layout.words(f"PGID: {usage.pgid};  PIDs: {' '.join(str(pid) for pid in usage.pids)}")
    yield "\n"


def _as_of(job: ShownJob, layout: _Layout) -> str:
    at = job.view.pending_reasons_at
    return "" if at is None or layout.asked_at is None else f" ({as_of(at, layout.asked_at, layout.zone)})"


def _reasons(title: str, reasons: tuple[str, ...], layout: _Layout) -> Iterator[str]:
    if reasons:
        yield title + "\n" + "".join(layout.line(f" {printable(reason)};") for reason in reasons)


def _estimation(job: ShownJob, layout: _Layout) -> Iterator[str]:
    """When the pending job will start, as far as the reservations for it say. The first words are LSF's; where the time
    rests on run limits alone it is the latest, too.
    """
    planned = job.view.planned
    if planned is None:
        return
    text = planned_text(planned)
    if planned.at is not None:
        if planned.hosts and not planned.text:
            text += f", {_BY_THEN}"
        where = f" {text}" if planned.hosts else f"; {text}" if text else ""
        yield layout.event(planned.at, f"Job will start no sooner than indicated time stamp{printable(where)};")
    elif text:
        never = has_code(planned.text, NEVER)
        when = "Job will never start as the hosts are now" if never else "Job will start at an unknown time"
        yield layout.line(f" {when}: {printable(planned_text(planned, unknown=True))};")


def message_table(messages: Iterable[Message], zone: tzinfo, *, wide: bool = False) -> str:
    """The EXTERNAL MESSAGES table with its header, as bread prints it too. Messages are cut, unless `wide`.

    The part of a scheduler's message from `EFFECTIVE GPU REQ` on is kept in the history only, as LSF does.
    """
    lines = [_MESSAGE_HEADER]
    for message in messages:
        text = printable(message.text.partition("EFFECTIVE GPU REQ")[0])
        stamp = left(short_stamp(message.posted_at, zone), 14)
        flag = "Y" if message.attachment else "N"
        shown = left(text, 35) if wide else cell(text, 35)
        lines.append(f" {message.box:<6d} {cell(message.user, 10)} {stamp} {shown}     {flag}\n")
    return "".join(lines)
