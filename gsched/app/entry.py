"""Where `gsched`, `gadmin` and LSF's commands for administrators begin: what goes wrong, and the exit code.

No traceback reaches a person: what goes wrong is one line on standard error.
"""

from __future__ import annotations

import os
import sys

import click

from gsched.app.commands import groups
from gsched.base.errors import LSF_FAILURE, ConfigError, GschedError

LSF_NAMES = ("badmin", "lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons")
"""Under these names a word that is not understood is a failure as it is of LSF's commands."""


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
    run(groups.gsched)


def gadmin() -> None:
    """Entry point of the command `gadmin`, also under LSF's name `badmin`."""
    run(groups.gadmin, "badmin" if os.path.basename(sys.argv[0]) == "badmin" else "gadmin")


def lsadmin() -> None:
    """Entry point of the command `lsadmin`."""
    run(groups.lsadmin)


def lsfstartup() -> None:
    """Entry point of the command `lsfstartup`."""
    _run_lsf_startup("lsfstartup")


def lsfshutdown() -> None:
    """Entry point of the command `lsfshutdown`."""
    _run_lsf_startup("lsfshutdown")


def lsf_daemons() -> None:
    """Entry point of the command `lsf_daemons`."""
    _run_lsf_startup("lsf_daemons")


def _run_lsf_startup(name: str) -> None:
    from gsched.app.commands import lsf_startup  # the daemons' code, which most commands start faster without

    run(getattr(lsf_startup, name), name)


if __name__ == "__main__":
    gsched()
