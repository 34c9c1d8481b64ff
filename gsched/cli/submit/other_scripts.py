"""Scripts for other batch systems that are submitted with gsub: each is read as its own system's command would."""

from __future__ import annotations

from gsched.base.errors import BadRequest
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
    from gsched.cli.slurm.script_of_gsub import read_slurm_script  # only now: gsub starts for each job, few are Slurm's

    return read_slurm_script(call, other, over)
