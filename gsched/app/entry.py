"""Where `gsched`, `gadmin` and LSF's commands for administrators begin: what goes wrong, and the exit code.

No traceback reaches a person: what goes wrong is one line on standard error. So hardly anything is imported here: what
the commands need is, when Ctrl-C ends the process without a word.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

from gsched.base.machine.large_imports import LargeImport

TYPE_CHECKING = False  # as typing says it, which is not imported here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import click

LSF_NAMES = ("badmin", "lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons")
"""Under these names a word that is not understood is a failure as it is of LSF's commands."""


def run(command: click.Command, name: str = "", words: Sequence[str] | None = None) -> None:
    """Run a click command, called `name` in its messages; GschedErrors become one line and their exit code.

    `words`: what stands behind its name, instead of this process's arguments.
    """
    # Only now: Ctrl-C may come while they are imported, see above.
    import click

    # The same.
    from gsched.base.errors import LSF_FAILURE, ConfigError, GschedError
    from gsched.cli.session.call import no_text_among

    name = name or command.name or ""
    try:
        command.main(words, prog_name=name, standalone_mode=False)
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
        if isinstance(error, UnicodeEncodeError) and (text := no_text_among(sys.argv if words is None else words)):
            click.echo(f"{name}: {text}", err=True)
            sys.exit(LSF_FAILURE)
        if os.environ.get("GSCHED_DEBUG") == "1":
            raise
        click.echo(f"{name}: internal error: {error!r} (GSCHED_DEBUG=1 shows more)", err=True)
        sys.exit(70)


def gsched() -> None:
    """Entry point of the command `gsched`."""
    _import_and_run("groups", "gsched")


def gadmin() -> None:
    """Entry point of the command `gadmin`, also under LSF's name `badmin`."""
    _administer("gadmin", "badmin" if os.path.basename(sys.argv[0]) == "badmin" else "gadmin")


def lsadmin() -> None:
    """Entry point of the command `lsadmin`."""
    _administer("lsadmin", "lsadmin")


def lsfstartup() -> None:
    """Entry point of the command `lsfstartup`."""
    _import_and_run("lsf_startup", "lsfstartup")


def lsfshutdown() -> None:
    """Entry point of the command `lsfshutdown`."""
    _import_and_run("lsf_startup", "lsfshutdown")


def lsf_daemons() -> None:
    """Entry point of the command `lsf_daemons`."""
    _import_and_run("lsf_startup", "lsf_daemons")


def _administer(command: str, name: str) -> None:
    """Carry out the words behind the command's name; without any, those of each line of its prompt."""
    if sys.argv[1:]:
        _import_and_run("groups", command, name)
        return
    group, open_prompt = _import("groups", command), _import("prompt.administration_prompt", "open_prompt")
    try:
        sys.exit(open_prompt(group, name, run))
    except KeyboardInterrupt:  # the prompt begins or ends
        sys.exit(130)


def _import_and_run(module: str, command: str, name: str = "") -> None:
    run(_import(module, command), name or command)


def _import(module: str, name: str) -> Any:
    """Importing takes longer than many a command: who presses Ctrl-C meanwhile is to see no traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with LargeImport():
        found = getattr(import_module(f"gsched.app.commands.{module}"), name)
    signal.signal(signal.SIGINT, before)
    return found


if __name__ == "__main__":
    gsched()
