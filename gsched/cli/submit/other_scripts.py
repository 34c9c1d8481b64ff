"""Scripts for other batch systems that are submitted with gsub: each is read as its own system's command would."""

from __future__ import annotations

import posixpath

from gsched.cli.options.submission_context import value_context
from gsched.cli.pbs.pbs_call import max_priority, server_of
from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.cli.slurm.slurm_call import elements_of
from gsched.dialect.bsub import OtherScript, ParsedSubmission
from gsched.dialect.pbs.qsub import read_pbs_script
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.script_marks import SLURM_MARK
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.sbatch import read_batch_script
from gsched.dialect.spec_values import SpecValues


def read_other(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    """The submission; the fields `over` count before what the script says. Raises BadRequest."""
    return (_read_slurm if other.mark == SLURM_MARK else _read_pbs)(call, other, over)


def _read_slurm(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    def elements(number: int, indices: str) -> str:
        with connected(call) as session:
            return ",".join(map(str, elements_of(session, number, indices)))

    name = posixpath.basename(other.words[0]) if other.words else "sbatch"
    reading = Reading(value_context(call), call.user, name, elements, over)
    return read_batch_script(other.script, other.words, call.env, reading)


def _read_pbs(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    with connected(call) as session:
        reading = QsubReading(
            around=value_context(call),
            user=call.user,
            host=call.hostname,
            server=server_of(session),
            element_of=lambda number, indices: ",".join(map(str, elements_of(session, number, indices))),
            max_priority=lambda: max_priority(session),
            over=over,
        )
        return read_pbs_script(other.script, other.words, call.env, reading)
