"""One launcher's connection to the door, and the Call made of it.

The door's loop reads the connection (never blocking) and tells it here what came; the thread that runs the command
writes to it. What comes from a caller is bounded and checked here; a wrong piece costs that caller the connection,
nobody else anything. Nothing here opens a file: files are asked of the launcher.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading

from gsched.cli.session.call import INPUT_LIMIT, Call, HandedBack
from gsched.door import protocol
from gsched.door.protocol import Decoder, ProtocolError, Request
from gsched.wire.identity.socket_peer import Peer

log = logging.getLogger(__name__)

FileAnswer = tuple[bytes, int | None] | OSError
"""What a file holds and its permissions, where the launcher tells them."""

RECEIVE = 1 << 16


class DoorCaller:
    """A connection from the moment it is accepted to its end.

    `request` is set when the caller said GO; `is_lost` when the caller is gone or the door closed the connection.
    Methods are called by the door's loop except `send`, `ask`, which belong to the thread of the command.
    """

    def __init__(self, connection: socket.socket, peer: Peer, deadline_s: float) -> None:
        self.socket = connection
        self.peer = peer
        self.deadline_s = deadline_s
        """Monotonic time by which the request must be complete."""
        self.request: Request | None = None
        self.call: DoorCall | None = None
        self.is_lost = False
        self._decoder = Decoder()
        self._parts = bytearray()
        self._sending = threading.Lock()
        self._asked = False
        self._answer = bytearray()
        self._answers: queue.SimpleQueue[FileAnswer] = queue.SimpleQueue()

    # The loop's side

    def receive(self) -> bool:
        """Take in what has arrived, without waiting; False when the caller is gone.

        Raises ProtocolError for what cannot be meant.
        """
        try:
            data = self.socket.recv(RECEIVE, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        for kind, payload in self._decoder.feed(data):
            self._take(kind, payload)
        return bool(data)

    def lose(self) -> None:
        """The caller is gone: break off its command and wake whatever waits for it."""
        self.hang_up()
        if self.call is not None:
            self.call.cancel()

    def hang_up(self) -> None:
        """End the connection without cancelling anything; the command finds out when it writes or asks."""
        self.is_lost = True
        self._answers.put(BrokenPipeError())
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def tell(self, kind: bytes, payload: bytes) -> None:
        """Send a short frame without waiting; one that does not fit is dropped (the caller is not listening)."""
        with contextlib.suppress(OSError):
            self.socket.send(protocol.frame(kind, payload), socket.MSG_DONTWAIT)

    def _take(self, kind: bytes, payload: bytes) -> None:
        if self.request is None:
            self._take_request(kind, payload)
        elif kind == protocol.CANCEL:
            if self.call is not None:
                self.call.cancel()
        elif self._asked:
            self._take_answer(kind, payload)
        else:
            raise ProtocolError(f"a frame {kind!r} that nobody asked for")

    def _take_request(self, kind: bytes, payload: bytes) -> None:
        if kind == protocol.REQUEST:
            self._parts += payload
            if len(self._parts) > protocol.MAX_REQUEST:
                limit = protocol.MAX_REQUEST >> 20
                raise ProtocolError(f"arguments and environment of more than {limit} MiB")
        elif kind == protocol.GO:
            self.request = Request.decode(bytes(self._parts))
            self._parts = bytearray()
            self.call = DoorCall(self, self.request)
        else:
            raise ProtocolError(f"a frame {kind!r} before the request was complete")

    def _take_answer(self, kind: bytes, payload: bytes) -> None:
        if kind == protocol.DATA:
            self._answer += payload
            if len(self._answer) > INPUT_LIMIT:
                raise ProtocolError("an input longer than allowed")
            return
        answer: FileAnswer
        if kind == protocol.END:
            mode = int(payload, 8) if payload.isdigit() and len(payload) < 5 and max(payload) <= ord("7") else None
            answer = bytes(self._answer), mode
        elif kind == protocol.FAILED and payload.isdigit() and len(payload) < 6:
            answer = OSError(int(payload), os.strerror(int(payload)))
        else:
            raise ProtocolError(f"a frame {kind!r} in the middle of an input")
        self._answer = bytearray()
        self._asked = False
        self._answers.put(answer)

    # The command's side

    def send(self, kind: bytes, data: bytes) -> None:
        """Send data of any length, waiting as long as the caller takes. Raises BrokenPipeError when it is gone."""
        view = memoryview(data)
        with self._sending:
            while True:
                piece = bytes(view[: protocol.MAX_FRAME])
                view = view[protocol.MAX_FRAME :]
                try:
                    self.socket.sendall(protocol.frame(kind, piece))
                except OSError:
                    raise BrokenPipeError from None
                if not view:
                    return

    def ask(self, kind: bytes, payload: bytes) -> tuple[bytes, int | None]:
        """Ask for an input and wait for it; with the permissions of a file, where the launcher tells them.

        Raises OSError as the caller's open or read did.
        """
        if self.is_lost:
            raise BrokenPipeError
        self._asked = True
        self.send(kind, payload)
        answer = self._answers.get()
        if isinstance(answer, OSError):
            raise answer
        return answer


class DoorCall(Call):
    """A command run for a caller on the other end of a connection; uid and gid are the kernel's word."""

    def __init__(self, caller: DoorCaller, request: Request) -> None:
        super().__init__(
            request.argv,
            cwd=request.cwd,
            env=request.env,
            uid=caller.peer.uid,
            gid=caller.peer.gid,
            umask=request.umask,
            terminals=request.terminals,
            columns=request.columns,
        )
        self._caller = caller

    def take_over(self) -> None:
        """The caller's launcher runs the command by itself then."""
        raise HandedBack

    def report_fault(self, problem: BaseException) -> None:
        """The traceback goes to the door's log."""
        log.error("%s (uid %d): internal error", self.argv[0], self.uid, exc_info=problem)

    def _put(self, stream: int, data: bytes) -> None:
        self._caller.send(protocol.OUT if stream == 1 else protocol.ERR, data)

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        if path is None:
            return self._caller.ask(protocol.READ_STDIN, b"")
        try:
            return self._caller.ask(protocol.READ_FILE, path.encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, path) from None
