"""The door: one warm process per host that runs the commands of the host's users.

One loop accepts and reads, and never waits for a single caller; each command runs in a thread of a bounded pool. A
caller that is slow, silent, rude or gone costs the others nothing. Whoever cannot be served is told so before
anything was carried out, and its launcher then runs the command by itself.

The door never opens a file for a caller and never acts on anything but what the kernel says about who called.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import queue
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.base.errors import GschedError
from gsched.base.machine.large_imports import LargeImport
from gsched.base.machine.service import NOBODY, ServiceManager
from gsched.cli import registry
from gsched.cli.session.call import Call, HandedBack, run_main
from gsched.door import address, protocol
from gsched.door.caller import DoorCaller
from gsched.door.complaints import Complaints
from gsched.door.protocol import ProtocolError
from gsched.wire.identity.socket_peer import peer_of

if TYPE_CHECKING:
    from gsched.wire.identity.identity_assertion import IdentityAssertion

log = logging.getLogger(__name__)

WORKERS = 64
REQUEST_TIMEOUT_S = 10.0
GRACE_S = 5.0


class Workers:
    """Threads that are started when they are first needed, `limit` at most."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.busy = 0
        """How many tasks are under way; kept by the door's loop alone."""
        self._threads = 0
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, task: Callable[[], None]) -> bool:
        """Have the task run by a thread; False when all are busy. The task must not raise."""
        if self.busy >= self.limit:
            return False
        self.busy += 1
        if self.busy > self._threads:
            self._threads += 1
            # Daemon threads: a command that hangs for good must not keep the door from ending.
            threading.Thread(target=self._work, name=f"call-{self._threads}", daemon=True).start()
        self._tasks.put(task)
        return True

    def _work(self) -> None:
        while True:
            self._tasks.get()()


