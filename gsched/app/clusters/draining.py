"""`gadmin drain`: hosts or queues are closed, and it is waited until nothing of theirs is left.

Which jobs are requeued elsewhere is for the master to say, where that is asked for; nothing else ends a job here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.base.errors import NotFound
from gsched.base.ids import show_job
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.jobs.job import PENDING
from gsched.model.views.drained_job import DrainedJob
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client

LOOK_S = 15.0
"""A job that is requeued leaves its host without an end: so often it is looked at anew."""
MOST_LISTED = 10

Say = Callable[[str], None]
"""Tells the administrator how far something has come."""


def close(client: Client, hosts: Sequence[str], queues: Sequence[str], comment: str) -> list[str]:
    """Close them; returns what is wrong, line by line. Raises GschedError."""
    if hosts:
        client.host_control("close", hosts, comment)
    return [answer.error for answer in client.queue_control("close", queues, comment) if answer.error] if queues else []


def requeue(client: Client, hosts: Sequence[str], comment: str, grace_s: int | None, zone: tzinfo, say: Say) -> None:
    """Close hosts and have their jobs run again elsewhere; says what becomes of each. Raises GschedError."""
    for job in client.drain_hosts(hosts, comment, grace_s):
        say(f"job {show_job(job.job_id)} on {job.host} {_fate(job, zone)}")


def _fate(job: DrainedJob, zone: tzinfo) -> str:
    if not job.is_requeued:
        return f"runs on: {sentence(job.why)}"
    if job.save_by is None:
        return "is ended and requeued"
    return f"has until {long_stamp(job.save_by, zone)} to save its state, and is requeued"


def left_on(client: Client, host: str) -> list[JobView]:
    """Jobs that have been started on the host and have not ended."""
    return [job for job in client.jobs(JobFilter(user="all", host=host)) if job.state not in PENDING]


def left_in(client: Client, queue: str) -> list[JobView]:
    """Jobs of the queue that have not ended, pending ones too: a closed queue still starts what it has."""
    return list(client.jobs(JobFilter(user="all", queue=queue)))


def drain(
    client: Client, hosts: Sequence[str], queues: Sequence[str], say: Say, *, wait: bool, limit_s: float | None
) -> bool:
    """Say what is left, and with `wait` wait until nothing is, for `limit_s` at most; whether that came."""
    deadline = None if limit_s is None else time.monotonic() + limit_s
    places = [
        *((f"host {name}", name, left_on) for name in hosts),
        *((f"queue {name}", name, left_in) for name in queues),
    ]
    said: dict[str, int] = {}
    while True:
        left: set[int] = set()
        for place, name, look in places:
            jobs = [job.job_id for job in look(client, name)]
            if said.get(place) != len(jobs):
                say(_told(place, jobs))
                said[place] = len(jobs)
            left.update(jobs)
        if not left or not wait:
            return not left
        pause = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if pause <= 0:
            return False
        _until_they_end(client, sorted(left), pause)


def _until_they_end(client: Client, jobs: Sequence[int], limit_s: float) -> None:
    """Wait until all have ended, or for that long."""
    try:
        client.wait(jobs, timeout_s=limit_s)
    except (TimeoutError, NotFound):  # some go on, or are forgotten already: it is looked at anew
        return


def _told(place: str, jobs: Sequence[int]) -> str:
    if not jobs:
        return f"{place} is drained"
    listed = " ".join(show_job(job) for job in jobs[:MOST_LISTED])
    more = f" and {len(jobs) - MOST_LISTED} more" if len(jobs) > MOST_LISTED else ""
    return f"{place} is closed; {len(jobs)} {'job is' if len(jobs) == 1 else 'jobs are'} left: {listed}{more}"
