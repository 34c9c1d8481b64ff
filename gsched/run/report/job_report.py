"""The report on a finished job, as LSF puts it above or below the output: who, where, when, how it ended, what it used.

Programs search for its lines, so texts and columns are LSF's. The texts are made by functions that look at nothing but
their arguments; `write_report` writes them, and blocks as the file system does. Never writes to a file that is not a
plain one, and makes none.
"""

from __future__ import annotations

import codecs
import functools
import os
import stat
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from gsched.base.coded_text import coded, sentence
from gsched.model.efficiency.job_use import AskedOf, ended_use
from gsched.model.efficiency.verdicts import Weight, verdicts
from gsched.model.gpus.gpu_use import of_job
from gsched.model.jobs.failure import LONGEST_DETAIL, FailureClass, failure_advice, failure_of, failure_text, is_plain
from gsched.model.jobs.job import PREEMPTED, TERM_TEXTS, AttemptFailure, AttemptResult, LeftProcess, Usage
from gsched.model.jobs.left_running import left_running_text
from gsched.run.report import report_room
from gsched.run.report.report_room import RULE

SCRIPT_SHOWN = 64 * 1024
"""Bytes of a job's script that the report is made of."""
MOST_LINES = 50
"""Lines of a job's script that are shown."""
MOST_LEFT_NAMED = 2
"""Of the processes that the job left running; history names more."""
LONGEST_REASON = 180
"""Characters of why it failed."""
LONGEST_EFFICIENCY = 120
"""Characters of how well it used what it asked for."""
_NEXT_HOST = " " * 28
_LABEL_WIDTH = 45


class ReportFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the report says of the job besides its end. Times: seconds since the epoch, UTC."""

    job: str
    """`12` or `12[3]`."""
    name: str
    command: str
    """Shown where there is no script."""
    sender: str
    """`user@host` of the agent."""
    cluster: str
    submit_host: str
    user: str
    hosts: tuple[tuple[str, int], ...]
    """Execution hosts with their slots."""
    queue: str
    submitted_at: float
    dispatched_at: float
    requested_mem_mib: float | None = None
    output_file: str = ""
    error_file: str = ""
    """As given with -o and -e, the job's number filled in; empty: none was given."""
    gpus: int = 0
    """That it holds, on all its hosts."""
    asked: AskedOf | None = None
    """What it is judged by; None: nothing is said of how well it used that."""
    min_run_s: float = 0.0
    """Of a shorter run nothing is said either."""
    preemption_ends: bool = False
    """It does not go on when it has been ended for another job."""


def beginning_of(script: bytes) -> str:
    """What the report is made of; a character that is cut off at its end is left out."""
    return codecs.getincrementaldecoder("utf8")("surrogateescape").decode(script[:SCRIPT_SHOWN])


class ReportedRun(NamedTuple):
    """Where and when the job ran, and its script, where it has one."""

    home: str
    cwd: str
    started_at: float
    script: str | None = None


def report_text(
    facts: ReportFacts,
    run: ReportedRun,
    result: AttemptResult,
    *,
    now: float,
    output: str | None = None,
    is_above: bool = False,
) -> str:
    """The whole report, from `Sender:` to the blank line at its end; with `output` below it where that is given.

    `is_above`: it stands above the output in the job's file, and not below.
    """
    how = "Done" if result.succeeded else "Exited"
    lines = [
        f"Sender: LSF System <{facts.sender}>",
        f"Subject: Job {facts.job}: <{_one_line(facts.name)}> in cluster <{facts.cluster}> {how}",
        "",
        f"Job <{_one_line(facts.name)}> was submitted from host <{facts.submit_host}> by user <{facts.user}> "
        f"in cluster <{facts.cluster}> at {time.ctime(facts.submitted_at)}",
        *_executed(facts),
        f"<{run.home}> was used as the home directory.",
        f"<{run.cwd}> was used as the working directory.",
        f"Started at {time.ctime(run.started_at)}",
        f"Terminated at {time.ctime(result.ended_at)}",
        f"Results reported at {time.ctime(now)}",
        "",
        "Your job looked like:",
        "",
        RULE,
        "# LSBATCH: User input",
        *_input(facts, run.script),
        RULE,
        "",
        *_outcome(result, is_over=facts.preemption_ends and result.term_reason == PREEMPTED),
        "",
        "Resource usage summary:",
        "",
        *(f"    {label} :".ljust(_LABEL_WIDTH + 4) + value for label, value in _used(facts, result)),
        "",
        *_more(facts, result),
        *(["The output (if any) follows:", ""] if is_above else _below(facts, output)),
    ]
    return "\n".join(lines) + "\n"


