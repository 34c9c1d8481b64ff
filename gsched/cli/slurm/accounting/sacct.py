"""`sacct`: what jobs took, those that have ended too, as Slurm's command of that name shows it.

An end is there as soon as it is committed: jobs that have not ended are asked for first, histories after them.
Source: sacct(1) of Slurm 22.05.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.ids import job_order
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.accounting.account_records import account_pieces
from gsched.cli.slurm.accounting.cancelled_by import Cancellers
from gsched.cli.slurm.accounting.field_tables import AccountingTable, field_names
from gsched.cli.slurm.accounting.sacct_fields import ALSO, BRIEF, DEFAULT, LONG, SACCT_FIELDS, AccountRow
from gsched.cli.slurm.accounting.sacct_options import SACCT
from gsched.cli.slurm.accounting.sacct_selection import SacctSelection, selection_of
from gsched.cli.slurm.facts.job_facts import SlurmJob, folded
from gsched.cli.slurm.facts.job_steps import steps_of
from gsched.cli.slurm.facts.slurm_clock import SlurmClock, clock_of
from gsched.cli.slurm.slurm_call import fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.wire.identity.caller_identity import user_name

TABLE = SACCT
MANY = 2_500
"""Accounts that the door looks at for a caller; more of them his own process does."""


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sacct`."""
    words = read_listing(call, TABLE)
    if words.has("helpformat"):
        call.write(field_names(SACCT_FIELDS))
        return 0
    clock = clock_of(call)
    wanted = selection_of(words, call.user, clock, user_name)
    table = AccountingTable(_format(words), SACCT_FIELDS, ALSO)
    unit = _unit(words)
    with connected(call) as session:
        jobs = _found(call, session, wanted, clock)
        if words.has("batch-script"):
            return _scripts(call, session, words, jobs)
        cluster = session.client.cluster().cluster
        rows = _Rows(Cancellers(session), wanted, words, cluster, unit).of(folded(jobs, call.env))
        if words.has("json"):
            for piece in account_pieces(rows, cluster):
                call.write(piece)
            return 0
        for line in table.lines(rows, words):
            call.write(line)
    return 0


def _format(words: GnuWords) -> str:
    """Of several options that say it the command line's last; fields of repeated --format come together."""
    given = [each for each in words.given if each.name in ("format", "brief", "long")]
    if any(each.name == "format" and each.written.startswith("-") for each in given):
        return ",".join(each.value for each in given if each.name == "format" and each.written.startswith("-"))
    if words.has("brief"):
        return BRIEF
    return LONG if words.has("long") else words.value("format", DEFAULT)


def _unit(words: GnuWords) -> str:
    unit = words.value("units").upper()
    if words.has("units") and (len(unit) != 1 or unit not in "KMGTP"):
        raise BadRequest(f"--units: '{unit[:20]}' is not one of K, M, G, T, P")
    return unit or ("raw" if words.has("noconvert") else "")


def _found(call: Call, session: Session, wanted: SacctSelection, clock: SlurmClock) -> Iterator[SlurmJob]:
    """The jobs that are meant: in order of numbers, of very many in that of histories."""
    running = {view.job_id: SlurmJob(view, clock) for view in session.client.jobs(wanted.running)}
    few = session.client.catalogue.few_accounts(wanted.accounts, MANY, jobs=True)
    if few is not None:
        every = {
            **running,
            **{account.job_id: SlurmJob(account.job, clock) for account in few if account.job is not None},
        }
        found: Iterable[SlurmJob] = sorted(every.values(), key=lambda job: job_order(job.view.job_id))
    else:
        call.take_over()
        accounts = session.client.catalogue.accounts(wanted.accounts, jobs=True)
        found = _merged(running, (SlurmJob(account.job, clock) for account in accounts if account.job is not None))
    return (job for job in found if wanted.is_meant(job))


def _merged(running: dict[int, SlurmJob], ended: Iterator[SlurmJob]) -> Iterator[SlurmJob]:
    """Both by ascending number; of a job that has ended between the questions, its end."""
    last: SlurmJob | None = None
    first = sorted(running.values(), key=lambda job: job.view.job_id)
    for job in heapq.merge(first, ended, key=lambda job: job.view.job_id):
        if last is not None and last.view.job_id != job.view.job_id:
            yield last
        last = job
    if last is not None:
        yield last


@dataclass(frozen=True, slots=True)
class _Rows:
    """Makes rows of jobs."""

    cancellers: Cancellers
    wanted: SacctSelection
    words: GnuWords
    cluster: str
    unit: str

    def of(self, jobs: Iterable[SlurmJob]) -> Iterator[AccountRow]:
        """A row for each job, and behind it one for each of its steps."""
        since = self.wanted.since if self.words.has("truncate") else None
        until = self.wanted.until if self.words.has("truncate") else None
        for job in jobs:
            named = self.wanted.steps_of(job)
            ended_by = self.cancellers.of(job)
            if "" in named:
                yield AccountRow(job, self.cluster, None, self.unit, ended_by, since, until)
            for step in () if self.words.has("allocations") else steps_of(job):
                if named & {"", step.label}:
                    yield AccountRow(job, self.cluster, step, self.unit, ended_by, since, until)


def _scripts(call: Call, session: Session, words: GnuWords, jobs: Iterable[SlurmJob]) -> int:
    if not words.has("jobs"):
        raise BadRequest("--batch-script: say with -j of which jobs")
    for job in jobs:
        call.write(f"Batch Script for {job.raw_id}\n{'-' * 80}\n")
        try:
            script = session.client.texts(job.view.job_id).script
        except PermissionDenied:
            script = b""
        call.write_bytes(script or b"NONE\n")
        if script and not script.endswith(b"\n"):
            call.write("\n")
    return 0
