"""`gadmin why-not`: the rule that decides between two jobs, and what rules look at of each, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.base.ids import show_job
from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_texts
from gsched.cli.render.text.text_columns import printable
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.views.job_comparison import ComparedJob, JobComparison
from gsched.model.views.view import ShareView


def comparison_lines(found: JobComparison, zone: tzinfo) -> Iterator[str]:
    """Without newlines. Times in the zone."""
    job, other = found.job, found.other
    yield f"Job <{show_job(job.job_id)}> waits{_does(found)}: {sentence(found.text)}"
    if found.first and found.order_rule != found.rule:
        yield f"In the order of jobs <{show_job(found.first)}> comes first: {sentence(found.order_text)}"
    if found.rule == "backfill":
        yield from (f"Planned start: {line}" for line in _planned(found, zone))
    reasons = reason_texts(found.reasons, ALL_HOSTS, zone=zone)
    yield f"Job <{show_job(job.job_id)}> waits because: {reasons[0] if reasons else 'it is new'}"
    for each in (job, other):
        yield from _job(each, zone)


def _does(found: JobComparison) -> str:
    other = f"<{show_job(found.other.job_id)}>"
    if found.other.hosts:
        return f", and job {other} runs"
    if found.first == found.other.job_id:
        return f" behind job {other}"
    return f" before job {other}" if found.first == found.job.job_id else f", and job {other} as well"


def _planned(found: JobComparison, zone: tzinfo) -> Iterator[str]:
    planned = found.planned
    if planned is not None and planned.at is not None:
        yield f"{long_stamp(planned.at, zone, year=True)} {planned_text(planned)}".rstrip()


def _job(job: ComparedJob, zone: tzinfo) -> Iterator[str]:
    needs = _counted(job.slots, "slot") + (f" and {_counted(job.gpus, 'GPU')}" if job.gpus else "")
    yield (
        f"Job <{show_job(job.job_id)}>, User <{printable(job.user)}>, Queue <{printable(job.queue)}> "
        f"(PRIORITY {job.queue_priority}), Status <{job.state}>"
    )
    priority = f", priority {job.priority:.10g}" if job.priority else ""
    yield f"  submitted {long_stamp(job.submitted_at, zone)}{priority}, {needs}"
    if job.hosts:
        yield f"  {_runs(job, zone)}"
    if job.share is not None:
        yield f"  {_share(job.share)}"


def _runs(job: ComparedJob, zone: tzinfo) -> str:
    since = "" if job.started_at is None else f" since {long_stamp(job.started_at, zone)}"
    if job.ends_at is None:
        end = "no known end"
    else:
        end = (
            f"ends by {long_stamp(job.ends_at, zone)}"
            if job.is_limit
            else f"ends about {long_stamp(job.ends_at, zone)}"
        )
    return f"on {', '.join(map(printable, job.hosts))}{since}; {end}"


def _share(share: ShareView) -> str:
    return (
        f"share of {printable(share.path)}{printable(share.name)}: SHARES {share.shares}, "
        f"PRIORITY {share.priority:.3f}, {_counted(share.started, 'slot')} started, "
        f"RUN_TIME {share.run_s:.0f}, GPU_RUN_TIME {share.gpu_s:.0f}, "
        f"CPU_TIME {share.cpu_s:.1f}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
