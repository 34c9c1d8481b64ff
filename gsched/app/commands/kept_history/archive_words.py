"""`gadmin history archive`: finished months become files that are read without a store."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsched.app.commands.command_options import OPTION_ENVDIR
from gsched.app.commands.master_client import connect, leader_now
from gsched.app.commands.store_words import with_store
from gsched.cli.session.time_zone import zone_of
from gsched.model.views.view import GpuView, HostView, QueueView
from gsched.wire.calls.client import Client

if TYPE_CHECKING:
    from gsched.master.archive.archive_manifest import KeptCluster

NICENESS = 10
DAY_S = 86_400.0


@click.command("archive")
@OPTION_ENVDIR
@click.option("--keep", is_flag=True, help="Remove nothing from the store.")
@click.argument("before", metavar="BEFORE")
@click.argument("folder", metavar="DIR")
def archive(envdir: str | None, keep: bool, before: str, folder: str) -> None:
    """Write the months before BEFORE into files in DIR, compare them with the store, and remove their jobs from it.

    \b
    BEFORE is a month (2026-10) or a date in the forms of gacct -C: the month
    of it is the first that stays; .-3/ is the month three months ago.
        gadmin history archive 2026-10 /archive/gsched

    Months begin and end in UTC. For each there are three files of JSON lines, compressed by gzip: jobs-2026-09.jsonl.gz
    has the jobs that ended in that month and that gjobs has forgotten, events-2026-09.jsonl.gz what happened to them,
    contents-2026-09.jsonl.gz their scripts and environments, each once. manifest.json says how many lines each must
    have, and its SHA-256. All files are read again and compared with the store line by line. What a
    month gets later makes another part (jobs-2026-09.2.jsonl.gz).

    Then the jobs that are in the files leave the store with what happened to them, but for those that have changed
    since, and those that the next start of the master may need: that is said. Scripts and environments that they alone
    had go one to two days later. Looks at the past (--at) and replays begin later then. With --keep nothing is removed.
    Run it again at any time, also after it was killed: it compares what is there, and goes on.

    `ghist --archive DIR` and `gacct --archive DIR` read the files, and so does pandas. Run it on the master's host, as
    the user that the master runs as. The master may run; if none does, none can start while jobs are removed.
    """
    words = f"gadmin history archive {shlex.quote(before)} {shlex.quote(folder)}{' --keep' if keep else ''}"
    config = with_store(envdir, words)
    months = import_module("gsched.app.archives.months")  # the master's code, which other words start faster without
    month = months.month_before_which(before, time.time(), zone_of(os.environ))
    archiving = import_module("gsched.app.archives.archiving")
    removal = import_module("gsched.app.archives.store_removal")
    os.nice(NICENESS)
    days = config.params.job_history_days
    since = time.time() - days * DAY_S if days else 0.0
    with contextlib.ExitStack() as stack:
        client = removal.client_of_master(config, leader_now(envdir), lambda: connect(envdir))
        kept = _kept(stack.enter_context(client)) if client is not None else None
        wanted = archiving.Wanted(config.cluster, month, Path(os.path.abspath(folder)), kept, days, since)
        remover = None if keep else removal.remover(config, client)
        archiving.archive_history(config.locations.store_place, wanted, remover, click.echo)


def _kept(client: Client) -> KeptCluster:
    """What `ghist --archive` asks besides jobs."""
    kept: type[KeptCluster] = import_module("gsched.master.archive.archive_manifest").KeptCluster
    return kept(
        queues=tuple(
            QueueView(name=each.name, priority=each.priority, exceptions=each.exceptions) for each in client.queues()
        ),
        hosts=tuple(
            HostView(
                name=each.name,
                status=each.status,
                cpu_factor=each.cpu_factor,
                gpus=tuple(GpuView(gpu=gpu.gpu) for gpu in each.gpus),
            )
            for each in client.hosts()
        ),
        models=client.catalogue.definitions().models,
    )
