"""Words of gadmin that say why jobs wait. LSF has none for it; bjobs -p3 comes nearest."""

from __future__ import annotations

import os

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.render.explaining.explanation_json import explanation_json
from gsched.cli.render.explaining.explanation_text import explanation_lines
from gsched.cli.session.time_zone import zone_of


@click.command()
@OPTION_ENVDIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as docs/explain.md describes it.")
@click.argument("job")
def explain(envdir: str | None, as_json: bool, job: str) -> None:
    """Show why a pending job waits: the reasons, who holds what it needs, and when it is expected to start."""
    job_ids = parse_job_ids([job])
    if len(job_ids) != 1 or not job_ids[0]:
        raise BadRequest(f"{job}: one job at a time is explained")
    with connect(envdir) as client:
        found = client.explain(job_ids[0])
    if as_json:
        click.echo(explanation_json(found), nl=False)
    else:
        click.echo("\n".join(explanation_lines(found, zone_of(os.environ))))
