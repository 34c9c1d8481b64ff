"""Options that several words have, the exit code of a failure, and the question before something large."""

from __future__ import annotations

import os
import sys

import click

from gsched.base.envdir import conf_dir

FAILURE = 1
OPTION_DIR = click.option(
    "--dir", "folder", metavar="D", help="Folder of the private cluster (default: GSCHED_ENVDIR's, else ~/.gsched)."
)
OPTION_ENVDIR = click.option(
    "--envdir", metavar="CONF", help="Configuration folder (default: GSCHED_ENVDIR, else ~/.gsched/conf)."
)
OPTION_CONF = click.option(
    "--conf",
    metavar="FOLDER",
    help="Configuration folder (default: GSCHED_ENVDIR, else ~/.gsched/conf).",
)


def conf_of(envdir: str | None) -> str:
    """The configuration folder that is meant."""
    return os.path.abspath(envdir or conf_dir(os.environ))


def asked(question: str, *, force: bool) -> bool:
    """Whether the person says yes; an end of input means no. With `force` nobody is asked."""
    if force:
        return True
    click.echo(f"{question} [y/n] ", nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
