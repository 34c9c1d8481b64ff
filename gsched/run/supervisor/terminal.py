"""What stands for the terminal of an interactive job, and of a task: what it prints is kept until somebody has taken
it, what is typed goes in.

A thread of the job's supervisor that listens on a socket in the attempt's folder, or the task's. One question per
connection: a line of JSON, bytes behind it; so is the answer. Whoever reads says up to where it has everything, so
nothing is lost or doubled when agent, master or connection go and come back. At most LIMIT bytes of each stream are
kept: then the job is not read from any more, and waits as at any slow terminal. What nobody has taken when the job has
been over for a while is left in files, as the output of other jobs is.

Runs in the fork server's bare interpreter: standard library only, and only where a job is interactive or has tasks.
Must never open anything but its socket.
"""

from __future__ import annotations

import _thread
import fcntl
import json
import os
import select
import socket
import struct
import termios
import time

SOCKET = "terminal"
"""Name of the socket in an attempt's folder."""
LIMIT = 256 * 1024
TYPED_LIMIT = 64 * 1024
HEADER_LIMIT = 4096
_PIECE = 64 * 1024
_READY = select.POLLIN | select.POLLHUP | select.POLLERR


class _Stream:
    """One stream of the job's: what of it is kept, and at which byte that begins."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.start = 0
        self.data = bytearray()

    def read(self, most: int) -> None:
        """Take what is there; the end of a pseudo-terminal is an error (EIO)."""
        try:
            piece = os.read(self.fd, most)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self.data += piece
        else:
            os.close(self.fd)
            self.fd = -1

    def taken(self, up_to: int) -> None:
        """Nobody needs what stands before that byte."""
        count = min(max(up_to - self.start, 0), len(self.data))
        del self.data[:count]
        self.start += count


def _drain(stream: _Stream) -> None:
    """Take what a job has left in a pipe that was not read any more, because so much of it was kept already."""
    while stream.fd >= 0:
        size = len(stream.data)
        stream.read(_PIECE)
        if len(stream.data) == size:
            return


class _Asking:
    """One connection: the question as far as it has come, and from when on it is answered even if there is nothing."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.text = bytearray()
        self.question: dict[str, int] | None = None
        self.typed = b""
        self.until = 0.0


