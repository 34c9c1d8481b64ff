"""Words of badmin and lsadmin beyond configuration and closing: what happened, how the master is, daemons.

Source of the texts and streams: badmin(8), lsadmin(8) of LSF 10.1.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from gsched.app.entry import OPTION_ENVDIR
from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.model.config import ClusterConfig

UNSUPPORTED = {
    **dict.fromkeys(("perfmon", "rc", "diagnose", "security", "hpower", "lsfproxyd", "gpd", "switcheventfile"), ""),
    **dict.fromkeys(
        ("mbddebug", "mbdtime", "sbddebug", "sbdtime", "schddebug", "schdtime"), "daemons log to LSF_LOGDIR"
    ),
    **dict.fromkeys(
        ("limdebug", "limtime", "resdebug", "restime", "reslogon", "reslogoff"), "daemons log to LSF_LOGDIR"
    ),
    **dict.fromkeys(("hghostadd", "hghostdel"), "groups are changed in lsb.hosts, then badmin reconfig"),
    **dict.fromkeys(("limrestart", "resrestart"), "one agent is LIM, RES and sbatchd: badmin hrestart"),
    **dict.fromkeys(("limshutdown", "resshutdown"), "one agent is LIM, RES and sbatchd: badmin hshutdown"),
    **dict.fromkeys(("limstartup", "resstartup"), "one agent is LIM, RES and sbatchd: badmin hstartup"),
    **dict.fromkeys(("limlock", "limunlock"), "badmin hclose and hopen keep jobs off a host"),
}
"""Words of LSF that are refused by name, and what does the same."""


class InvalidCommand(click.ClickException):
    """A word that is none, told as LSF tells it."""

    def __init__(self, word: str, program: str) -> None:
        super().__init__(f"Invalid command <{word}> ")
        self._program = program

    def show(self, file: Any = None) -> None:
        click.echo(f"{self.message}\n{self._program} -h lists the commands", err=True)


class Words(click.Group):
    """The words of badmin or lsadmin: those of LSF that are missing are refused by name."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word, program = args[0], ctx.info_name or self.name or ""
        if word in ("help", "?"):
            click.echo(ctx.get_help())
            ctx.exit()
        if word not in self.commands:
            if word in UNSUPPORTED:
                hint = f"; {UNSUPPORTED[word]}" if UNSUPPORTED[word] else ""
                raise BadRequest(f"{word} is not supported{hint}")
            raise InvalidCommand(word, program)
        return super().resolve_command(ctx, args)


