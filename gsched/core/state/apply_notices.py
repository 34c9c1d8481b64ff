"""Applying events about notices. Part of gsched.core.state.apply_events, under its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.model.event import JobNoticeMade, JobNoticeSettled
from gsched.model.jobs.notice import not_sent

if TYPE_CHECKING:
    from gsched.core.state.cluster_state import ClusterState

MOST_NOTES = 200
"""Of one job, of what agents and notices bring about."""


def made(state: ClusterState, event: JobNoticeMade) -> None:
    """One is to be sent."""
    holder = state.arrays.get(event.job_id) or state.job(event.job_id)
    if event.key not in holder.told:
        holder.told = (*holder.told, event.key)
    state.notices.add(event.notice)


def settled(state: ClusterState, event: JobNoticeSettled) -> None:
    """The notice was sent, or is given up; the job may be forgotten by now."""
    state.notices.remove(event.notice_id)
    job = state.jobs.get(event.job_id)
    if event.problem and job is not None:
        text = not_sent(event.event, event.way, event.problem)
        if text not in job.notes and len(job.notes) < MOST_NOTES:
            job.notes = (*job.notes, text)
