"""What an administrator could do so that a job starts now, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.ids import show_job
from gsched.cli.render.text.text_columns import printable
from gsched.model.views.explanation import AdminChange, AdminMeasure, MovedJob

TITLE = "An administrator could:"
CUT = "Not everything was tried: there may be other ways."
_MINUTE_S = 60.0


def measure_lines(measures: Iterable[AdminMeasure], *, is_cut: bool = False) -> Iterator[str]:
    """A line for each measure, and one for each job that pays for it."""
    found = list(measures)
    if found:
        yield TITLE
    for each in found:
        where = f" (the job starts on {', '.join(map(printable, each.hosts))})" if each.hosts else ""
        yield f"  {measure_words(each)}{where}: {printable('; '.join(each.commands))}"
        yield from (f"    {moved_text(job)}" for job in each.jobs)
    if is_cut:
        yield CUT if found else f"What an administrator could do: {CUT[0].lower()}{CUT[1:]}"


def measure_words(measure: AdminMeasure) -> str:
    """`open host gpu02 and activate queue night`."""
    moved = [printable(each.name) for each in measure.changes if each.what == "job"]
    words = [_change(each) for each in measure.changes if each.what != "job"]
    if moved:
        lost = sum(each.lost_gpu_s for each in measure.jobs) / _MINUTE_S
        jobs = f"job {moved[0]}" if len(moved) == 1 else f"jobs {', '.join(moved[:-1])} and {moved[-1]}"
        words.append(f"requeue {jobs}, at the cost of {lost:.1f} GPU minutes")
    return " and ".join(words)


_SIMPLE = {"host": "open host {}", "gpu": "open GPU {}", "queue": "activate queue {}"}


def _change(change: AdminChange) -> str:
    name = printable(change.name)
    if change.what in _SIMPLE:
        return _SIMPLE[change.what].format(name)
    if change.what == "reservation":
        if not change.setting:
            return f"end reservation {name}"
        kind = "GPUs" if change.setting == "gpus" else change.setting
        return f"leave reservation {name} {change.new} of its {change.old} {kind}"
    setting, file = printable(change.setting), printable(change.file)
    where = f" in {file}" if file else ""
    return f"raise {setting} of {name}{where} from {change.old} to {change.new}"


def moved_text(job: MovedJob) -> str:
    """Who pays, how much, and whether it goes on elsewhere."""
    gpus = f"{job.gpus:.4g} GPU{'' if job.gpus == 1 else 's'}"
    again = f"starts again on {', '.join(map(printable, job.hosts))}" if job.hosts else "waits again"
    return (
        f"job {show_job(job.job_id)} of {printable(job.user)} has run {job.lost_s / _MINUTE_S:.1f} minutes "
        f"on {gpus}; it {again}"
    )
