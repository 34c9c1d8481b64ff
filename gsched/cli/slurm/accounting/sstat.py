"""`sstat`: what jobs that run have used so far, as Slurm's command of that name shows it.

Source: sstat(1) of Slurm 22.05. It is what their agents have told last, some seconds ago.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import array_of
from gsched.base.node_lists import list_parts
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.accounting.field_tables import PARSABLE, AccountingTable, TableField, field_names
from gsched.cli.slurm.accounting.sacct_fields import SACCT_FIELDS, AccountRow
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.job_steps import STEP_NAME, SlurmStep, running_steps
from gsched.cli.slurm.facts.slurm_clock import SlurmClock, clock_of
from gsched.cli.slurm.slurm_call import FAILURE, fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.views.view import JobFilter

TABLE = GnuOptions(
    summary="show what jobs that run have used so far, as Slurm's sstat does",
    operands="",
    options=(
        GnuOption("jobs", "j", "JOB[.STEP],...", "of these jobs"),
        GnuOption("format", "o", "FIELDS", "what is shown, such as JobID,MaxRSS%20", also=("fields",)),
        GnuOption("helpformat", "e", help="the fields of --format"),
        GnuOption("pidformat", "i", help="the processes of the jobs"),
        *PARSABLE,
        GnuOption("noconvert", help="sizes as they are kept"),
        GnuOption("allsteps", "a", help="all steps of the jobs that run, not the first alone"),
        VERBOSE,
        *general(),
    ),
    interspersed=True,
    examples=("PROGRAM -j 12", "PROGRAM -nPj 12,13 -o JobID,MaxRSS,TRESUsageInTot"),
)
_NAMES = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,"
    "reqcpufreqgov,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,"
    "maxdiskwritetask,avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,"
    "tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutave,tresusageoutmax,tresusageoutmaxnode,"
    "tresusageoutmaxtask,tresusageoutmin,tresusageoutminnode,tresusageoutmintask,tresusageouttot"
)
"""What is shown where nothing is chosen."""


def _pids(row: AccountRow) -> str:
    return ",".join(map(str, row.job.usage.pids)) if row.script is not None else ""


SSTAT_FIELDS = {
    **{name: SACCT_FIELDS[name] for name in (*_NAMES.split(","), "consumedenergyraw", "reqcpufreq", "nodelist")},
    "pids": TableField("Pids", 20, _pids),
}


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sstat`."""
    words = read_listing(call, TABLE)
    if words.has("helpformat"):
        call.write(field_names(SSTAT_FIELDS))
        return 0
    text = words.value("format") or ("jobid,nodelist,pids" if words.has("pidformat") else _NAMES)
    table = AccountingTable(text, SSTAT_FIELDS)
    if not words.has("jobs"):
        raise BadRequest("You didn't give me any jobs to stat.")
    named = [part for each in words.given if each.name == "jobs" for part in list_parts(each.value)]
    unit = "raw" if words.has("noconvert") else ""
    code, rows = 0, list[AccountRow]()
    with connected(call) as session:
        cluster = session.client.cluster().cluster
        for part in named:
            try:
                steps = _running(session, part, clock_of(call), every=words.has("allsteps"))
                rows += [AccountRow(step.job, cluster, step, unit) for step in steps]
            except NotFound as problem:
                complain(call, f"error: {problem.text}")
                code = FAILURE
    for line in table.lines(rows, words):
        call.write(line)
    return code


def _first(steps: list[SlurmStep]) -> list[SlurmStep]:
    return ([step for step in steps if step.facts is not None] or steps)[:1]


def _running(session: Session, text: str, clock: SlurmClock, *, every: bool) -> list[SlurmStep]:
    """The steps that are meant by `12`, `12.0`, `12_3.batch`; of a job alone the first that srun has started, else its
    script, or `every` one. Raises NotFound where nothing runs, BadRequest for what is no job.
    """
    name, dot, label = text.strip().partition(".")
    if dot and not STEP_NAME.fullmatch(label):
        raise BadRequest(f"Bad job/step specified: {text[:60]}")
    number, index = parse_job(name)
    found = [
        SlurmJob(view, clock)
        for view in session.client.jobs(JobFilter(ids=(number,), user="all"))
        if number in (view.job_id, array_of(view.job_id)) and index in (None, shown_index(view))
    ]
    steps = [running_steps(job) for job in found]
    if dot:
        meant = [step for each in steps for step in each if step.label == label]
    else:
        meant = [step for each in steps for step in (each if every else _first(each))]
    if not meant:
        raise NotFound(f"couldn't get steps for job {text.strip()[:60]}")
    return meant