class Terminal:
    """The job's side is `streams`: the descriptors of its standard input, output and error."""

    def __init__(self, folder: str, *, is_pty: bool) -> None:
        """Raises OSError."""
        self.is_pty = is_pty
        self._typed = bytearray()
        self._typed_size = 0
        self._has_end = False
        self._outputs: dict[str, _Stream] = {}
        if is_pty:
            ours, theirs = os.openpty()
            self.streams = (theirs, theirs, theirs)
            self._in = ours
            self._outputs["stdout"] = _Stream(os.dup(ours))
            self._resize(24, 80)
        else:
            stdin, self._in = os.pipe()
            out, stdout = os.pipe()
            err, stderr = os.pipe()
            self.streams = (stdin, stdout, stderr)
            self._outputs = {"stdout": _Stream(out), "stderr": _Stream(err)}
        for fd in (self._in, *(stream.fd for stream in self._outputs.values())):
            os.set_blocking(fd, False)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.setblocking(False)
        self._bind(folder)
        self._asking: dict[int, _Asking] = {}
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        self._ends_at = float("inf")
        self._patience_s = 0.0
        self._is_hung_up = False
        """Nobody reads any more what the job prints."""

    def start(self) -> None:
        """Begin; the job's descriptors must have been closed on this side. Raises RuntimeError."""
        _thread.start_new_thread(self._run, ())

    def finish(self, patience_s: float) -> None:
        """The job is over: returns when all that it printed has been taken, or nobody has asked for so long."""
        self.let_end(patience_s)
        self._ended.acquire()

    def leave(self, folder: str) -> None:
        """Put what nobody has taken into the streams' files in `folder`, each byte at its place in the stream, once
        `finish` has returned. Raises OSError.
        """
        if self._is_hung_up:
            return
        for name, stream in self._outputs.items():
            _drain(stream)
            if stream.data:
                fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    os.pwrite(fd, bytes(stream.data), stream.start)
                finally:
                    os.close(fd)

    def let_end(self, patience_s: float) -> None:
        """The thread is to end when all that was printed has been taken, or nobody has asked for so long."""
        self._patience_s = patience_s
        self._ends_at = time.monotonic() + patience_s
        os.write(self._wake_out, b"w")

    def close(self, *, is_started: bool = True) -> bool:
        """Close all descriptors, once, where the thread has ended or was never started; whether it has."""
        if is_started and not self._ended.acquire(blocking=False):
            return False
        self._listening.close()
        for fd in (self._in, self._wake_in, self._wake_out, *(stream.fd for stream in self._outputs.values())):
            if fd >= 0:
                os.close(fd)
        return True

    def _bind(self, folder: str) -> None:
        """By way of a descriptor of the folder: a socket's path must be short, a spool's may be long."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._listening.bind(f"/proc/self/fd/{fd}/{SOCKET}")
        finally:
            os.close(fd)
        self._listening.listen(16)

    def _resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", min(rows, 0xFFFF), min(columns, 0xFFFF), 0, 0)
        fcntl.ioctl(self._in, termios.TIOCSWINSZ, size)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_done():
                self._turn()
        finally:
            for asking in list(self._asking.values()):
                asking.connection.close()
            self._listening.close()
            self._ended.release()

    def _is_done(self) -> bool:
        if self._ends_at == float("inf"):
            return False
        return self._is_hung_up or self._is_over() or time.monotonic() >= self._ends_at

    def _is_over(self) -> bool:
        """The job prints nothing any more, and all of it has been taken."""
        return all(stream.fd < 0 and not stream.data for stream in self._outputs.values())

    def _turn(self) -> None:
        if self._is_hung_up:  # before it waits: else a stream that is full is never read again
            for stream in self._outputs.values():
                stream.taken(stream.start + len(stream.data))
        ready = dict(self._poll().poll(self._timeout_ms()))
        if self._listening.fileno() in ready:
            self._accept()
        if self._wake_in in ready:
            os.read(self._wake_in, 100)
        for stream in self._outputs.values():
            if ready.get(stream.fd, 0) & _READY:
                stream.read(min(_PIECE, LIMIT - len(stream.data)))
        if self._in in ready:
            self._pass_on()
        for fd, asking in list(self._asking.items()):
            if asking.question is None and fd in ready:
                self._listen_to(asking)
        self._answer_readers()

    def _poll(self) -> select.poll:
        poll = select.poll()
        poll.register(self._listening, select.POLLIN)
        poll.register(self._wake_in, select.POLLIN)
        for stream in self._outputs.values():
            if stream.fd >= 0 and len(stream.data) < LIMIT:
                poll.register(stream.fd, select.POLLIN)
        if self._typed and self._in >= 0:
            poll.register(self._in, select.POLLOUT)
        for asking in self._asking.values():
            if asking.question is None:
                poll.register(asking.connection, select.POLLIN)
        return poll

    def _timeout_ms(self) -> float | None:
        untils = [asking.until for asking in self._asking.values() if asking.question is not None]
        if self._ends_at < float("inf"):
            untils.append(self._ends_at)
        return max(0.0, min(untils) - time.monotonic()) * 1000 + 1 if untils else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        connection.setblocking(False)
        self._asking[connection.fileno()] = _Asking(connection)

    def _drop(self, asking: _Asking) -> None:
        self._asking = {fd: each for fd, each in self._asking.items() if each is not asking}
        asking.connection.close()

    def _listen_to(self, asking: _Asking) -> None:
        """Take in what has come of a question; answer what need not wait."""
        try:
            piece = asking.connection.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        asking.text += piece
        line, found, data = bytes(asking.text).partition(b"\n")
        if not piece or (not found and len(line) > HEADER_LIMIT):
            self._drop(asking)
            return
        if not found:
            return
        try:
            question = {name: int(value) for name, value in json.loads(line).items()}
            size = question.get("size", 0)
        except (ValueError, TypeError, AttributeError):
            self._drop(asking)
            return
        if len(data) > TYPED_LIMIT or size > TYPED_LIMIT:
            self._drop(asking)
        elif len(data) >= size:
            asking.question = question
            asking.typed = data
            asking.until = time.monotonic() + question.get("wait_ms", 0) / 1000
            self._is_hung_up = self._is_hung_up or bool(question.get("hangup"))
            if "most" in question:
                for name, stream in self._outputs.items():
                    stream.taken(question.get(name, 0))
                if self._ends_at < float("inf"):
                    self._ends_at = time.monotonic() + self._patience_s

    def _take_typed(self, asking: _Asking, question: dict[str, int], is_late: bool) -> None:
        """What was typed from a byte on, as much as there is room for; what was taken before is not taken twice.

        Where there is no room at all the answer waits as long as it may.
        """
        data = asking.typed
        if question.get("rows", 0) > 0 and self.is_pty and self._in >= 0:
            self._resize(question["rows"], question.get("columns", 80))
        fresh = data[max(self._typed_size - question.get("from", 0), 0) :]
        room = TYPED_LIMIT - len(self._typed)
        if fresh and not room and self._in >= 0 and not is_late:
            return
        fresh = fresh[:room]
        is_all = question.get("from", 0) + len(data) == self._typed_size + len(fresh)
        self._typed += fresh
        self._typed_size += len(fresh)
        if question.get("end") and is_all and not self._has_end:
            self._has_end = True
            if self.is_pty and self._in >= 0:
                self._typed += termios.tcgetattr(self._in)[6][termios.VEOF]  # as if Ctrl-D had been typed
        self._pass_on()
        self._reply(asking, {"taken": self._typed_size}, b"")

    def _pass_on(self) -> None:
        """To the job, as much as it takes now. A job that does not read its input any more loses it."""
        if self._in < 0:
            self._typed.clear()
            return
        try:
            while self._typed:
                del self._typed[: os.write(self._in, bytes(self._typed[:_PIECE]))]
        except BlockingIOError:
            return
        except OSError:
            self._typed.clear()
            self._has_end = True
        if self._has_end and not self.is_pty:
            os.close(self._in)
            self._in = -1

    def _answer_readers(self) -> None:
        now = time.monotonic()
        for asking in list(self._asking.values()):
            question = asking.question
            if question is None:
                continue
            if "most" not in question:
                self._take_typed(asking, question, now >= asking.until)
                continue
            if not (any(stream.data for stream in self._outputs.values()) or self._is_over() or now >= asking.until):
                continue
            header, texts = {"over": int(self._is_over())}, []
            for name, stream in self._outputs.items():
                texts.append(bytes(stream.data[: question["most"]]))
                header[name] = len(texts[-1])
            self._reply(asking, header, b"".join(texts))

    def _reply(self, asking: _Asking, header: dict[str, int], data: bytes) -> None:
        """All at once: the other end is on this machine and waits for it."""
        asking.connection.settimeout(5.0)
        try:
            asking.connection.sendall(json.dumps(header).encode() + b"\n" + data)
        except OSError:  # it went away: it asks again, and gets the same
            pass
        self._drop(asking)
