"""Words of gadmin that say why jobs wait, and why others do not. LSF has none for it; bjobs -p3 comes nearest."""

from __future__ import annotations

import os

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.render.explaining.comparison_json import comparison_json
from gsched.cli.render.explaining.comparison_text import comparison_lines
from gsched.cli.render.explaining.explanation_json import explanation_json
from gsched.cli.render.explaining.explanation_text import explanation_lines
from gsched.cli.session.time_zone import zone_of


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


def _one_job(text: str) -> int:
    """Raises BadRequest for what is no number of a job."""
    job_ids = parse_job_ids([text])
    if len(job_ids) != 1 or not job_ids[0]:
        raise BadRequest(f"{text}: one job at a time is explained")
    return job_ids[0]
