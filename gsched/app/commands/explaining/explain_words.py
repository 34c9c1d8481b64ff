"""Words of gadmin that say why jobs wait, and why others do not. LSF has none for it; bjobs -p3 comes nearest."""

from __future__ import annotations

import os
import time

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
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.policy.future.start_estimate_errors import errors_of


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
            found = errors_of(
                (each.submitted_at, each.dispatched_at, each.told)
                for each in client.catalogue.told_accounts(wanted)
                if each.dispatched_at is not None
            )
    click.echo(estimate_errors_json(found) if as_json else "\n".join(estimate_errors_lines(found)))


def _one_job(text: str) -> int:
    """Raises BadRequest for what is no number of a job."""
    job_ids = parse_job_ids([text])
    if len(job_ids) != 1 or not job_ids[0]:
        raise BadRequest(f"{text}: one job at a time is explained")
    return job_ids[0]
