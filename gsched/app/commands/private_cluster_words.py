"""`gsched up`, `down`, `status`, `sim-gpu`, `web` and `top`: a private cluster on this machine, and looks at it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import click

from gsched.app.clusters import private
from gsched.app.clusters.foreground import serve
from gsched.app.commands.command_options import FAILURE, OPTION_DIR, OPTION_ENVDIR, conf_of
from gsched.base.errors import BadRequest
from gsched.base.idset import parse_idset
from gsched.base.machine.service import ServiceManager
from gsched.config.configuration import load
from gsched.probe.simulated.inventory import change
from gsched.wire.address import is_shared

NEEDED_FOR_WEB = ("starlette", "uvicorn", "jinja2", "h11", "pamela", "httpcore", "websockets")
"""They come with the extra `web` of the package."""
HIGHEST_PORT = 65_535


@click.command()
@OPTION_DIR
@click.option(
    "--sim-gpus",
    metavar="SPEC",
    help="Simulate GPUs on every host: a count and a mode (4:exclusive_process, 4:shared) or an inventory file.",
)
@click.option("--hosts", metavar="A,B", default="", help="Names of several hosts, all on this machine (for tests).")
@click.option(
    "--bare", is_flag=True, help="Leave the GPU resources undefined, as in a cluster that has just been set up."
)
@click.option(
    "--new-store",
    is_flag=True,
    help="Where the store is lost, begin a new generation: jobs that are not in what is left are given up.",
)
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Keep jobs and history in postgresql://USER@HOST/DATABASE, or in a file (file): what is there is moved.",
)
def up(folder: str | None, sim_gpus: str | None, hosts: str, bare: bool, new_store: bool, store: str | None) -> None:
    """Start a private cluster in the background, or complete one that is partly up."""
    names = [name.strip() for name in hosts.split(",") if name.strip()]
    private.up(
        private.Home.find(folder),
        sim_gpus=sim_gpus,
        hosts=names,
        gpu_resources=not bare,
        new_store=new_store,
        store=store,
        say=click.echo,
    )


@click.command()
@OPTION_DIR
@click.option("--kill", is_flag=True, help="End the running jobs as well; without it they go on.")
def down(folder: str | None, kill: bool) -> None:
    """Stop the daemons of a private cluster."""
    private.down(private.Home.find(folder), kill=kill, say=click.echo)


@click.command()
@OPTION_DIR
def status(folder: str | None) -> None:
    """Show which daemons run; exit code 1 when one is missing."""
    if not private.status(private.Home.find(folder), say=click.echo):
        sys.exit(FAILURE)


@click.command("sim-gpu")
@click.argument("indexes")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--host", metavar="HOST", help="Which simulated host (default: the only one).")
@OPTION_DIR
def sim_gpu(indexes: str, settings: tuple[str, ...], host: str | None, folder: str | None) -> None:
    """Change simulated GPUs: gsched sim-gpu 0-3 compute_mode=exclusive_process

    Names: compute_mode; problem and fault (a text, empty for none; a GPU with a fault has failed); xid (an error that
    the driver tells of); and the readings used_mib, utilization_percent, memory_utilization_percent, temperature_c,
    power_w, ecc_errors, ecc_corrected, throttle, pstate (- for not known).
    """
    config = private.Home.find(folder).config()
    if host is None and len(config.hosts) > 1:
        raise BadRequest(f"say which host with --host: {', '.join(config.hosts)}")
    name = host or next(iter(config.hosts))
    wanted: dict[str, str] = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadRequest(f"'{item}' is not NAME=VALUE, as in compute_mode=default")
        wanted[key] = value
    change(private.inventory_of(config, name), name, parse_idset(indexes), wanted)


@click.command()
@OPTION_ENVDIR
@click.option(
    "--port",
    type=click.IntRange(1, HIGHEST_PORT),
    default=None,
    metavar="N",
    help="Port on 127.0.0.1 (default: any that is free; with --socket none).",
)
@click.option("--socket", default="", metavar="PATH", help="Listen on a unix socket, for `ssh -L 8080:PATH HOST`.")
@click.option("--print-url", is_flag=True, help="Print the address and open no browser.")
@click.option("--read-only", is_flag=True, help="Pages that change nothing: there is no way to kill or submit a job.")
def web(envdir: str | None, port: int | None, socket: str, print_url: bool, read_only: bool) -> None:
    """Show the cluster as pages for a browser.

    For a browser of this machine, until ^C; the address that it prints works once. In a shared cluster it is that with
    --socket, --port or --print-url; without them it is a service of root (gsched-web.service), which listens as
    GSCHED_WEB_PORT of lsf.conf says: users log in with their passwords, or are named by a reverse proxy.
    """
    missing = [name for name in NEEDED_FOR_WEB if find_spec(name) is None]
    if missing:
        raise BadRequest(f"this needs {', '.join(missing)}: pip install 'gsched[web]'")
    folder = conf_of(envdir)
    if is_shared(folder) and port is None and not socket and not print_url:
        serve("web", folder, lambda conf, manager: _run_shared(conf, manager, is_read_only=read_only))
    # Not at the top: who has not installed the extra can use all other words.
    serving = import_module("gsched.web.serving")
    options = serving.WebOptions(
        conf_dir=folder,
        port=port if port is not None else None if socket else 0,
        socket=socket,
        print_url=print_url,
        is_read_only=read_only,
    )

    def say(text: str) -> None:
        click.echo(text)
        sys.stdout.flush()

    sys.exit(serving.run(options, say))


def _run_shared(conf: str, manager: ServiceManager, *, is_read_only: bool) -> int:
    front = import_module("gsched.web.front.front_serving")  # as above
    return int(front.run(load(conf).required(), private.host_name(), manager, is_read_only=is_read_only))


@click.command()
@OPTION_ENVDIR
@click.option("--record", default="", metavar="FILE", help="Write what is seen to a new file, for --replay.")
@click.option("--replay", default="", metavar="FILE", help="Show what was recorded; nothing is asked.")
def top(envdir: str | None, record: str, replay: str) -> None:
    """Show hosts with their GPUs, jobs and queues, live, until q. Where there is no terminal: once, as plain text."""
    if find_spec("textual") is None:
        raise BadRequest("this needs textual: pip install 'gsched[top]'")
    # As above: most people do without the extra.
    running = import_module("gsched.top.running")
    sys.exit(running.run(conf_of(envdir), record, replay, click.echo))


@click.command()
@OPTION_ENVDIR
@click.option(
    "--allow", default="", metavar="WORDS", help="submit, kill, or both with a comma: without it only reading."
)
def mcp(envdir: str | None, allow: str) -> None:
    """Serve the Model Context Protocol over standard input and output, for an assistant's program.

    \b
    Its configuration names this command, mostly as
        {"mcpServers": {"gsched": {"command": "gsched", "args": ["mcp"]}}}

    The assistant can list and explain jobs, hosts and queues with your rights. With --allow it can also prepare what
    changes something; nothing is done before it was shown and confirmed.
    """
    if find_spec("mcp") is None:
        raise BadRequest("this needs mcp: pip install 'gsched[mcp]'")
    # As above: most people do without the extra.
    sys.exit(import_module("gsched.mcp.mcp_server").run(conf_of(envdir), allow))
