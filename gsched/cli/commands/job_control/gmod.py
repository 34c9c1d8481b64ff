"""`gmod` (bmod): other values for what was asked for when jobs were submitted.

What the options mean is known to gsched.dialect; which jobs may still be changed is the master's to say.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.errors import (
    LSF_FAILURE,
    BadRequest,
    Conflict,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from gsched.base.ids import array_of, show_job
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program, version_line
from gsched.cli.session.session import Session, connected
from gsched.dialect.bmod import Modification, read_modification, unmodified
from gsched.dialect.bsub_options import BMOD
from gsched.dialect.host_lists import host_file_of
from gsched.model.views.view import Control, JobFilter, JobView

TABLE = BMOD
EVERY = 0
_REFUSALS = (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted)


def main(call: Call) -> int:
    """Run `gmod`."""
    asked = read_modification(call.argv[1:], value_context(call), call.read_file)
    if asked.wants_help:
        call.write(BMOD.help(program(call)))
        return 0
    if asked.wants_version:
        call.write(version_line())
        return 0
    job_ids = _jobs(asked.jobs)
    for note in asked.notes:
        call.error(f"Warning: {sentence(note)}\n")
    with connected(call) as session:
        try:
            results = _modify(session, asked, job_ids)
        except _REFUSALS as problem:
            raise type(problem)(unmodified(problem.text)) from None
    for result in results:
        if result.error:
            call.error(f"Job <{show_job(result.job_id)}>: {result.error}\n")
        else:
            call.write(f"Parameters of job <{show_job(result.job_id)}> are being changed\n")
    return LSF_FAILURE if any(result.error for result in results) else 0


def _jobs(words: tuple[str, ...]) -> tuple[int, ...]:
    try:
        job_ids = parse_job_ids(words)
    except BadRequest as problem:
        raise BadRequest(unmodified(problem.text)) from None
    if EVERY in job_ids:
        raise BadRequest(unmodified("0 stands for no single job: name the jobs to be modified"))
    return job_ids


def _modify(session: Session, asked: Modification, job_ids: tuple[int, ...]) -> list[Control]:
    """The answers for all the jobs, in the order they were named."""
    if not asked.limits and "command" not in asked.values and not asked.ends_host_file:
        return session.client.modify(job_ids, asked.spec, tuple(asked.values), notice_targets=asked.notice_targets)
    views = list(session.client.jobs(JobFilter(ids=tuple(dict.fromkeys(job_ids)), user="all")))
    results: list[Control] = []
    for job_id in job_ids:
        results += _modify_one(session, asked, job_id, [view for view in views if _is_meant(view.job_id, job_id)])
    return results


def _is_meant(job_id: int, named: int) -> bool:
    return named in (job_id, array_of(job_id))


def _modify_one(session: Session, asked: Modification, job_id: int, views: list[JobView]) -> list[Control]:
    """One job or array, whose limits that are not named stay; elements with limits of their own keep those."""
    if "command" in asked.values and any(view.spec.script for view in views):
        return [Control(job_id=job_id, error="The job is a script: its command cannot be changed")]
    if asked.ends_host_file and not all(host_file_of(view.spec) for view in views):
        return [Control(job_id=job_id, error="The job has no file of hosts")]
    fields = (*asked.values, *(["limits"] if asked.limits else []))
    groups: dict[tuple[tuple[str, float], ...], list[int]] = {}
    for view in views:
        groups.setdefault(tuple(sorted(_changed(view.spec.limits, asked).items())), []).append(view.job_id)
    if len(groups) < 2:
        groups = {next(iter(groups), tuple(_changed({}, asked).items())): [job_id]}
    results: list[Control] = []
    for limits, members in groups.items():
        spec = msgspec.structs.replace(asked.spec, limits=dict(limits))
        results += session.client.modify(members, spec, fields, notice_targets=asked.notice_targets)
    return _together(job_id, results)


def _changed(limits: dict[str, float], asked: Modification) -> dict[str, float]:
    merged: dict[str, float | None] = {**limits, **asked.limits}
    return {name: value for name, value in merged.items() if value is not None}


def _together(job_id: int, results: Iterable[Control]) -> list[Control]:
    """One answer for a job; for the elements of an array those that failed, if any did."""
    failed = [result for result in results if result.error]
    return failed or [Control(job_id=job_id)]
