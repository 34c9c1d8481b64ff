"""Lines that bjobs -l and bhist -l share: a job's header, submission, end and memory. Unfolded, without stamps.

Source of the wording: transcripts and manual pages of LSF 10.1; clients search these lines for their fixed parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.cli.render.fold import printable
from gsched.cli.render.records import HostSlots, JobRecord
from gsched.cli.render.sizes import in_words
from gsched.model.job import TERM_TEXTS, Usage


def header(job: JobRecord, *, with_state: bool) -> str:
    """`Job <220>, User <test>, …`; state and queue are in bjobs -l only."""
    parts = [f"Job <{job.label}>"]
    if job.name:
        parts.append(f"Job Name <{printable(job.name)}>")
    parts += [f"User <{job.user}>", f"Project <{printable(job.project)}>"]
    if with_state:
        parts += [f"Status <{job.stat}>", f"Queue <{job.queue}>"]
    parts.append(f"Command <{printable(job.command)}>")
    if with_state and job.share_group:
        parts.append(f"Share group charged <{job.share_group}>")
    return ", ".join(parts)


def submission(job: JobRecord, *, with_queue: bool) -> str:
    """`Submitted from host <h>, CWD <d>, …;`"""
    parts = [f"Submitted from host <{job.submit_host}>" + (" on hold" if job.hold else "")]
    if with_queue:
        parts.append(f"to Queue <{job.queue}>")
    parts += [f"{label} <{printable(value)}>" for label, value in _submitted_options(job) if value]
    if job.slots > 1:
        parts.append(f"{job.slots} Task(s)")
    if job.res_req:
        parts.append(f"Requested Resources <{printable(job.res_req)}>")
    if job.hosts_asked:
        parts.append("Specified Hosts " + ", ".join(f"<{host}>" for host in job.hosts_asked))
    return ", ".join(parts) + ";"


def _submitted_options(job: JobRecord) -> Iterator[tuple[str, str]]:
    yield "CWD", below_home(job.cwd, job.home)
    yield "Specified CWD", job.specified_cwd
    yield "Input File", job.input_file
    yield "Output File (overwrite)" if job.output_overwrite else "Output File", job.output_file
    yield "Error File (overwrite)" if job.error_overwrite else "Error File", job.error_file


def below_home(path: str, home: str) -> str:
    """A path in the home directory is written `$HOME/rest`."""
    home = home.rstrip("/")
    if home and (path == home or path.startswith(home + "/")):
        return "$HOME" + path[len(home) :]
    return path


def host_list(hosts: Sequence[HostSlots]) -> str:
    """`<h1> <4*h2>`"""
    return " ".join(f"<{host}>" for host in hosts)


def placement(verb: str, hosts: Sequence[HostSlots]) -> str:
    """`Started 1 Task(s) on Host(s) <h>, Allocated 1 Slot(s) on Host(s) <h>`"""
    slots = sum(host.slots for host in hosts)
    where = host_list(hosts)
    return f"{verb} {slots} Task(s) on Host(s) {where}, Allocated {slots} Slot(s) on Host(s) {where}"


def ending(succeeded: bool, exit_code: int | None, signal: int | None, cpu_s: float | None) -> str:
    """How a job ended, without the closing mark; `cpu_s` None means that it never ran.

    A job that was killed and then exited with 0 did not succeed.
    """
    if succeeded:
        how = "Done successfully"
    elif signal is not None:
        how = f"Exited by signal {signal}"
    elif exit_code is not None:
        how = f"Exited with exit code {exit_code}"
    else:
        how = "Exited"
    used = "unknown" if cpu_s is None else f"{cpu_s:.1f} seconds"
    return f"{how}. The CPU time used is {used}"


def completion(term_reason: str) -> str:
    """`Completed <exit>`, with the reason of termination if there is one; without the closing mark."""
    if not term_reason:
        return "Completed <exit>"
    text = TERM_TEXTS.get(term_reason, "")
    return f"Completed <exit>; {term_reason}" + (f": {text}" if text else "")


def memory(usage: Usage) -> str:
    """`MAX MEM: 277 Mbytes;  AVG MEM: 274 Mbytes`; empty when memory was never sampled."""
    if usage.max_mem_mib is None:
        return ""
    average = "-" if usage.avg_mem_mib is None else in_words(usage.avg_mem_mib)
    return f"MAX MEM: {in_words(usage.max_mem_mib)};  AVG MEM: {average}"