def _executed(facts: ReportFacts) -> list[str]:
    first, *more = (f"<{slots}*{host}>" if slots > 1 else f"<{host}>" for host, slots in facts.hosts)
    return [
        f"Job was executed on host(s) {first}, in queue <{facts.queue}>, as user <{facts.user}> "
        f"in cluster <{facts.cluster}> at {time.ctime(facts.dispatched_at)}",
        *(_NEXT_HOST + host for host in more),
    ]


def _input(facts: ReportFacts, script: str | None) -> list[str]:
    if script is None:
        return facts.command.split("\n")
    lines = script.removesuffix("\n").split("\n")
    shown = [*lines[:MOST_LINES], "(... more ...)"] if len(lines) > MOST_LINES else lines
    return [*shown, ""]


def _outcome(result: AttemptResult, *, is_over: bool = False) -> list[str]:
    """`is_over`: it does not go on in another attempt, whatever has ended this one."""
    if result.succeeded:
        return [*_counted_as_done(result), "Successfully completed."]
    lines = []
    if result.term_reason:
        lines.append(f"{result.term_reason}: {TERM_TEXTS.get(result.term_reason, 'unknown')}.")
    if result.term_reason.startswith("TERM_REQUEUE"):
        lines.append("Job was killed by user or admin, and will be re-queued with the same jobid.")
    elif result.is_interrupted and not is_over:
        lines.append("Job has not failed, and goes on with the same jobid.")
    elif result.signal is not None:
        core = ", and core dumped" if result.core_dumped else ""
        lines.append(f"Exited with signal termination: {result.signal}{core}.")
    elif result.exit_code is not None:
        lines.append(f"Exited with exit code {result.exit_code}.")
    else:
        lines.append("Exited; the exit status is not known.")
    return lines


def _counted_as_done(result: AttemptResult) -> list[str]:
    """LSF's report does not tell the exit code of such a job."""
    return [f"Exit code {result.exit_code} is one of SUCCESS_EXIT_VALUES."] if result.counts_as_done else []


def _left_running(result: AttemptResult) -> list[str]:
    """LSF does not tell of it; a program that searches for LSF's lines finds them all."""
    text = left_running_text(result, most=MOST_LEFT_NAMED)
    return [text.encode("ascii", "replace").decode().replace("\n", "?") + ".", ""] if text else []


def _why_it_failed(result: AttemptResult) -> list[str]:
    """LSF does not tell of it either. Room is left for it in every report, so it is short, and takes the place of what
    was left running, which matters less then.
    """
    failure = failure_of(result)
    if failure is None or is_plain(failure):
        return []
    advice = failure_advice(failure)
    text = f"Why it failed: {failure.kind}: {sentence(failure_text(failure))}"
    if advice is not None:
        text += f"; {sentence(advice)}"
    return [text.encode("ascii", "replace").decode().replace("\n", "?")[:LONGEST_REASON] + ".", ""]


def _more(facts: ReportFacts, result: AttemptResult) -> list[str]:
    """What LSF does not tell of: as much as there is room for, which is left for the longest reason of a failure."""
    lines = _why_it_failed(result) or _left_running(result)
    return [*lines, *_efficiency(facts, result)] if result.succeeded or not lines else lines


def _efficiency(facts: ReportFacts, result: AttemptResult) -> list[str]:
    """The gravest that is to be said of how well the job used what it asked for."""
    if facts.asked is None or not result.started:
        return []
    gravest = verdicts(ended_use(facts.asked, result), facts.min_run_s)[0]
    if gravest.weight is Weight.UNKNOWN:
        return []
    text = sentence(coded("efficiency.in_report", gravest.text, facts.job))
    return [text.encode("ascii", "replace").decode().replace("\n", "?")[:LONGEST_EFFICIENCY] + ".", ""]


def _used(facts: ReportFacts, result: AttemptResult) -> list[tuple[str, str]]:
    """Labels and values in LSF's order; `-` for what was never sampled."""
    usage, asked = result.usage, facts.requested_mem_mib
    most = usage.max_mem_mib
    delta = None if asked is None or most is None else asked - most
    return [
        ("CPU time", f"{usage.cpu_s:.2f} sec."),
        ("Max Memory", _whole(most, " MB")),
        ("Average Memory", _exact(usage.avg_mem_mib)),
        ("Total Requested Memory", _exact(asked)),
        ("Delta Memory", _exact(delta)),
        ("Max Swap", _whole(usage.max_swap_mib or None, " MB")),
        ("Max Processes", _whole(usage.max_processes)),
        ("Max Threads", _whole(usage.max_threads)),
        ("Run time", f"{max(0.0, result.run_s):.0f} sec."),
        ("Turnaround time", f"{max(0.0, result.ended_at - facts.submitted_at):.0f} sec."),
        *_gpus(facts, usage),
    ]


