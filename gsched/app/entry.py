"""`gsched` and `gadmin`: click reads their words, everything heavy is imported by the one that needs it.

No traceback reaches a person: what goes wrong is one line on standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from gsched import __version__
from gsched.base.errors import LSF_FAILURE, ConfigError, GschedError
from gsched.base.service import TOLD_TO_RESTART, ServiceManager

FAILURE = 1
LSF_NAMES = ("badmin", "lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons")
"""Under these names a word that is not understood is a failure as it is of LSF's commands."""
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


def run(command: click.Command, name: str = "") -> None:
    """Run a click command, called `name` in its messages; GschedErrors become one line and their exit code."""
    name = name or command.name or ""
    try:
        command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(LSF_FAILURE if name in LSF_NAMES else error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except ConfigError as error:
        click.echo(error.errors, err=True)
        sys.exit(error.exit_code)
    except GschedError as error:
        click.echo(f"{name}: {error.text}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
    except OSError as error:  # a folder that cannot be made or entered, a full disk
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"{name}: {where}{error.strerror or error}", err=True)
        sys.exit(LSF_FAILURE)
    except Exception as error:
        if os.environ.get("GSCHED_DEBUG") == "1":
            raise
        click.echo(f"{name}: internal error: {error!r} (GSCHED_DEBUG=1 shows more)", err=True)
        sys.exit(70)


def gsched() -> None:
    """Entry point of the command `gsched`."""
    run(_gsched)


def gadmin() -> None:
    """Entry point of the command `gadmin`, also under LSF's name `badmin`."""
    from gsched.app.administration import gadmin as command

    run(command, _called("gadmin"))


def lsadmin() -> None:
    """Entry point of the command `lsadmin`."""
    from gsched.app.administration import lsadmin as command

    run(command)


def lsfstartup() -> None:
    """Entry point of the command `lsfstartup`."""
    from gsched.app.lsf_startup import lsfstartup as command

    run(command, "lsfstartup")


def lsfshutdown() -> None:
    """Entry point of the command `lsfshutdown`."""
    from gsched.app.lsf_startup import lsfshutdown as command

    run(command, "lsfshutdown")


def lsf_daemons() -> None:
    """Entry point of the command `lsf_daemons`."""
    from gsched.app.lsf_startup import lsf_daemons as command

    run(command, "lsf_daemons")


def _called(name: str) -> str:
    """`badmin` when this process was started under that name, else the name itself."""
    return "badmin" if os.path.basename(sys.argv[0]) == "badmin" else name


# -- gsched -----------------------------------------------------------------------------------------------------------


@click.group("gsched", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="gsched")
def _gsched() -> None:
    """A GPU-aware batch scheduler. `gsched up` starts a private cluster on this machine; no root needed."""


def words_of_gsched() -> click.Group:
    """The command `gsched` with its words, for what tells of all commands."""
    return _gsched


@_gsched.command()
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
def up(folder: str | None, sim_gpus: str | None, hosts: str, bare: bool, new_store: bool) -> None:
    """Start a private cluster in the background, or complete one that is partly up."""
    from gsched.app import private

    names = [name.strip() for name in hosts.split(",") if name.strip()]
    private.up(
        private.Home.find(folder),
        sim_gpus=sim_gpus,
        hosts=names,
        gpu_resources=not bare,
        new_store=new_store,
        say=click.echo,
    )


@_gsched.command()
@OPTION_DIR
@click.option("--kill", is_flag=True, help="End the running jobs as well; without it they go on.")
def down(folder: str | None, kill: bool) -> None:
    """Stop the daemons of a private cluster."""
    from gsched.app import private

    private.down(private.Home.find(folder), kill=kill, say=click.echo)


@_gsched.command()
@OPTION_DIR
def status(folder: str | None) -> None:
    """Show which daemons run; exit code 1 when one is missing."""
    from gsched.app import private

    if not private.status(private.Home.find(folder), say=click.echo):
        sys.exit(FAILURE)


@_gsched.command("sim-gpu")
@click.argument("indexes")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--host", metavar="HOST", help="Which simulated host (default: the only one).")
@OPTION_DIR
def sim_gpu(indexes: str, settings: tuple[str, ...], host: str | None, folder: str | None) -> None:
    """Change simulated GPUs: gsched sim-gpu 0-3 compute_mode=exclusive_process

    Names: compute_mode; problem and fault (a text, empty for none; a GPU with a fault has failed); xid (an error that
    the driver tells of); and the readings used_mib, utilization_percent, memory_utilization_percent, temperature_c,
    power_w, ecc_errors, pstate (- for not known).
    """
    from gsched.app import private
    from gsched.base.errors import BadRequest
    from gsched.base.idset import parse_idset
    from gsched.probe.inventory import change

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


@_gsched.group()
def names() -> None:
    """Put the commands into a folder under the names of another batch system."""


@names.command("lsf")
@click.argument("folder", metavar="DIR")
@OPTION_CONF
def names_lsf(folder: str, conf: str | None) -> None:
    """Write bsub, bjobs, bkill ... and profile.lsf into DIR; they work from anywhere."""
    from gsched.app.names import write_lsf_names

    write_lsf_names(folder, conf, os.environ, click.echo)


@_gsched.command()
@click.argument("folder", metavar="DIR")
def man(folder: str) -> None:
    """Write the manual pages of all commands into DIR/man1."""
    from gsched.app.manual.entries import entries
    from gsched.app.manual.roff import write_pages

    write_pages(folder, entries(_gsched), click.echo)


@_gsched.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes the commands in a shell: options, names and job numbers.

    bash, in ~/.bashrc: source <(gsched completion bash). zsh, after compinit: source <(gsched completion zsh). fish:
    gsched completion fish > ~/.config/fish/conf.d/gsched.fish.
    """
    from gsched.app.manual.entries import entries
    from gsched.app.manual.shells import completion as script

    click.echo(script(shell, entries(_gsched)), nl=False)


@_gsched.command()
@OPTION_ENVDIR
def master(envdir: str | None) -> None:
    """Run the master in the foreground, logging to standard error; SIGTERM ends it."""
    _serve("master", envdir, _master)


@_gsched.command()
@OPTION_ENVDIR
@click.option("--host", metavar="HOST", help="Name of the host in lsf.cluster (default: this machine's).")
def agent(envdir: str | None, host: str | None) -> None:
    """Run the agent of a host in the foreground; its end leaves the jobs running."""
    from gsched.app import private

    name = host or private.host_name()
    _serve(f"agent-{name}", envdir, lambda conf, manager: _agent(conf, name, manager))


@_gsched.command()
@OPTION_ENVDIR
@click.option("--host", metavar="HOST", help="Name of the host in lsf.cluster (default: this machine's).")
def door(envdir: str | None, host: str | None) -> None:
    """Run the door in the foreground: the warm process that runs the commands of this host's users."""
    _serve("door", envdir, lambda conf, manager: _door(conf, host, manager))


def _serve(name: str, envdir: str | None, daemon: Callable[[str, ServiceManager], int]) -> None:
    from gsched.app import daemons, journal

    journal.setup_logging(os.environ)
    with daemons.telling_failure(os.environ):
        code = _served(name, envdir, daemon)
    sys.exit(code)


def _served(name: str, envdir: str | None, daemon: Callable[[str, ServiceManager], int]) -> int:
    from gsched.app import daemons
    from gsched.base.envdir import conf_dir
    from gsched.config.files import load

    manager = ServiceManager.take(os.environ)
    folder = os.path.abspath(envdir or conf_dir(os.environ))
    config = load(folder).required()
    kind = name.partition("-")[0]
    if config.is_shared:  # several users' daemons have their folders below it
        daemons.make_shared_folder(config.locations.run_dir)
        if kind != "master":
            daemons.make_shared_folder(config.folder_of(kind))
    with daemons.holding_lock(config.folder_of(kind), name):
        code = daemon(folder, manager)
    if code == TOLD_TO_RESTART:
        if not manager.is_there:  # nobody else starts it again
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        code = 0
    return code


def _master(conf: str, manager: ServiceManager) -> int:
    from gsched.app.private import host_name
    from gsched.master import daemon

    return daemon.run(conf, host_name(), manager)


def _agent(conf: str, host: str, manager: ServiceManager) -> int:
    from gsched.agent import daemon

    # Elims are told which host they report for: several agents may share a machine.
    os.environ.update(GSCHED_HOSTNAME=host, GSCHED_ENVDIR=conf)
    return daemon.run(conf, host, manager)


def _door(conf: str, host: str | None, manager: ServiceManager) -> int:
    from gsched.base.openfiles import raise_limit
    from gsched.config.files import load
    from gsched.door import server

    raise_limit()
    config = load(conf).required()
    socket = str(Path(config.folder_of("door")) / "door.sock")
    vouching = None
    if config.is_shared:
        from gsched.app.private import host_name
        from gsched.wire.vouching import Vouching

        vouching = Vouching(config, host or host_name())
    server.serve(socket, configuration=Path(conf), vouching=vouching, manager=manager)
    return 0


if __name__ == "__main__":
    gsched()
