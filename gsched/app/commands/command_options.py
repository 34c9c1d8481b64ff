"""Options that several words have, the exit code of a failure, and the question before something large."""

from __future__ import annotations

import os
import sys

import click

from gsched.base.envdir import conf_dir
from gsched.base.errors import BadRequest
from gsched.base.machine.secret_file import read_secret

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

OPTION_PASSPHRASE_FILE = click.option(
    "--passphrase-file", metavar="PATH", help="The passphrase is the first line of this file, which is yours alone."
)
OPTION_ASK_PASSPHRASE = click.option("--ask-passphrase", is_flag=True, help="The passphrase is asked for.")


def has_terminal() -> bool:
    """Whether somebody can be asked for what nobody else is to see."""
    return sys.stdin.isatty()


def passphrase_of(file: str | None, *, ask: bool, new: bool) -> str:
    """The passphrase from where it is to come from; empty: from nowhere. A new one is asked for twice.

    Raises BadRequest.
    """
    if file and ask:
        raise BadRequest("--passphrase-file and --ask-passphrase exclude each other")
    if file:
        return read_secret(os.path.abspath(file), "the passphrase", "the passphrase")
    if not ask:
        return ""
    if not has_terminal():
        raise BadRequest("there is no terminal to ask for the passphrase: --passphrase-file PATH reads it")
    return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True))


def conf_of(envdir: str | None) -> str:
    """The configuration folder that is meant."""
    return os.path.abspath(envdir or conf_dir(os.environ))


def asked(question: str, *, force: bool) -> bool:
    """Whether the person says yes; an end of input means no. With `force` nobody is asked."""
    if force:
        return True
    click.echo(f"{question} [y/n] ", nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
