"""The process that answers from archives: `python -m gsched.master.archive.archive_reading SOCKET FOLDER DIR ...`.

The command that asks starts it, as its own user, and gives it its one question as a line on standard input. It loads
what the question is about into FOLDER, says `ready`, and answers on the socket as a master does, until its standard
input ends. It takes no word from the network, and reads no file but those of the archives.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import msgspec

from gsched.base.errors import GschedError
from gsched.master.archive.archive_loading import Archives, check_folders
from gsched.master.archive.archive_manifest import KeptCluster
from gsched.master.past.answering import AccountsServicer, HistoriesServicer
from gsched.model.views.archive_question import READY, ArchiveQuestion
from gsched.model.views.catalogue import Definitions
from gsched.store.history_queries import History
from gsched.wire.messages.convert import fill, to_proto
from gsched.wire.server import SERVER_OPTIONS, listen
from gsched.wire.v1 import catalogue_pb2, catalogue_pb2_grpc, past_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc

STORE = "archive.db"
_THREADS = 4


class _KeptCluster(scheduler_pb2_grpc.SchedulerServicer):
    """Queues and hosts as they were when the archive was written."""

    def __init__(self, kept: KeptCluster) -> None:
        self._kept = kept

    def Queues(self, request: Any, context: Any) -> Any:
        reply = scheduler_pb2.QueuesReply()
        for queue in self._kept.queues:
            fill(reply.queues.add(), queue)
        return reply

    def Hosts(self, request: Any, context: Any) -> Any:
        reply = scheduler_pb2.HostsReply()
        for host in self._kept.hosts:
            fill(reply.hosts.add(), host)
        return reply


class _Accounts(AccountsServicer):
    def __init__(self, history: History, kept: KeptCluster) -> None:
        super().__init__(history)
        self._kept = kept

    def Resources(self, request: Any, context: Any) -> Any:
        return to_proto(Definitions(models=self._kept.models), catalogue_pb2.ResourcesReply)


def main(socket: str, folder: str, *archives: str) -> int:
    """Serve until standard input ends; returns the exit code of what cannot be read, after a line on standard error."""
    asked = msgspec.json.decode(sys.stdin.buffer.readline(), type=ArchiveQuestion)
    threading.Thread(target=_end_with_caller, args=(folder,), daemon=True).start()
    try:
        folders = [Path(each) for each in archives]
        check_folders(folders)
        read = Archives(folders)
        store = Path(folder) / STORE
        read.load(asked, store)
        history = History(store)
        server = grpc.server(ThreadPoolExecutor(_THREADS), options=SERVER_OPTIONS)
        kept = read.kept()
        past_pb2_grpc.add_PastServicer_to_server(HistoriesServicer(history), server)  # type: ignore[abstract]
        catalogue_pb2_grpc.add_CatalogueServicer_to_server(_Accounts(history, kept), server)  # type: ignore[abstract]
        scheduler_pb2_grpc.add_SchedulerServicer_to_server(_KeptCluster(kept), server)  # type: ignore[abstract]
        listen(server, socket)
        server.start()
    except GschedError as error:
        sys.stderr.write(f"{error.text}\n")
        return error.exit_code
    except OSError as problem:
        sys.stderr.write(f"{problem.filename or folder}: {problem.strerror}\n")
        return GschedError.exit_code
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    server.wait_for_termination()
    return 0


def _end_with_caller(folder: str) -> None:
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(*sys.argv[1:]))
