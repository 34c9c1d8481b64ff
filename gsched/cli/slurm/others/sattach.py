"""`sattach`: the output of a job that runs, as it goes on, as Slurm's command of that name shows that of a step.

What is typed does not reach the job. Source: sattach(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import array_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import read_words
from gsched.cli.session.session import connected
from gsched.cli.slurm.facts.job_facts import shown_index
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general, refused
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import STARTED
from gsched.model.views.view import JobFilter, OutputChunk
from gsched.wire.calls.client import Client

_ONE = "a job has one output"
TABLE = GnuOptions(
    summary="show the output of a job that runs, as it goes on, as Slurm's sattach does",
    operands="JOB[.STEP]",
    options=(
        GnuOption("quiet", "Q", help="taken, and says no less"),
        VERBOSE,
        *general("h", "u"),
        *refused("error-filter", "input-filter", "output-filter", "label/l", because=_ONE),
        *refused("layout", because="scontrol show job -d tells where a job runs"),
        *refused("pty", because="gsub -Ip has a terminal"),
    ),
    interspersed=True,
    examples=("PROGRAM 12.0", "PROGRAM 14_3"),
)
_STEP = re.compile(r"[0-9]{1,10}|batch|interactive", re.ASCII)


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sattach`."""
    words = read_words(call, TABLE)
    if len(words.rest) != 1:
        raise BadRequest("give one job: JOB or JOB.STEP")
    name, dot, step = words.rest[0].partition(".")
    if dot and not _STEP.fullmatch(step):
        raise BadRequest(f"'{words.rest[0][:60]}' is no step: JOB.0 is the script of a job")
    number, index = parse_job(name)
    with connected(call) as session:
        found = [
            view
            for view in session.client.jobs(JobFilter(ids=(number,), user="all"))
            if number in (view.job_id, array_of(view.job_id)) and index in (None, shown_index(view))
        ]
        running = [view for view in found if view.state in STARTED]
        if not running:
            raise NotFound(f"Could not get job step info: {'Job is pending' if found else 'Invalid job id specified'}")
        if len(running) > 1:
            raise BadRequest(f"{name} has several elements that run: name one, {name}_INDEX")
        job, shown = running[0], {"stdout": 0, "stderr": 0}

        def ask(client: Client) -> Iterator[OutputChunk]:
            return client.output(job.job_id, stdout_from=shown["stdout"], stderr_from=shown["stderr"], follow=True)

        for chunk in session.output(job.job_id, job.attempt, ask):
            shown[chunk.stream] += len(chunk.data)
            if chunk.stream == "stdout":
                call.write_bytes(chunk.data)
                call.flush()
            else:
                call.error_bytes(chunk.data)
    return 0
