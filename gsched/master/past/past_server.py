"""The server of the process that reads for the master: histories, accounts, and what was to be seen at a time. It knows
nobody: the master lets in.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from gsched.master.past.answering import AccountsServicer, HistoriesServicer, with_statuses
from gsched.store.history_queries import History
from gsched.wire.server import SERVER_OPTIONS, listen
from gsched.wire.v1 import catalogue_pb2_grpc, past_pb2_grpc

if TYPE_CHECKING:
    from gsched.master.past.past_answers import PastAnswers


def open_server(store: str, socket: str, readers: int) -> grpc.Server:
    """A server of the store's past on that unix socket, not yet started. Raises GschedError."""
    history = History(store)
    server = grpc.server(ThreadPoolExecutor(readers), options=SERVER_OPTIONS)
    past_pb2_grpc.add_PastServicer_to_server(_Past(history), server)
    catalogue_pb2_grpc.add_CatalogueServicer_to_server(AccountsServicer(history), server)  # type: ignore[abstract]
    listen(server, socket)
    return server


class _Past(HistoriesServicer):
    """With what Scheduler answered at a time."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._history = history
        self._answers: PastAnswers | None = None
        self._maker = ThreadPoolExecutor(1, "gsched-past")
        self._maker.submit(int)  # its thread begins now, and keeps the priority of now when the others step back

    @with_statuses
    def At(self, request: Any, context: Any) -> Iterator[Any]:
        yield from self._answerer().answer(request)

    def _answerer(self) -> PastAnswers:
        return self._answers or self._maker.submit(self._make).result()

    def _make(self) -> PastAnswers:
        if self._answers is None:
            # Only now: it takes the scheduler's own modules, and who asks for a history would wait for them.
            from gsched.master.past.past_answers import PastAnswers

            self._answers = PastAnswers(self._history)
        return self._answers
