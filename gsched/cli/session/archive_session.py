"""--archive of ghist and gacct: the question is answered from files, by a process of the caller's own, and not by a
master. Where the command runs for others (the command server) the caller's own process takes it over first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Protocol

from gsched.base.errors import GschedError
from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, Parsed
from gsched.model.views.archive_question import ArchiveQuestion
from gsched.wire.archive_process import ArchiveProcess
from gsched.wire.calls.client import Client

FROM_ARCHIVE = Option(
    "-archive",
    "DIR",
    "read the archives in this folder (gadmin history archive) and ask no daemon; may be given several times",
    "--archive /archive/gsched",
)


class HistorySource(Protocol):
    """Whoever answers: a master, or a process that reads archives."""

    @property
    def client(self) -> Client:
        """To be asked for histories, accounts, queues, hosts and host models."""


class _FromArchive:
    def __init__(self, client: Client) -> None:
        self.client = client


@contextlib.contextmanager
def asked(call: Call, options: Parsed, question: ArchiveQuestion) -> Iterator[HistorySource]:
    """Who answers the question: the archives of --archive, else the master. Raises DamagedData, BadRequest."""
    folders = options.all("-archive")
    if not folders:
        with connected(call) as session:
            yield session
        return
    if not call.own_streams:
        call.take_over()
    process = ArchiveProcess(question, [os.path.join(call.cwd, folder) for folder in folders])
    call.on_cancel(process.end)
    try:
        with process.client() as client:
            yield _FromArchive(client)
    except GschedError:
        call.raise_if_cancelled()
        raise
