"""`gsched import-lsf`: the configuration and the accounting of a cluster of LSF, for one of gsched."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from importlib import import_module

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.store_words import with_store
from gsched.base.errors import BadRequest, ConfigError, GschedError
from gsched.config.grammar.values import cluster_name
from gsched.config.takeover.installation import read_installation
from gsched.config.takeover.own_settings import Folders
from gsched.config.takeover.report import LineStanding, report_of, summary
from gsched.config.takeover.taking_over import take_over
from gsched.config.takeover.writing import REPORT, check_empty, write_folder

BAD_INPUT = 2
SOMETHING_REFUSED = 1
_UNNAMED = "LSF"


@click.command("import-lsf")
@click.argument("paths", metavar="LSF_ENVDIR DIR | --history FILE ...", nargs=-1, required=True)
@click.option("--history", is_flag=True, help="Take over the jobs of files of LSF's accounting, lsb.acct.")
@click.option("--cluster", default="", metavar="NAME", help="Which cluster, where LSF_ENVDIR or the files do not say.")
@OPTION_ENVDIR
@click.option("--base", default="", metavar="D", help="Keep store, logs, sockets and spool in D/state, D/log, ...")
@click.option("--dry-run", is_flag=True, help="Print the report, and write nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print only what is not the same as in LSF.")
def import_lsf(
    paths: tuple[str, ...],
    cluster: str,
    envdir: str | None,
    base: str,
    *,
    history: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Take over the configuration of a cluster of LSF, or its old jobs.

    LSF_ENVDIR is the folder of its lsf.conf, which leads to all other files. The new files go to DIR, which must not
    exist or be empty. A line is told for each of LSF's lines, and written to DIR/import-report.txt:

    \b
      same        it means what it means in LSF
      translated  it is read, with the difference that is told
      noted       it is accepted and has no effect, for the reason that is told
      refused     it is not taken over: it stands in the new file as a comment, with the reason above it

    \b
      gsched import-lsf /usr/share/lsf/conf /etc/gsched/conf --dry-run
      gsched import-lsf /usr/share/lsf/conf /etc/gsched/conf
      gadmin ckconfig --envdir /etc/gsched/conf

    Nothing of LSF is changed; both can run side by side. The exit code is 0 if everything was taken over, 1 if
    something was refused (the files are written nevertheless), 2 if files cannot be read or DIR cannot be written.

    With --history the finished jobs in the files of its accounting become part of the history of the cluster of
    --envdir, whose master must be down: ghist, gacct and gjobs -l know them by their old numbers, and new jobs get
    higher ones. Of files of any size, compressed ones not. What is there already is passed over, so that an import that
    was broken off, or whose files have grown, is simply begun anew. Lines that cannot be read are counted and named.

    \b
      gsched import-lsf --history /shared/lsf/hpc/logdir/lsb.acct* --envdir /etc/gsched/conf
    """
    try:
        _check_together(envdir, history=history, others={"--dry-run": dry_run, "--base": base, "--quiet": quiet})
        if history:
            raise SystemExit(_import_history(envdir, paths, cluster))
        if len(paths) > 2:
            raise BadRequest(f"{paths[2]}: only LSF_ENVDIR and DIR are named (--history takes files)")
        folder = paths[1] if len(paths) > 1 else ""
        raise SystemExit(_import(paths[0], folder, cluster, base, dry_run=dry_run, quiet=quiet))
    except ConfigError as error:
        click.echo(error.text, err=True)
    except GschedError as error:
        click.echo(f"import-lsf: {error.text}", err=True)
    raise SystemExit(BAD_INPUT)


def _check_together(envdir: str | None, *, history: bool, others: Mapping[str, object]) -> None:
    """Raises BadRequest for an option that would have no effect."""
    if not history and envdir is not None:
        raise BadRequest("--envdir goes with --history only: the new files go to DIR")
    for option, given in others.items():
        if history and given:
            raise BadRequest(f"{option} does not go with --history")


def _import(envdir: str, folder: str, cluster: str, base: str, *, dry_run: bool, quiet: bool) -> int:
    if not folder and not dry_run:
        raise BadRequest("DIR is missing: where the new files are to be (--dry-run writes none)")
    conf_dir = os.path.abspath(folder or "conf")
    if not dry_run:
        check_empty(conf_dir)
    folders = Folders.below(os.path.abspath(base)) if base else Folders()
    new = take_over(read_installation(envdir, cluster), conf_dir, folders)
    lines = report_of(new)
    text = "".join(f"{line}\n" for line in (*lines, summary(lines)))
    if not dry_run:
        write_folder(conf_dir, new.cluster, new.texts(), text, new.modes())
    for line in lines:
        if not quiet or line.standing is not LineStanding.SAME:
            click.echo(str(line))
    click.echo(summary(lines))
    if not dry_run:
        click.echo(
            f"the files are in {conf_dir}, and this report in {REPORT} there: gadmin ckconfig --envdir {conf_dir}"
        )
    return SOMETHING_REFUSED if any(line.standing is LineStanding.REFUSED for line in lines) else 0


def _import_history(envdir: str | None, paths: tuple[str, ...], cluster: str) -> int:
    name = cluster_name(cluster) if cluster else _cluster_of(paths[0])
    config = with_store(envdir, shlex.join(["gsched", "import-lsf", "--history", *paths]))
    for path in paths:
        if not os.access(path, os.R_OK) or os.path.isdir(path):
            raise BadRequest(f"{path}: {'Is a directory' if os.path.isdir(path) else 'it cannot be read'}")
    # The master's code, which other words start faster without.
    importer = import_module("gsched.app.stores.history_import")
    is_whole = importer.import_into(config, paths, name, click.echo)
    return 0 if is_whole else SOMETHING_REFUSED


def _cluster_of(path: str) -> str:
    """The name in LSF's LSB_SHAREDIR/CLUSTER/logdir/lsb.acct."""
    folder, name = os.path.split(os.path.dirname(os.path.abspath(path)))
    with contextlib.suppress(BadRequest):
        return cluster_name(os.path.basename(folder)) if name == "logdir" else _UNNAMED
    return _UNNAMED
