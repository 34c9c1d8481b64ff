"""Words of gadmin and lsadmin about the configuration: check it, switch to it, show it."""

from __future__ import annotations

import sys
import time

import click

from gsched.app.commands.command_options import OPTION_ENVDIR, conf_of
from gsched.app.commands.master_client import connect
from gsched.config.configuration import load
from gsched.config.files.lsf_conf import settings_of
from gsched.model.config import ClusterConfig
from gsched.model.queues.container import read_site_container
from gsched.run.containers.container_words import image_path, look_for
from gsched.wire.identity.caller_identity import uid_of_user


@click.command()
@OPTION_ENVDIR
@click.option("-v", "verbose", is_flag=True, help="Also show notes: what is not wrong but worth knowing.")
def ckconfig(envdir: str | None, verbose: bool) -> None:
    """Check the configuration files and report every problem as file:line."""
    check_files(envdir, verbose=verbose)


def check_files(envdir: str | None, *, verbose: bool) -> None:
    """Check them and say what was found; ends the command where they have errors."""
    click.echo("\nChecking configuration files ...\n", err=True)
    loaded = load(conf_of(envdir), has_account=_has_account, run_egroup=True)
    errors = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    notes = [str(problem) for problem in loaded.problems if problem.severity != "error"]
    notes += site_image_notes(loaded.config) if loaded.config is not None else []
    _report(errors, notes if verbose or not errors else [])


def site_image_notes(config: ClusterConfig) -> list[str]:
    """Of each CONTAINER whose image is a file or folder that is not on this host, what keeps it from being found."""
    owners = [(f"queue {queue.name}", queue.container) for queue in config.queues.values()]
    owners += [(f"application profile {each.name}", each.container) for each in config.applications.values()]
    notes = []
    for owner, text in owners:
        image = read_site_container(text)[0] if text else ""
        try:
            look_for(image)
        except OSError as error:
            why = f"{image_path(image)} is not to be had on this host ({error.strerror})"
            notes.append(f"note: CONTAINER of {owner}: {why}; the hosts that run its jobs need it")
    return notes


def _has_account(name: str) -> bool:
    return uid_of_user(name) is not None


@click.command()
@OPTION_ENVDIR
@click.option("-v", "verbose", is_flag=True, help="Taken for LSF's sake: problems are always shown.")
@click.option("-f", "force", is_flag=True, help="Taken for LSF's sake: nothing is asked.")
@click.option("-C", "comment", default="", metavar="TEXT", help="Taken for LSF's sake.")
def reconfig(envdir: str | None, verbose: bool, force: bool, comment: str) -> None:
    """Check the files and switch to them while jobs run; a file with an error changes nothing."""
    if _reconfigured(envdir):
        click.echo("Reconfiguration initiated")


def _reconfigured(envdir: str | None) -> bool:
    """Whether the master has taken over the files; where it has not, that is said and the command ends."""
    click.echo("\nChecking configuration files ...\n", err=True)
    with connect(envdir) as client:
        result = client.reconfigure(apply=True)
    if result.problems or not result.applied:
        click.echo("Reconfiguration aborted.")
    _report(list(result.problems), list(result.notes))
    return bool(result.applied)


def _report(errors: list[str], notes: list[str]) -> None:
    for line in (*errors, *notes):
        click.echo(line, err=True)
    if errors:
        many = f"{len(errors)} errors" if len(errors) > 1 else "one error"
        click.echo(f"\nThere are fatal errors: {many}. Nothing was changed.\n", err=True)
        sys.exit(255)
    click.echo("No errors found.\n", err=True)


def _showconf(envdir: str | None, daemon: str) -> None:
    """lsf.conf as KEY = VALUE lines under one heading, as programs read them."""
    click.echo(f"{daemon.upper()} configuration at {time.ctime()}")
    for name, value in settings_of(conf_of(envdir)).items():
        click.echo(f"        {name} = {value}")


@click.command("showconf")
@OPTION_ENVDIR
@click.argument("daemon", type=click.Choice(["mbd", "sbd"]))
@click.argument("hosts", nargs=-1)
def showconf(envdir: str | None, daemon: str, hosts: tuple[str, ...]) -> None:
    """Show what lsf.conf says; it is the same for every daemon and host."""
    _showconf(envdir, daemon)


@click.command("reconfig")
@OPTION_ENVDIR
@click.option("-v", "verbose", is_flag=True, help="Taken for LSF's sake: problems are always shown.")
@click.option("-f", "force", is_flag=True, help="Taken for LSF's sake: nothing is asked.")
def reconfig_of_lim(envdir: str | None, verbose: bool, force: bool) -> None:
    """Check the files, switch to them, and have every host's agent follow."""
    if _reconfigured(envdir):
        with connect(envdir) as client:
            for host in client.hosts():
                if host.status not in ("unavail", "unreach"):
                    click.echo(f"Restart LIM on <{host.name}> ...... done", err=True)


@click.command("showconf")
@OPTION_ENVDIR
@click.argument("daemon", type=click.Choice(["lim"]))
@click.argument("hosts", nargs=-1)
def showconf_of_lim(envdir: str | None, daemon: str, hosts: tuple[str, ...]) -> None:
    """Show what lsf.conf says; it is the same for every host."""
    _showconf(envdir, daemon)
