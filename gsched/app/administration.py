"""`gadmin` (badmin) and `lsadmin`: click reads its words, everything heavy is imported by the one that needs it.

Source of the texts: badmin(8) of LSF 10.1; `frag` is gsched's own.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from gsched import __version__
from gsched.app.certifying import host_cert, init_ca
from gsched.app.entry import OPTION_ENVDIR
from gsched.app.fleet_words import OF_FLEET
from gsched.app.lsf_words import OF_BADMIN, Words
from gsched.app.store_words import OF_STORE
from gsched.base.errors import LSF_FAILURE, BadRequest


@click.group("gadmin", cls=Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="gadmin")
def gadmin() -> None:
    """Administer a cluster: its configuration, its hosts and queues, and what fragments its GPUs."""


@gadmin.command()
@OPTION_ENVDIR
@click.option("-v", "verbose", is_flag=True, help="Also show notes: what is not wrong but worth knowing.")
def ckconfig(envdir: str | None, verbose: bool) -> None:
    """Check the configuration files and report every problem as file:line."""
    check_files(envdir, verbose=verbose)


def check_files(envdir: str | None, *, verbose: bool) -> None:
    """Check them and say what was found; ends the command where they have errors."""
    from gsched.config.files import load

    click.echo("\nChecking configuration files ...\n", err=True)
    loaded = load(conf_of(envdir), has_account=_has_account, run_egroup=True)
    errors = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    notes = [str(problem) for problem in loaded.problems if problem.severity != "error"]
    _report(errors, notes if verbose or not errors else [])


def conf_of(envdir: str | None) -> str:
    """The configuration folder that is meant."""
    from gsched.base.envdir import conf_dir

    return os.path.abspath(envdir or conf_dir(os.environ))


def _has_account(name: str) -> bool:
    from gsched.wire.auth import uid_of_user

    return uid_of_user(name) is not None


@gadmin.command()
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


@gadmin.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by ghosts -l.")
@click.argument("hosts", nargs=-1)
def hclose(envdir: str | None, comment: str, hosts: tuple[str, ...]) -> None:
    """Close hosts, host groups or compute units for new jobs (all: every host; none named: this one)."""
    _host_control(envdir, "close", hosts, comment)


@gadmin.command()
@OPTION_ENVDIR
@click.argument("hosts", nargs=-1)
def hopen(envdir: str | None, hosts: tuple[str, ...]) -> None:
    """Open hosts, host groups or compute units that were closed."""
    _host_control(envdir, "open", hosts, "")


_STILL_CLOSED = {
    "closed_Excl": "an exclusive job",
    "closed_Wind": "dispatch window",
    "closed_Full": "job limit",
    "closed_Busy": "load threshold",
}


def _host_control(envdir: str | None, action: str, hosts: tuple[str, ...], comment: str) -> None:
    from gsched.app.private import host_name

    with connect(envdir) as client:
        wanted = list(hosts) or [host_name()]
        if wanted == ["all"]:
            wanted = [host.name for host in client.hosts()]
        named = client.host_control(action, wanted, comment)
        states = {host.name: host.status for host in client.hosts(named)} if action == "open" else {}
    for name in named:
        why = _STILL_CLOSED.get(states.get(name, ""))
        rest = f" : host remains closed due to {why}; " if why else ""
        click.echo(f"{action.capitalize()} <{name}> ...... done{rest}", err=True)


@gadmin.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qclose(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Close queues: they take no new jobs (all: every queue; none named: the default one)."""
    _queue_control(envdir, "close", queues, comment)


@gadmin.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qopen(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Open queues that were closed."""
    _queue_control(envdir, "open", queues, comment)


@gadmin.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; pending jobs say so.")
@click.argument("queues", nargs=-1)
def qinact(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Inactivate queues: they start no jobs; those that run go on."""
    _queue_control(envdir, "inactivate", queues, comment)


@gadmin.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Why; shown by gqueues -l.")
@click.argument("queues", nargs=-1)
def qact(envdir: str | None, comment: str, queues: tuple[str, ...]) -> None:
    """Activate queues that were inactivated."""
    _queue_control(envdir, "activate", queues, comment)


def _queue_control(envdir: str | None, action: str, queues: tuple[str, ...], comment: str) -> None:
    with connect(envdir) as client:
        wanted = list(queues) or client.cluster().default_queue.split()
        answers = client.queue_control(action, [] if wanted == ["all"] else wanted, comment)
    for answer in answers:
        click.echo(answer.error or answer.text, err=bool(answer.error))
    if any(answer.error for answer in answers):
        sys.exit(LSF_FAILURE)


@gadmin.command()
@OPTION_ENVDIR
def frag(envdir: str | None) -> None:
    """Show the largest GPU job that fits now, host by host, and what holds it back."""
    from gsched.cli.render.hosts.fragments import render_fragments

    with connect(envdir) as client:
        click.echo(render_fragments(client.fragmentation()), nl=False)


def _showconf(envdir: str | None, daemon: str) -> None:
    """lsf.conf as KEY = VALUE lines under one heading, as programs read them."""
    from gsched.base.envdir import conf_dir
    from gsched.config.lsfconf import settings_of

    click.echo(f"{daemon.upper()} configuration at {time.ctime()}")
    for name, value in settings_of(os.path.abspath(envdir or conf_dir(os.environ))).items():
        click.echo(f"        {name} = {value}")


@gadmin.command("showconf")
@OPTION_ENVDIR
@click.argument("daemon", type=click.Choice(["mbd", "sbd"]))
@click.argument("hosts", nargs=-1)
def showconf(envdir: str | None, daemon: str, hosts: tuple[str, ...]) -> None:
    """Show what lsf.conf says; it is the same for every daemon and host."""
    _showconf(envdir, daemon)


@click.group("lsadmin", cls=Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="lsadmin")
def lsadmin() -> None:
    """What LSF's lsadmin does of the things that gadmin does."""


lsadmin.add_command(ckconfig)


@lsadmin.command("reconfig")
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


@lsadmin.command("showconf")
@OPTION_ENVDIR
@click.argument("daemon", type=click.Choice(["lim"]))
@click.argument("hosts", nargs=-1)
def showconf_of_lim(envdir: str | None, daemon: str, hosts: tuple[str, ...]) -> None:
    """Show what lsf.conf says; it is the same for every host."""
    _showconf(envdir, daemon)


def connect(envdir: str | None) -> Any:
    """A client of the cluster's master; it says once on standard error that it waits."""
    from gsched.base.envdir import conf_dir, read_setting
    from gsched.wire.client import Client
    from gsched.wire.patience import DEFAULT_WAIT_S
    from gsched.wire.ways import way_to_master

    def waiting(silent: str) -> None:
        click.echo(f"gsched: {silent} is not responding. Please wait ...", err=True)

    folder = envdir or conf_dir(os.environ)
    text = os.environ.get("GSCHED_COMMAND_WAIT") or read_setting(folder, "GSCHED_COMMAND_WAIT")
    try:
        wait_s = float(text or DEFAULT_WAIT_S)
    except ValueError:
        raise BadRequest(f"GSCHED_COMMAND_WAIT={text}: not a number of seconds") from None
    way = way_to_master(folder, as_root=True)
    return Client(way.address, wait_s=wait_s, on_wait=waiting, channel=way.channel())


for _word in (*OF_BADMIN, *OF_FLEET, *OF_STORE, init_ca, host_cert):
    gadmin.add_command(_word)