def _gpus(facts: ReportFacts, usage: Usage) -> list[tuple[str, str]]:
    """gsched's own, after LSF's, of jobs that hold GPUs. Always of about one length, as room is left for it."""
    if not facts.gpus:
        return []
    use = of_job(usage.gpus, facts.gpus)
    busy = _whole(use.util_percent, " %")
    memory, energy = _whole(use.mem_max_mib, " MB"), _whole(use.energy_j, " J")
    idle = _whole(use.idle_s, " sec.")
    text = f"{busy:>5} of {facts.gpus}, Max Memory {memory:>9}, Energy {energy:>11}, Idle {idle:>12}"
    return [("GPU use", text)]


def _whole(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _exact(mib: float | None) -> str:
    return "-" if mib is None else f"{mib:.2f} MB"


def _below(facts: ReportFacts, output: str | None) -> list[str]:
    """Where the output is: above, here, or in the file of -o."""
    if output is None:
        return ["The output (if any) is above this job summary.", "", *_elsewhere(facts)]
    if not facts.output_file:
        return ["The output (if any) follows:", "", output]
    what = "stdout" if _elsewhere(facts) else "stdout and stderr"
    lines = ["", "PS:", "", f"Read file <{facts.output_file}> for {what} output of this job."]
    return [*lines, *(line for line in _elsewhere(facts) if line.startswith("Read")), ""]


def _elsewhere(facts: ReportFacts) -> list[str]:
    if not facts.error_file or facts.error_file == facts.output_file:
        return []
    return ["", "", "PS:", "", f"Read file <{facts.error_file}> for stderr output of this job.", ""]


def _one_line(text: str) -> str:
    return text.replace("\n", ";")


def room_for(facts: ReportFacts, *, home: str, cwd: str, script: str | None) -> int:
    """Bytes of the longest report that may have to stand above the output of the job."""
    if script is not None:
        script = beginning_of(script[:SCRIPT_SHOWN].encode(errors="surrogateescape"))
    text = report_text(facts, ReportedRun(home, cwd, 0, script), _longest_end(), now=0, is_above=True)
    return len(text.encode(errors="surrogateescape"))


@functools.cache
def _longest_end() -> AttemptResult:
    """One that takes as many characters to tell of as any."""
    most, mib = 9_999_999_999.0, 999_999_999.0
    usage = Usage(
        cpu_s=most,
        max_mem_mib=mib,
        avg_mem_mib=mib,
        max_swap_mib=mib,
        max_processes=10**7,
        max_threads=10**7,
    )
    result = AttemptResult(signal=64, core_dumped=True, run_s=most, ended_at=most, usage=usage)
    left = (LeftProcess(pid=4_194_304, name="x" * 15, killed=True),) * MOST_LEFT_NAMED  # names have 15 bytes at most
    ends = [msgspec.structs.replace(result, term_reason=reason) for reason in TERM_TEXTS]
    failures = [
        AttemptFailure(kind=kind, detail=detail) for kind in FailureClass for detail in ("", "x" * LONGEST_DETAIL)
    ]
    ends += [msgspec.structs.replace(result, failure=failure) for failure in failures]
    ends.append(msgspec.structs.replace(result, left_running=left, left_running_count=10**6))
    return max(ends, key=lambda end: _length((*_outcome(end), *(_why_it_failed(end) or _left_running(end)))))


def _length(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def write_report(
    fd: int, facts: ReportFacts, room: tuple[int, int], text: Callable[[bool], str], *, is_below: bool
) -> None:
    """Put the report into the room above the output, or below the output where there is no room (any more).

    `fd` reads and appends. `text(is_above)` is the report. `is_below`: what goes to the end of the file may be there
    already, from an agent that died, and does not go there again. Raises OSError.
    """
    found = report_room.look(fd, *room, facts.job)
    above = text(True)
    if found == report_room.GONE or len(above.encode(errors="surrogateescape")) > room[1]:
        if not is_below and found != report_room.FILLED:
            append(fd, f"\n{RULE}\n{text(False)}")
        if found == report_room.WAITING:
            report_room.say(fd, *room, f"The report on job <{facts.job}> stands below its output.")
    elif found == report_room.WAITING:
        if not is_below:
            append(fd, "\n".join([*(_elsewhere(facts) or [""]), ""]))
        report_room.fill(fd, *room, above)


def write_instead(fd: int, facts: ReportFacts, room: tuple[int, int], sentence: str) -> None:
    """There will be no report in the room above the output: say so there. Raises OSError."""
    if report_room.look(fd, *room, facts.job) == report_room.WAITING:
        report_room.say(fd, *room, sentence)


def append(fd: int, text: str) -> None:
    """To a plain file, beginning on a line of its own. Raises OSError."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        return
    ends_a_line = not about.st_size or os.pread(fd, 1, about.st_size - 1) == b"\n"
    data = f"{'' if ends_a_line else chr(10)}{text}".encode(errors="surrogateescape")
    while data:
        data = data[os.write(fd, data) :]
