"""`sbatch`: submit a batch script as Slurm's command of that name does."""

from __future__ import annotations

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted
from gsched.base.ids import new_token
from gsched.cli.commands.gsub import submission_of
from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.slurm_call import elements_of, fails_as_slurm, read_words
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.sbatch import BatchSubmission, read_sbatch
from gsched.model.views.view import Submitted

TABLE = SBATCH
_REFUSALS = (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted)


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sbatch`."""
    read_words(call, TABLE)
    with connected(call) as session:
        asked = read_sbatch(
            call.argv[1:],
            read_stdin=call.read_stdin,
            read_file=call.read_file,
            env=call.env,
            around=value_context(call),
            user=call.user,
            element_of=lambda number, indices: ",".join(map(str, elements_of(session, number, indices))),
        )
        job = _submit(call, session, asked)
        _announce(call, asked, job)
        if not asked.words.has("wait"):
            return 0
        end = session.end_of(job.job_id)
        return end.exit_code


def _submit(call: Call, session: Session, asked: BatchSubmission) -> Submitted:
    submission = submission_of(call, asked.parsed)
    try:
        return session.client.submit(submission, token=call.token or new_token())
    except _REFUSALS as problem:
        reason = asked.refused(problem.about, problem.text)
        raise type(problem)(f"Batch job submission failed: {reason.rstrip('.')}") from None


def _announce(call: Call, asked: BatchSubmission, job: Submitted) -> None:
    if asked.words.has("parsable"):
        call.write(f"{job.job_id}\n")
    elif not asked.words.has("quiet"):
        call.write(f"Submitted batch job {job.job_id}\n")
    for text in job.warnings:
        call.error(f"{program(call)}: warning: {sentence(text)}\n")
