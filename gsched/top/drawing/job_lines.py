"""One job at length: what was asked, why it waits, its GPUs with sparklines, the end of what it has printed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from gsched.cli.render.jobs.job_lines import submission
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_texts
from gsched.cli.render.text.text_columns import head, printable
from gsched.cli.render.text.time_texts import hms, long_stamp
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobView
from gsched.top.drawing.bars import percent_text, sparkline
from gsched.top.drawing.gpu_lines import STYLES
from gsched.top.drawing.job_list import STATE_STYLES
from gsched.top.drawing.styled_lines import Line, Piece, column, folded, line, lines_of
from gsched.top.watching.gpu_curves import GpuCurves
from gsched.top.watching.job_questions import JobNow
from gsched.top.watching.look import ClusterLook, JobLook

MOST_ASKED, MOST_REASONS, MOST_GPUS, MOST_OUTPUT = 6, 6, 64, 300
_UNASKED = "asking ..."


def job_lines(job: JobLook, look: ClusterLook, now: float, columns: int, zone: tzinfo) -> list[Line]:
    """Its heading: number, state, whose, where, since when."""
    run_s = job.run_s(now)
    ran = "" if run_s is None else f", run time {hms(run_s)}"
    hosts = f" on {' '.join(job.hosts[:3])}" + (" ..." if len(job.hosts) > 3 else "") if job.hosts else ""
    told = f"{job.user} in {job.queue}{hosts}, submitted {long_stamp(job.submitted_at, zone)}{ran}"
    return [
        line(
            Piece(f"Job {job.label} ", "bold"),
            Piece(job.state, STATE_STYLES.get(job.state, "bold")),
            f"  {column(job.name, max(1, columns - 24)).rstrip()}",
        ),
        line(head(printable(told), columns)),
    ]


def asked_lines(job: JobLook, view: JobView | None, columns: int, zone: tzinfo) -> list[Line]:
    """The submission, in the words of gjobs -l where the job has been asked for."""
    if view is not None:
        text = f"Command <{view.spec.command}>, {submission(ShownJob(view=view), with_queue=False, zone=zone)}"
    else:
        wishes = (("Requested GPU", job.gpu_req), ("Requested Resources", job.res_req))
        text = ", ".join([f"Command <{job.command}>", *(f"{name} <{value}>" for name, value in wishes if value)])
    return lines_of(folded(text, columns, MOST_ASKED))


def why_lines(job: JobLook, view: JobView | None, columns: int, zone: tzinfo) -> list[Line]:
    """Why it waits, and when it will start; nothing of a job that does not wait."""
    if job.state not in PENDING:
        return []
    reasons = reason_texts(view.pending_reasons, ALL_HOSTS, zone=zone) if view is not None else (job.why,)
    found = [line(Piece("Why it waits", "bold"))]
    for reason in reasons[:MOST_REASONS]:
        found += lines_of((f"  {part}" for part in folded(reason, columns - 2, 2)), "yellow")
    if view is not None and view.planned is not None:
        start = "" if view.planned.at is None else f"starts {long_stamp(view.planned.at, zone)} "
        found += lines_of(f"  {part}" for part in folded(start + planned_text(view.planned), columns - 2, 2))
    return found


def held_lines(job: JobLook, look: ClusterLook, curves: GpuCurves, columns: int) -> list[Line]:
    """Its GPUs, two sparklines each: use and memory since it is looked at."""
    if not job.held:
        return []
    room = max(4, (columns - 28 - 2 * 10) // 2)
    found = [line(Piece("GPUs, use and memory since this is open", "bold"))]
    for held in job.held[:MOST_GPUS]:
        gpu = look.gpu(held.board)
        style = STYLES[gpu.whose] if gpu is not None else "dim"
        found.append(
            line(
                f"  {column(held.host, 14)} {held.index:2d}  use ",
                percent_text(gpu.use if gpu is not None else None) + " ",
                Piece(sparkline(curves.use(held.board), room).ljust(room), style),
                "  mem ",
                percent_text(gpu.memory_percent if gpu is not None else None) + " ",
                Piece(sparkline(curves.memory(held.board), room).ljust(room), style),
            )
        )
    if job.gpus > len(found) - 1:
        found.append(line(Piece(f"  and {job.gpus - len(found) + 1} more", "dim")))
    return found


def output_lines(now: JobNow | None, columns: int, *, is_recorded: bool) -> Iterator[Line]:
    """The end of its output; of errors what there is, below."""
    if now is None:
        yield line(Piece("Output is not recorded" if is_recorded else _UNASKED, "dim"))
        return
    for stream, title in (("stdout", "Output"), ("stderr", "Errors")):
        data = now.output.get(stream, b"")
        if stream == "stderr" and not data:
            return
        yield line(Piece(title, "bold"))
        if now.why and stream == "stdout":
            yield line(Piece(head(f"  {printable(now.why)}", columns), "dim"))
        for text in _last_lines(data):
            yield line(head(printable(text), columns))


def _last_lines(data: bytes) -> list[str]:
    """Of lines that were written over (a progress bar), what stands there."""
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")[-MOST_OUTPUT:]
    if lines and not lines[-1]:
        lines.pop()
    return [text.rstrip("\r").rpartition("\r")[2].expandtabs() for text in lines]
