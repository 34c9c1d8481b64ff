"""Words of gadmin that say why jobs wait, and why others do not. LSF has none for it; bjobs -p3 comes nearest."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Iterator

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.explaining.start_tables import starts_in_table
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.render.explaining.comparison_json import comparison_json
from gsched.cli.render.explaining.comparison_text import comparison_lines
from gsched.cli.render.explaining.estimate_errors import estimate_errors_json, estimate_errors_lines
from gsched.cli.render.explaining.explanation_json import explanation_json
from gsched.cli.render.explaining.explanation_text import explanation_lines
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.times import parse_span
from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.start_estimate_errors import errors_of
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import uid_of_user


@click.command()
@OPTION_ENVDIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as docs/explain.md describes it.")
@click.argument("job")
def explain(envdir: str | None, as_json: bool, job: str) -> None:
    """Show why a pending job waits: the reasons, who holds what it needs, and when it is expected to start."""
    job_id = _one_job(job)
    with connect(envdir) as client:
        found = client.explain(job_id)
    if as_json:
        click.echo(explanation_json(found), nl=False)
    else:
        click.echo("\n".join(explanation_lines(found, zone_of(os.environ))))


@click.command("why-not")
@OPTION_ENVDIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as docs/explain.md describes it.")
@click.argument("job")
@click.argument("other")
def why_not(envdir: str | None, as_json: bool, job: str, other: str) -> None:
    """Show why JOB waits and OTHER runs, or stands before it: the first rule that decides, with the numbers of both."""
    job_id, other_id = _one_job(job), _one_job(other)
    with connect(envdir) as client:
        found = client.why_not(job_id, other_id)
    if as_json:
        click.echo(comparison_json(found), nl=False)
    else:
        click.echo("\n".join(comparison_lines(found, zone_of(os.environ))))


@click.command()
@OPTION_ENVDIR
@click.option("-S", "times", metavar="TIME,TIME", default="", help="Jobs submitted in that time, as of gacct -S.")
@click.option("-u", "users", metavar="USER ...", default="", help="Jobs of these users or user groups.")
@click.option("-q", "queues", metavar="QUEUE ...", default="", help="Jobs of these queues.")
@click.option("--table", metavar="FILE", default="", help="The jobs.csv of gsched sim --csv in place of the history.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as docs/explain.md describes it.")
def estimates(envdir: str | None, times: str, users: str, queues: str, table: str, as_json: bool) -> None:
    """Show how far off it was what was said of starts while jobs waited: such jobs, the mean wait, the plan."""
    if table:
        for option, value in (("-S", times), ("-u", users), ("-q", queues)):
            if value:
                raise BadRequest(f"{option} and --table cannot be given together")
        found = errors_of(starts_in_table(table))
    else:
        since, until = parse_span(times, time.time(), zone_of(os.environ)) if times else (None, None)
        submitted = TimeSpan(since=since, until=until)
        wanted = AccountFilter(users=tuple(users.split()), queues=tuple(queues.split()), submitted=submitted)
        with connect(envdir) as client:
            users_seen: set[str] = set()
            found = errors_of(_starts(client.catalogue.told_accounts(wanted), users_seen))
            _refuse_unknown(client, wanted, users_seen)
        if not (users_seen or as_json):
            click.echo(_nothing_started(users, queues, times))
            return
    click.echo(estimate_errors_json(found) if as_json else "\n".join(estimate_errors_lines(found)))


def _starts(accounts: Iterable[Account], users_seen: set[str]) -> Iterator[tuple[float, float, StartEstimate | None]]:
    """Those jobs that have started; notes whose they are."""
    for each in accounts:
        if each.dispatched_at is not None:
            users_seen.add(each.user)
            yield each.submitted_at, each.dispatched_at, each.told


def _refuse_unknown(client: Client, wanted: AccountFilter, seen: Container[str]) -> None:
    """Raises NotFound for a queue that there is none, and for a user or group whom neither the cluster nor this host
    knows.
    """
    unseen = [name for name in wanted.users if name not in seen and name != "all" and uid_of_user(name) is None]
    if unseen:
        client.catalogue.users(unseen)
    if wanted.queues:
        client.queues(wanted.queues)


def _nothing_started(users: str, queues: str, times: str) -> str:
    """Of which jobs there is nothing to judge."""
    of = f" of {users}" if users else ""
    of += f" in {queues}" if queues else ""
    return f"No job{of} has started{f' that was submitted in {times}' if times else ''}"


def _one_job(text: str) -> int:
    """Raises BadRequest for what is no number of a job."""
    job_ids = parse_job_ids([text])
    if len(job_ids) != 1 or not job_ids[0]:
        raise BadRequest(f"{text}: one job at a time is explained")
    return job_ids[0]
