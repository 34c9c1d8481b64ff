"""Scripts for other batch systems that are submitted with gsub: each is read as its own system's command would."""

from __future__ import annotations

import posixpath

from gsched.base.errors import BadRequest
from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.dialect.bsub import OtherScript, ParsedSubmission
from gsched.dialect.script_marks import SLURM_MARK
from gsched.dialect.spec_values import SpecValues


def read_other(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    """The submission; the fields `over` count before what the script says. Raises BadRequest."""
    if other.mark != SLURM_MARK:
        raise BadRequest(
            f"line {other.line} of the script: {other.mark} lines are not read: say what it needs in #BSUB lines, or "
            "run it as it is: gsub sh FILE"
        )
    return _read_slurm(call, other, over)


def _read_slurm(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    # Only now: few scripts are Slurm's, and gsub starts for each.
    from gsched.cli.slurm.slurm_call import slurm_elements
    from gsched.dialect.slurm.job_fields import Reading
    from gsched.dialect.slurm.sbatch import read_batch_script

    name = posixpath.basename(other.words[0]) if other.words else "sbatch"
    reading = Reading(value_context(call), call.user, name, lambda *asked: slurm_elements(call, *asked), over)
    return read_batch_script(other.script, other.words, call.env, reading)
