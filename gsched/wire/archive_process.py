"""A process that answers from archives as a master does, for as long as one command asks: no daemon is needed for it.

It runs as its caller, who can read what the files let him read. It ends with the caller, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec

from gsched.base.errors import BAD_DATA, BadRequest, DamagedData, GschedError, Unavailable
from gsched.model.views.archive_question import READY, ArchiveQuestion
from gsched.wire.calls.client import Client

_MODULE = "gsched.master.archive.archive_reading"
_SOCKET = "archive.sock"
_END_S = 10.0


class ArchiveProcess:
    """One process; `end` may be called from another thread while it still loads."""

    def __init__(self, question: ArchiveQuestion, folders: Sequence[str]) -> None:
        self._question, self._folders = question, list(folders)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Start it and wait until it has loaded what the question is about, however long that takes. It is asked as a
        master is for histories, accounts, queues, hosts and host models.

        Raises BadRequest, DamagedData (an archive is not what was written), Unavailable when it was ended.
        """
        with tempfile.TemporaryDirectory(prefix="gsched-archive-", ignore_cleanup_errors=True) as folder:
            socket = os.path.join(folder, _SOCKET)
            process = self._start(socket, folder)
            try:
                self._until_ready(process)
                with Client(f"unix:{quote(socket)}") as client:
                    yield client
            finally:
                _close(process)

    def end(self) -> None:
        """Whoever waits for it gets Unavailable."""
        self._is_ended = True
        if self._process is not None:
            self._process.kill()

    def _start(self, socket: str, folder: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-P", "-m", _MODULE, socket, folder, *self._folders]
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C is for the command, which ends it.
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        self._process = process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(self._question) + b"\n")
            process.stdin.flush()
        if self._is_ended:
            process.kill()
        return process

    def _until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() == READY:
            return
        said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        code = process.wait()
        if self._is_ended or code < 0 or not said:
            raise Unavailable(f"the process that reads archives has ended (code {code})")
        kinds: dict[int, type[GschedError]] = {BAD_DATA: DamagedData, BadRequest.exit_code: BadRequest}
        raise kinds.get(code, Unavailable)(said[-1])


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