class Door:
    """Serves one listening socket until `stop`.

    `run` carries out a call and returns its exit code. `others` also serves users other than the door's own; each of
    them gets a quarter of the workers at most. Times are seconds.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        run: Callable[[str, Call], int] = run_main,
        others: bool = False,
        workers: int = WORKERS,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        grace_s: float = GRACE_S,
        manager: ServiceManager = NOBODY,
    ) -> None:
        self._listening = listening
        self._run = run
        self._others = others
        self._request_timeout_s = request_timeout_s
        self._grace_s = grace_s
        self._manager = manager
        self._complaints = Complaints(log)
        self._feed_at_s = 0.0
        self._workers = Workers(workers)
        self._waiting: set[DoorCaller] = set()
        self._running: set[DoorCaller] = set()
        self._finished: queue.SimpleQueue[DoorCaller] = queue.SimpleQueue()
        self._stop_at_s: float | None = None
        self._is_stopping = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()

    def stop(self) -> None:
        """End serving: calls under way get `grace_s` to finish. From any thread or a signal handler."""
        self._is_stopping = True  # no Event: a handler that is interrupted by a second signal would wait for itself
        self._wake()

    def serve(self) -> None:
        """Serve until `stop` was called and the calls under way have ended or used up their grace."""
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._awake)
        try:
            while not self._has_ended():
                for key, _ in self._selector.select(self._patience()):
                    if isinstance(key.data, DoorCaller):
                        self._read(key.data)
                    else:
                        key.data()
                self._give_up_late_ones()
                self._feed()
        finally:
            self._close()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # woken often enough, or closed already
            self._waker.send(b"\0")

    # The loop

    def _patience(self) -> float | None:
        """Seconds the loop may sleep: for ever when no deadline is near."""
        deadlines = [caller.deadline_s for caller in self._waiting]
        if self._stop_at_s is not None:
            deadlines.append(self._stop_at_s)
        if self._manager.feed_s:
            deadlines.append(self._feed_at_s)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _feed(self) -> None:
        now_s = time.monotonic()
        if self._manager.feed_s and now_s >= self._feed_at_s:
            self._manager.feed()
            self._feed_at_s = now_s + self._manager.feed_s

    def _has_ended(self) -> bool:
        if not self._is_stopping:
            return False
        if self._stop_at_s is None:
            self._manager.stopping()
            self._stop_at_s = time.monotonic() + self._grace_s
            self._selector.unregister(self._listening)
            # From here on launchers are refused by the kernel and run their commands themselves.
            self._listening.close()
            for caller in list(self._waiting):
                self._refuse(caller, "the door is closing")
        return not self._running or time.monotonic() >= self._stop_at_s

    def _close(self) -> None:
        # Hanging up is not cancelling: a job that somebody waits for must not die because the door is restarted.
        for caller in [*self._waiting, *self._running]:
            caller.hang_up()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _awake(self) -> None:
        self._woken.recv(1024)
        with contextlib.suppress(queue.Empty):
            while True:
                caller = self._finished.get_nowait()
                self._workers.busy -= 1
                self._running.discard(caller)
                self._drop(caller)

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:  # out of descriptors: the callers in the queue wait, the loop must not spin
            log.error("cannot accept a caller: %s", problem.strerror)
            time.sleep(0.05)
            return
        connection.setblocking(True)
        caller = DoorCaller(connection, peer_of(connection), time.monotonic() + self._request_timeout_s)
        refusal = self._refusal(caller.peer.uid)
        if refusal:
            caller.tell(protocol.REFUSED, refusal.encode())
            connection.close()
            return
        self._waiting.add(caller)
        self._selector.register(connection, selectors.EVENT_READ, caller)
        caller.tell(protocol.HELLO, protocol.GREETING)

    def _refusal(self, uid: int) -> str:
        """Why this caller is not served now; empty when it is."""
        own = os.geteuid()
        if uid != own and not self._others:
            return f"this door serves uid {own} only"
        present = [*self._waiting, *self._running]
        if len(present) >= 2 * self._workers.limit:
            return "the door is busy"
        share = self._workers.limit // 4 or 1
        if uid != own and sum(caller.peer.uid == uid for caller in present) >= share:
            return f"the door is busy with {share} calls of yours"
        return ""

    def _read(self, caller: DoorCaller) -> None:
        if caller not in self._waiting and caller not in self._running:
            return  # dropped a moment ago, by another event of the same round
        try:
            is_there = caller.receive()
        except ProtocolError as problem:
            self._complaints.say(caller.peer.uid, f"(process {caller.peer.pid}) sent {problem}")
            self._reject(caller, str(problem))
            return
        if not is_there:
            self._lose(caller)
        elif caller in self._waiting and caller.request is not None:
            self._start(caller)

    def _start(self, caller: DoorCaller) -> None:
        assert caller.call is not None
        self._waiting.discard(caller)
        name = Path(caller.call.argv[0]).name
        if name in registry.LOCAL_ONLY:
            self._refuse(caller, f"{name} is run by its caller")
            return
        if self._workers.start(lambda: self._carry_out(caller)):
            self._running.add(caller)
        else:
            self._refuse(caller, "the door is busy")

    def _reject(self, caller: DoorCaller, reason: str) -> None:
        if caller in self._waiting:
            self._refuse(caller, f"the door got {reason}")
        else:
            self._lose(caller)

    def _refuse(self, caller: DoorCaller, reason: str) -> None:
        self._waiting.discard(caller)
        caller.tell(protocol.REFUSED, reason.encode())
        self._drop(caller)

    def _lose(self, caller: DoorCaller) -> None:
        if caller in self._waiting:
            self._waiting.discard(caller)
            self._drop(caller)
            return
        # The command still runs: its thread says when it has ended, and the socket is closed then.
        self._selector.unregister(caller.socket)
        caller.lose()

    def _drop(self, caller: DoorCaller) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller.socket)
        caller.socket.close()

    def _give_up_late_ones(self) -> None:
        now_s = time.monotonic()
        for caller in [caller for caller in self._waiting if caller.deadline_s <= now_s]:
            self._refuse(caller, "the request took too long to arrive")

    # A worker's side

    def _carry_out(self, caller: DoorCaller) -> None:
        call = caller.call
        assert call is not None
        try:
            code = self._run(Path(call.argv[0]).name, call)
            caller.send(protocol.EXIT, str(code).encode())
        except HandedBack:
            with contextlib.suppress(BrokenPipeError):
                caller.send(protocol.REFUSED, b"the command needs its caller's terminal")
        except BrokenPipeError:
            pass
        except BaseException:  # nothing a command does may end this thread
            log.exception("%s (uid %d) ended badly", call.argv[0], call.uid)
        finally:
            self._finished.put(caller)
            self._wake()


def serve(
    socket_path: str,
    *,
    configuration: Path | None = None,
    assertion: IdentityAssertion | None = None,
    workers: int = WORKERS,
    manager: ServiceManager = NOBODY,
) -> None:
    """Be the door of this host until SIGTERM or SIGINT; call it from the main thread of a process of its own.

    `socket_path` is absolute; when `configuration` is given, the path is announced there to the launchers. `assertion`
    opens the door to every user of the host, and a relay beside it; both speak to the master under the user's name.
    Raises GschedError when a socket cannot be opened.
    """
    others = assertion is not None
    if assertion is not None:
        assertion.check()
    listener = address.listen(socket_path, others=others)
    relay = None
    try:
        door = Door(listener.socket, others=others, workers=workers, manager=manager)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: door.stop())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        warm_up()
        # The loop must get its turn beside commands that compute.
        sys.setswitchinterval(0.0005)
        if configuration is not None:
            _announce(configuration, socket_path, others)
        if assertion is not None:
            relay = _serve_others(socket_path, assertion)
        log.info("open on %s", socket_path)
        manager.ready(f"open on {socket_path}")
        door.serve()
    finally:
        if configuration is not None and not others:
            address.withdraw(configuration, socket_path)
        if relay is not None:
            relay.close()
        listener.close()
    log.info("closed")


def _serve_others(socket_path: str, assertion: IdentityAssertion) -> Any:
    """Have commands speak for their callers, and open the relay beside the socket; returns it."""
    # The door of one user has no need of gRPC before its first command.
    from gsched.cli.session.master_links import serve_others
    from gsched.door.relay import open_relay
    from gsched.wire.calls.door_relay import SOCKET_NAME

    serve_others(assertion)
    return open_relay(str(Path(socket_path).with_name(SOCKET_NAME)), assertion)


def _announce(configuration: Path, path: str, others: bool) -> None:
    """A door for others is announced for good, and best by root: launchers trust what root has named."""
    try:
        address.announce(configuration, path)
    except GschedError as error:
        if not others:
            raise
        log.warning("%s; launchers do not find this door: have root write %s there", error.text, path)


def warm_up() -> None:
    """Import every command, so that nobody's first one pays for it; a broken one is logged, the rest goes on."""
    with LargeImport():
        for name, target in registry.COMMANDS.items():
            if name in registry.LOCAL_ONLY:
                continue
            try:
                importlib.import_module(target.partition(":")[0])
            except Exception:
                log.exception("%s cannot be loaded", name)
