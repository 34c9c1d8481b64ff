"""`sprio`: what the order of jobs that wait goes by, as Slurm's command of that name shows it.

A queue's priority counts first, then the job's own; there is no sum of weighted factors.
Source: sprio(1) of Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gsched.base.errors import BadRequest, NotFound
from gsched.base.node_lists import list_parts
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.facts.job_facts import MOST_PRIORITY, SlurmJob, shown_index
from gsched.cli.slurm.facts.slurm_clock import clock_of
from gsched.cli.slurm.formats import FormatColumn, by_letters
from gsched.cli.slurm.slurm_call import GENERAL, fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, GnuWords
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobFilter

TABLE = GnuOptions(
    summary="show what the order of jobs that wait goes by, as Slurm's sprio does",
    operands="",
    options=(
        GnuOption("jobs", "j", "NUMBERS", "only these jobs"),
        GnuOption("user", "u", "USERS", "only jobs of these users", also=("users",)),
        GnuOption("partition", "p", "NAMES", "only jobs of these queues"),
        GnuOption("format", "o", "FORMAT", "what is shown, such as '%i %Y'"),
        GnuOption("sort", "S", "FIELDS", "order, such as -Y,i; + and - before a field"),
        GnuOption("long", "l", help="all factors of Slurm's: those that are not there are 0"),
        GnuOption("norm", "n", help="the same factors as parts of 1"),
        GnuOption("weights", "w", help="what each factor counts"),
        GnuOption("noheader", "h", help="no heading"),
        GnuOption("clusters", "M", "NAMES", "taken: there is one cluster"),
        GnuOption("local", help="taken: there is one cluster"),
        GnuOption("federation", help="taken: there is one cluster"),
        GnuOption("sibling", help="taken: there is one cluster"),
        VERBOSE,
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -S -P,-Y -o '%i %r %u %P %Y'"),
)
_DEFAULT = "%.15i %9r %.10Y %.10P"
_LONG = "%.15i %9r %.8u %.10Y %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
_NORM = "%.15i %9r %.10y %.10p"
_MOST = 100.0


def _own(job: SlurmJob) -> int:
    return job.spec.priority or 0


def _column(heading: str, value: Callable[[SlurmJob], str]) -> FormatColumn[SlurmJob]:
    return FormatColumn(heading, value)


def _zero(heading: str, text: str = "0") -> FormatColumn[SlurmJob]:
    return FormatColumn(heading, lambda job: text)


SPRIO_COLUMNS = {
    "i": _column("JOBID", lambda job: job.shown_id),
    "r": _column("PARTITION", lambda job: job.spec.queue),
    "u": _column("USER", lambda job: job.spec.user),
    "o": FormatColumn("ACCOUNT", lambda job: job.spec.project, is_free=True),
    "Y": _column("PRIORITY", lambda job: str(job.priority)),
    "y": _column("PRIORITY", lambda job: f"{job.priority / MOST_PRIORITY:.8f}"),
    "P": _column("PARTITION", lambda job: str(job.view.queue_priority)),
    "p": _column("PARTITION", lambda job: f"{job.view.queue_priority / _MOST:.7f}"),
    "N": _zero("NICE"),
    "A": _zero("AGE"),
    "a": _zero("AGE", "0.0000000"),
    "B": _zero("ASSOC"),
    "b": _zero("ASSOC", "0.0000000"),
    "c": _zero("CLUSTER", "N/A"),
    "F": _zero("FAIRSHARE"),
    "f": _zero("FAIRSHARE", "0.0000000"),
    "J": _zero("JOBSIZE"),
    "j": _zero("JOBSIZE", "0.0000000"),
    "Q": _zero("QOS"),
    "q": _zero("QOS", "0.0000000"),
    "S": _zero("SITE"),
    "T": _zero("TRES", ""),
    "t": _zero("TRES", ""),
}


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sprio`."""
    words = read_listing(call, TABLE)
    default = _LONG if words.has("long") else _NORM if words.has("norm") else _DEFAULT
    layout = by_letters(words.value("format", default), SPRIO_COLUMNS)
    ordered = _order(words.value("sort"))
    if words.has("weights"):
        call.write("          JOBID PARTITION   PRIORITY  PARTITION\n        Weights                               1\n")
        return 0
    with connected(call) as session:
        jobs = ordered(list(_chosen(call, session, words)))
    for line in layout.lines(jobs, header=not words.has("noheader")):
        call.write(line)
    return 0


def _chosen(call: Call, session: Session, words: GnuWords) -> Iterator[SlurmJob]:
    named = [parse_job(part.strip()) for part in list_parts(words.value("jobs"))]
    wanted = JobFilter(ids=tuple(number for number, _ in named), user="all", states=tuple(sorted(PENDING)))
    users = {name for name in words.value("user").split(",") if name}
    queues = {name for name in words.value("partition").split(",") if name}
    clock, is_empty = clock_of(call), True
    for view in session.client.jobs(wanted):
        job = SlurmJob(view, clock)
        is_named = not named or any(
            number in (view.job_id, job.array_id) and index in (None, shown_index(view)) for number, index in named
        )
        if not is_named or (users and job.spec.user not in users) or (queues and job.spec.queue not in queues):
            continue
        is_empty = False
        yield job
    if named and is_empty:
        raise NotFound("Unable to find jobs matching user/id(s) specified")


def _order(text: str) -> Callable[[list[SlurmJob]], list[SlurmJob]]:
    fields = [(item.lstrip("+-"), item.startswith("-")) for item in text.split(",") if item]
    if not all(letter in SPRIO_COLUMNS for letter, _ in fields):
        raise BadRequest(f"Invalid sort specification: {text[:40]}")

    def ordered(jobs: list[SlurmJob]) -> list[SlurmJob]:
        for letter, is_reversed in reversed(fields):
            value = SPRIO_COLUMNS[letter].value
            jobs.sort(key=lambda job, value=value: (value(job).zfill(20), value(job)), reverse=is_reversed)  # type: ignore[misc]
        return jobs

    return ordered
