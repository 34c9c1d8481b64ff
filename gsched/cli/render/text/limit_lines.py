"""Limit tables of bjobs -l, and bqueues -l. Source of the layout: transcripts of bjobs -l of LSF 9 and 10."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gsched.cli.render.jobs.shown_job import ShownJob

_TIMES = ("CPULIMIT", "RUNLIMIT", "ESTIMATED_RUNTIME")
_SIZES = {"FILELIMIT": 1, "DATALIMIT": 1, "STACKLIMIT": 1, "CORELIMIT": 1, "MEMLIMIT": 1024, "SWAPLIMIT": 1024}
"""Limits that are sizes -> KiB in the unit they are kept in."""
_COUNTS = ("PROCESSLIMIT", "THREADLIMIT")


def job_limits(job: ShownJob) -> Iterator[str]:
    """The tables of a job, each with a blank line before it; nothing for a job without limits."""
    seconds = {
        "CPULIMIT": job.spec.limits.get("CPULIMIT"),
        "RUNLIMIT": job.spec.run_limit_s,
        "ESTIMATED_RUNTIME": job.spec.estimate_s,
    }
    for table in limit_tables(seconds, job.spec.limits):
        yield "\n" + table


def limit_tables(seconds: Mapping[str, float | None], limits: Mapping[str, float | None]) -> Iterator[str]:
    """One table of the limits in minutes, and one of all others; those that are None are left out."""
    times = [(name, f"{value / 60:.1f} min") for name in _TIMES if (value := seconds.get(name)) is not None]
    if times:
        yield "".join(f" {name:<24}" for name, _ in times) + "\n" + _row([f" {text:<24}" for _, text in times])
    others = [(name, _size(value * kib)) for name, kib in _SIZES.items() if (value := limits.get(name)) is not None]
    others += [(name, f"{value:.0f}") for name in _COUNTS if (value := limits.get(name)) is not None]
    if others:
        widths = [max(len(name), len(text)) for name, text in others]
        header = "".join(f" {name:>{size}}" for (name, _), size in zip(others, widths, strict=True))
        yield header + "\n" + _row([f" {text:>{size}}" for (_, text), size in zip(others, widths, strict=True)])


def _row(cells: list[str]) -> str:
    return "".join(cells).rstrip() + "\n"


def _size(kib: float) -> str:
    """`2 G`, `512 M`, `1.5 G`."""
    for unit in "KMGT":
        if kib < 1024 or unit == "T":
            break
        kib /= 1024
    return f"{kib:.1f}".removesuffix(".0") + f" {unit}"
