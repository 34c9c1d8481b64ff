"""A script with #SBATCH lines that gsub was given: the submission that sbatch would make of it."""

from __future__ import annotations

import posixpath

from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.cli.slurm.slurm_call import elements_of
from gsched.dialect.bsub import OtherScript, ParsedSubmission
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.sbatch import read_batch_script
from gsched.dialect.spec_values import SpecValues


def read_slurm_script(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    """The submission; the fields `over` count before what the script says. Raises BadRequest."""

    def elements(number: int, indices: str) -> str:
        with connected(call) as session:
            return ",".join(map(str, elements_of(session, number, indices)))

    name = posixpath.basename(other.words[0]) if other.words else "sbatch"
    return read_batch_script(
        other.script, other.words, call.env, Reading(value_context(call), call.user, name, elements, over)
    )