def asked(question: str, *, force: bool) -> bool:
    """Whether the person says yes; an end of input means no. With `force` nobody is asked."""
    if force:
        return True
    click.echo(f"{question} [y/n] ", nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# -- what happened ----------------------------------------------------------------------------------------------------

OPTION_TIME = click.option("-t", "times", metavar="TIME,TIME", default="", help="Only in that time, as of gacct -C.")
OPTION_FILE = click.option("-f", "log", metavar="FILE", default="", help="Refused: the history is in the event store.")


def _history(envdir: str | None, times: str, log: str, kinds: Sequence[str], names: Sequence[str] = ()) -> None:
    from gsched.app.administration import connect
    from gsched.cli.render.cluster.notices import render_notices
    from gsched.cli.session.time_zone import zone_of
    from gsched.dialect.spans import parse_span
    from gsched.model.catalogue import TimeSpan

    if log:
        raise BadRequest(f"-f {log}: the history is in the event store, not in a file; leave -f out")
    zone = zone_of(os.environ)
    span = TimeSpan()
    if times:
        since, until = parse_span(times, time.time(), zone)
        span = TimeSpan(since=since, until=until)
    with connect(envdir) as client:
        records = client.catalogue.notices(span)
    text = render_notices(records, zone, kinds=kinds, names=names)
    if not text:
        click.echo("No matching event found", err=True)
        sys.exit(LSF_FAILURE)
    click.echo(text, nl=False)


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
def hist(envdir: str | None, times: str, log: str) -> None:
    """Show what was done to hosts, queues and the master."""
    _history(envdir, times, log, ("mbd", "queue", "host"))


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
def mbdhist(envdir: str | None, times: str, log: str) -> None:
    """Show when the master was started or took over new files."""
    _history(envdir, times, log, ("mbd",))


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
@click.argument("queues", nargs=-1)
def qhist(envdir: str | None, times: str, log: str, queues: tuple[str, ...]) -> None:
    """Show what was done to queues."""
    _history(envdir, times, log, ("queue",), queues)


@click.command()
@OPTION_ENVDIR
@OPTION_TIME
@OPTION_FILE
@click.argument("hosts", nargs=-1)
def hhist(envdir: str | None, times: str, log: str, hosts: tuple[str, ...]) -> None:
    """Show what was done to hosts."""
    _history(envdir, times, log, ("host",), hosts)


@click.command()
@OPTION_ENVDIR
def showstatus(envdir: str | None) -> None:
    """Show how many hosts, jobs and users there are."""
    from gsched.app.administration import connect
    from gsched.app.overview import master_status
    from gsched.cli.render.cluster.master_status import render_status
    from gsched.cli.session.time_zone import zone_of

    with connect(envdir) as client:
        click.echo(render_status(master_status(client, zone_of(os.environ))), nl=False)


# -- daemons ----------------------------------------------------------------------------------------------------------


@click.command()
@OPTION_ENVDIR
@click.option("-C", "comment", default="", metavar="TEXT", help="Taken for LSF's sake.")
@click.option("-f", "force", is_flag=True, help="Ask nothing.")
@click.option("-v", "verbose", is_flag=True, help="Taken for LSF's sake: problems are always shown.")
def mbdrestart(envdir: str | None, comment: str, force: bool, verbose: bool) -> None:
    """Check the files and restart the master; jobs go on."""
    from gsched.app.administration import check_files, conf_of, connect
    from gsched.app.daemon_control import cluster_of, restart_master

    check_files(envdir, verbose=verbose)
    if not asked("Do you want to restart MBD?", force=force):
        click.echo("MBD restart aborted.")
        sys.exit(LSF_FAILURE)
    home = cluster_of(conf_of(envdir))
    if home.config().is_shared:
        from gsched.app.fleet_control import end_master

        with connect(envdir) as client:
            end_master(client, "restart")
    else:
        restart_master(home)
    click.echo("MBD restart initiated")


def _agents(envdir: str | None, hosts: Sequence[str], verb: str, force: bool, action: str) -> None:
    """Do it to the agents of these hosts (none: this one; all: every one), a line on standard error for each."""
    from gsched.app.administration import conf_of
    from gsched.app.daemon_control import agents_of, cluster_of
    from gsched.app.private import host_name

    home = cluster_of(conf_of(envdir))
    config = home.config()
    names = list(hosts) or [host_name()]
    if names == ["all"]:
        if not asked(f"{verb} slave batch daemon on all the hosts?", force=force):
            sys.exit(LSF_FAILURE)
        names = [host.name for host in config.hosts.values() if host.server]
    known = [name for name in names if name in config.hosts]
    problems = _carry_out(envdir, config, action, known) if config.is_shared else agents_of(home, action, known)
    for name in names:
        problem = problems.get(name, f"{name}: Bad host name, host group name or cluster name")
        click.echo(problem or f"{verb} slave batch daemon on <{name}> ...... done", err=True)
    if len(known) < len(names) or any(problems.values()):
        sys.exit(LSF_FAILURE)


def _carry_out(envdir: str | None, config: ClusterConfig, action: str, hosts: Sequence[str]) -> Mapping[str, str]:
    """Host -> what is wrong with it."""
    from gsched.app import fleet_control
    from gsched.app.administration import connect

    if action == "start":
        found = fleet_control.start_agents(config, hosts)
    else:
        with connect(envdir) as client:
            found = fleet_control.order(client, action, hosts)
    return {host: problem and f"{host}: {problem.removeprefix(f'{host}: ')}" for host, problem in found.items()}


OPTION_FORCE = click.option("-f", "force", is_flag=True, help="Ask nothing.")
ARGUMENT_HOSTS = click.argument("hosts", nargs=-1)


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hrestart(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Restart agents (all: of every host); jobs go on. In a private cluster those of this machine."""
    _agents(envdir, hosts, "Restart", force, "restart")


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hshutdown(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Stop agents (all: of every host); jobs go on, and are unknown until an agent is back."""
    _agents(envdir, hosts, "Shut down", force, "stop")


@click.command()
@OPTION_ENVDIR
@OPTION_FORCE
@ARGUMENT_HOSTS
def hstartup(envdir: str | None, force: bool, hosts: tuple[str, ...]) -> None:
    """Start agents: on other hosts by LSF_RSH (ssh) and systemd. In a private cluster those of this machine."""
    _agents(envdir, hosts, "Starting up", force, "start")


OF_BADMIN = (hist, mbdhist, qhist, hhist, showstatus, mbdrestart, hrestart, hshutdown, hstartup)
