"""`gsched convert`: a script for one batch system printed for another. It asks no cluster."""

from __future__ import annotations

import getpass
import os
import sys
import time
from pathlib import Path

import click

from gsched.base.errors import BadRequest
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.bsub import SCRIPT_LIMIT
from gsched.dialect.converting.conversion import MARK_OF
from gsched.dialect.converting.conversion import convert as converted
from gsched.dialect.spec_values import ValueContext


@click.command()
@click.argument("script", metavar="SCRIPT")
@click.option("--to", "target", required=True, type=click.Choice(list(MARK_OF)), help="the dialect to print it in")
def convert(script: str, target: str) -> None:
    """Print a script with #BSUB, #SBATCH or #PBS lines in another of these dialects.

    Only these lines are rewritten, the rest of SCRIPT (- is standard input) stays as it is. What has no counterpart is
    told of on standard error with its line, and so are variables and commands that the script uses of its own system.
    With a wrong line nothing is printed, and the exit code is 1. Nothing is submitted, and no cluster is asked.

    gsched convert job.sbatch --to bsub > job.lsf && gsub job.lsf
    """
    name = "" if script == "-" else os.path.basename(script)
    now = ValueContext(cwd="/", now=time.time(), zone=zone_of(os.environ))
    try:
        found = converted(_read(script), target, name=name, user=_user(), now=now)
    except BadRequest as error:
        click.echo(f"{script}: {error.text}", err=True)
        raise SystemExit(1) from None
    for note in found.notes:
        click.echo(f"{script}: {note}", err=True)
    click.echo(found.script, nl=False)


def _read(script: str) -> bytes:
    try:
        if script == "-":
            return sys.stdin.buffer.read(SCRIPT_LIMIT + 1)
        with Path(script).open("rb") as file:
            return file.read(SCRIPT_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
