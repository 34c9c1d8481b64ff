"""`gsched export lsb.acct`: finished jobs as LSF's accounting has them, for programs that read it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.accounting.job_finish import write_record
from gsched.dialect.accounting.past_job import record_of
from gsched.dialect.times import parse_moment
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.view import JobView
from gsched.wire.calls.catalogue_calls import Catalogue
from gsched.wire.identity.caller_identity import uid_of_user

_DAY_S = 86_400


@click.command()
@click.argument("kind", metavar="lsb.acct", type=click.Choice(["lsb.acct"]))
@click.argument("file", metavar="FILE")
@click.option("--since", default="", metavar="TIME", help="Only jobs that ended then or later, as 2026/11/01/00:00.")
@click.option("--until", default="", metavar="TIME", help="Only jobs that ended by then.")
@OPTION_ENVDIR
def export(kind: str, file: str, since: str, until: str, envdir: str | None) -> None:
    """Write finished jobs into a file in the format of LSF 10.1's lsb.acct, in the order in which they ended.

    A file that is there is replaced when all has been written; - is standard output.

    \b
      gsched export lsb.acct jobs.acct --since 2026/11/01/00:00
    """
    zone, now = zone_of(os.environ), time.time()
    begin, end = (parse_moment(text, now, zone) if text else None for text in (since, until))
    if begin is not None and end is not None and begin > end:
        raise BadRequest(f"--since {since} is later than --until {until}")
    with connect(envdir) as client:
        jobs = _jobs(client.catalogue, TimeSpan(since=begin, until=end))
        if file == "-":
            count = _write(jobs, sys.stdout)
        else:
            count = _replace(file, jobs)
    click.echo(f"{count} jobs are in {file}", err=True)


def _jobs(catalogue: Catalogue, span: TimeSpan) -> Iterator[JobView]:
    """By the times of their ends: a day is read at a time, since they come by their numbers."""
    days = {int(each.finished_at // _DAY_S) for each in catalogue.accounts(AccountFilter(completed=span))}
    for day in sorted(days):
        begin, end = float(day * _DAY_S), float((day + 1) * _DAY_S - 1)
        since = begin if span.since is None else max(begin, span.since)
        until = end if span.until is None else min(end, span.until)
        completed = TimeSpan(since=since, until=until)
        found = list(catalogue.accounts(AccountFilter(completed=completed), jobs=True))
        found.sort(key=lambda account: (int(account.finished_at), account.job_id))
        yield from (account.job for account in found if account.job is not None)


def _write(jobs: Iterator[JobView], file: TextIO) -> int:
    users: dict[str, int] = {}
    count = 0
    for job in jobs:
        name = job.spec.user
        if name not in users:
            found = uid_of_user(name)
            users[name] = -1 if found is None else found
        file.write(write_record(record_of(job, users[name])) + "\n")
        count += 1
    return count


def _replace(path: str, jobs: Iterator[JobView]) -> int:
    target = Path(path).absolute()
    made = ""
    try:
        descriptor, made = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            count = _write(jobs, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(made, target)
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    finally:
        if made:
            Path(made).unlink(missing_ok=True)
    return count
