"""Words of gadmin about the store: copies, a new generation where it is lost, what is wrong in it."""

from __future__ import annotations

import os
import shlex
import sys
from importlib import import_module

import click

from gsched.app.clusters.private_home import host_name
from gsched.app.commands.command_options import (
    FAILURE,
    OPTION_ASK_PASSPHRASE,
    OPTION_ENVDIR,
    OPTION_PASSPHRASE_FILE,
    conf_of,
    passphrase_of,
)
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.config.configuration import load
from gsched.model.config import ClusterConfig
from gsched.wire.identity.caller_identity import user_name


def with_store(envdir: str | None, command: str) -> ClusterConfig:
    """The configuration, where the caller is who the store of this machine belongs to: files that somebody else's
    program makes beside it would be in the master's way. `command` is what to say instead."""
    config = load(conf_of(envdir), host_name()).required()
    state_dir = config.locations.state_dir
    try:
        owner = os.stat(state_dir).st_uid
    except OSError as error:
        where = f"{state_dir}: {error.strerror}"
        raise BadRequest(f"{where}; the store is on the master's host, {config.master_host}") from None
    if owner != os.geteuid():
        name = user_name(owner)
        words = f"sudo -u {name} {command} --envdir {conf_of(envdir)}"
        raise PermissionDenied(f"{state_dir} belongs to {name}: {words}")
    return config


@click.command("backup")
@OPTION_ENVDIR
@OPTION_PASSPHRASE_FILE
@OPTION_ASK_PASSPHRASE
@click.option("--into", metavar="DIR", help="Into a new file of this folder, named by cluster and time.")
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="With --into: remove the oldest copies there, but for the N newest.",
)
@click.argument("file", required=False)
def backup(
    envdir: str | None,
    passphrase_file: str | None,
    ask_passphrase: bool,
    into: str | None,
    keep: int | None,
    file: str | None,
) -> None:
    """Copy the store into a new file; the master may run.

    The copy has all jobs and the history up to this moment, and only its owner can read it. With a passphrase the files
    of the configuration and the keys are part of it, encrypted; files that cannot be read are left out by name. Run it
    on the master's host, as the user that the master runs as.
    """
    if (file is None) == (into is None):
        raise BadRequest("say where to: a file, or a folder by --into")
    if keep is not None and into is None:
        raise BadRequest("--keep is for --into: it removes copies of that folder")
    where = shlex.quote(file) if file is not None else f"--into {shlex.quote(into or '')}"
    config = with_store(envdir, f"gadmin backup {where}")
    passphrase = passphrase_of(passphrase_file, ask=ask_passphrase, new=True)
    from gsched.app.stores.store_copies import backup_into, backup_store  # the master's code, as below

    if file is not None:
        backup_store(config, file, passphrase, click.echo)
    else:
        backup_into(config, into or "", keep or sys.maxsize, passphrase, click.echo)


@click.command("restore")
@OPTION_ENVDIR
@click.option("--configuration", is_flag=True, help="Put back the configuration and the keys, and not the store.")
@click.option("--into", metavar="DIR", help="With --configuration: below this folder, and not where they were.")
@OPTION_PASSPHRASE_FILE
@OPTION_ASK_PASSPHRASE
@click.argument("file")
def restore(
    envdir: str | None,
    configuration: bool,
    into: str | None,
    passphrase_file: str | None,
    ask_passphrase: bool,
    file: str,
) -> None:
    """Put a copy in the store's place, as a new generation; the master must be down.

    What happened after the copy was made is given up. Jobs that were started since and still run go on, with their
    slots and GPUs, until `gadmin orphans --end`. Job numbers are never used again. The files that lie there are
    renamed, not removed. Run it on the master's host, as the user that the master runs as.

    With --configuration it puts back the files of the configuration and the keys that are in the copy, to where they
    were. What is another file now is renamed. Owners are those of before if root runs it.
    """
    given = (into is not None, passphrase_file is not None, ask_passphrase)
    if not configuration and any(given):
        raise BadRequest("--into, --passphrase-file and --ask-passphrase are for --configuration")
    if configuration:
        _restore_configuration(file, into, passphrase_file, ask_passphrase)
        return
    config = with_store(envdir, f"gadmin restore {shlex.quote(file)}")
    from gsched.app.stores.store_copies import restore_store  # the master's code, as below

    restore_store(config, file, click.echo)


def _restore_configuration(file: str, into: str | None, passphrase_file: str | None, ask_passphrase: bool) -> None:
    if not passphrase_file and not ask_passphrase:
        raise BadRequest("--configuration needs the passphrase: --passphrase-file PATH or --ask-passphrase")

    def ask() -> str:
        return passphrase_of(passphrase_file, ask=ask_passphrase, new=False)

    # As below.
    import_module("gsched.app.stores.store_copies").restore_configuration(file, into or "", ask, click.echo)


@click.command("newstore")
@OPTION_ENVDIR
def newstore(envdir: str | None) -> None:
    """Begin a new generation of the store where it is lost; the master must be down.

    Jobs that are not in what is left are given up. Those of them that still run go on, with their slots and GPUs, until
    `gadmin orphans --end`. Job numbers are never used again. Files are renamed, not removed. A store that is whole is
    left as it is. Run it on the master's host, as the user that the master runs as.
    """
    config = with_store(envdir, "gadmin newstore")
    from gsched.app.stores.renewal import renew_store  # the master's code, which other words start faster without

    renew_store(config, click.echo)


@click.command("check-store")
@OPTION_ENVDIR
@click.option("--all", "all_of_them", is_flag=True, help="Name every problem, and not the first 20 of each kind.")
def check_store(envdir: str | None, all_of_them: bool) -> None:
    """Read all of the store, and say what is wrong with it; exit code 1 where something is. The master may run.

    Every event and every checkpoint is read; scripts, environments and attachments must be there and be what their
    names say; each job must have its row for queries of the past, and the state that a master would begin with must add
    up. Run it on the master's host, as the user that the master runs as.
    """
    config = with_store(envdir, "gadmin check-store")
    # The master's code, as below.
    if not import_module("gsched.app.stores.store_checks").check_store(config, click.echo, all_of_them=all_of_them):
        sys.exit(FAILURE)


@click.command("store-copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def store_copy(source: str, target: str) -> None:
    """Copy a store into another database, where there is none, and compare every row; no master may have either.

    \b
    FROM and TO are paths, sqlite:///PATH, or postgresql://USER@HOST/DATABASE, as in
        gadmin store-copy sqlite:////var/lib/gsched/gsched.db postgresql://gsched@db1/gsched

    An address may end in ?password_file=/PATH, a file whose first line is the password. A file that is made is readable
    by its owner alone. Which store a cluster uses is said by GSCHED_STORE of lsf.conf; a
    private cluster is moved in one command by `gsched up --store`.
    """
    # The database's modules, as below.
    import_module("gsched.app.stores.store_moves").copy_store(source, target, click.echo)
