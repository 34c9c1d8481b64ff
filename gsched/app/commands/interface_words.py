"""`gsched web`, `top` and `mcp`: the cluster in a browser, in a terminal, and for an assistant's program."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import click

from gsched.app.clusters.foreground import serve
from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import OPTION_ENVDIR, conf_of
from gsched.base.errors import BadRequest
from gsched.base.machine.service import ServiceManager
from gsched.config.configuration import load
from gsched.wire.address import is_shared

NEEDED_FOR_WEB = ("starlette", "uvicorn", "jinja2", "h11", "pamela", "httpcore", "websockets")
"""They come with the extra `web` of the package."""
HIGHEST_PORT = 65_535


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
    return int(front.run(load(conf).required(), host_name(), manager, is_read_only=is_read_only))


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
