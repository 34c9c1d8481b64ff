"""`sbatch`: submit a batch script as Slurm's command of that name does."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

from gsched.base.coded_text import sentence
from gsched.base.ids import new_token
from gsched.base.node_lists import fold_nodes
from gsched.cli.commands.submission.gsub import submission_of
from gsched.cli.options.submission_context import value_context
from gsched.cli.render.text.reason_texts import ALL_HOSTS, reason_texts
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program, read_words
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.cli.slurm.job_priority import settle_priority
from gsched.cli.slurm.slurm_call import FAILURE, elements_of, fails_as_slurm, refusals
from gsched.cli.submit.job_wait import exit_code
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.sbatch import BatchSubmission, read_sbatch
from gsched.model.jobs.job import JobState
from gsched.model.views.view import JobFilter, Submitted

TABLE = SBATCH


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sbatch`."""
    words = read_words(call, TABLE)
    with connected(call) as session:
        asked = read_sbatch(
            words,
            read_stdin=call.read_stdin,
            read_file=call.read_file,
            env=call.env,
            around=value_context(call),
            user=call.user,
            element_of=lambda number, indices: ",".join(map(str, elements_of(session, number, indices))),
        )
        parsed, notes = settle_priority(session, asked.words, asked.parsed)
        asked = replace(asked, parsed=parsed).with_array_mail()
        for note in [*TABLE.notes(asked.words), *notes]:
            complain(call, f"warning: {note}")
        if asked.words.has("test-only"):
            _tell_start(call, session, asked)
            return 0
        job = _submit(call, session, asked)
        _announce(call, asked, job)
        if not asked.words.has("wait"):
            return 0
        return _exit_code(session, job.job_id)


def _submit(call: Call, session: Session, asked: BatchSubmission) -> Submitted:
    submission = submission_of(call, asked.parsed)
    with refusals(session, asked, "Batch job submission failed"):
        return session.client.submit(submission, token=call.token or new_token())


def _tell_start(call: Call, session: Session, asked: BatchSubmission) -> None:
    """When and where the job could start, in the line that Slurm 22.05 has for it, on the error output as there; a time
    that nobody knows is N/A, and why follows.
    """
    spec = submission_of(call, asked.parsed).spec
    with refusals(session, asked, "allocation failure"):
        found = session.client.forecast(spec)
    planned, at = found.planned, "N/A"
    hosts = found.hosts if planned is None else planned.hosts
    start = time.time() if found.starts_now else planned.at if planned is not None else None
    if start is not None:
        at = datetime.fromtimestamp(start, zone_of(call.env)).strftime("%Y-%m-%dT%H:%M:%S")
    what = f"Job {found.job_id} to start at {at} using {found.slots} processors"
    notes = [f"{what} on nodes {fold_nodes(hosts) or '(null)'} in partition {found.queue}"]
    if found.is_alone:
        notes.append("other jobs come before it; this is as if it were the only one")
    if start is None:
        notes += reason_texts(found.reasons, ALL_HOSTS, with_hosts=True)
    call.error("".join(f"{program(call)}: {note}\n" for note in notes))


def _exit_code(session: Session, job_id: int) -> int:
    """Of an array the highest of its elements; 1 of what a signal ended. Source: sbatch(1), --wait."""
    end = session.end_of(job_id)
    if end.succeeded:
        return end.exit_code
    wanted = JobFilter(ids=(job_id,), user="all", states=(JobState.EXIT,), finished=True)
    results = [job.result for job in session.client.jobs(wanted) if job.result is not None]
    codes = [FAILURE if result.signal else exit_code(result) for result in results]
    return max(codes, default=end.exit_code) or end.exit_code


def _announce(call: Call, asked: BatchSubmission, job: Submitted) -> None:
    if asked.words.has("parsable"):
        call.write(f"{job.job_id}\n")
    elif not asked.words.has("quiet"):
        call.write(f"Submitted batch job {job.job_id}\n")
    for text in job.warnings:
        complain(call, f"warning: {sentence(text)}")
