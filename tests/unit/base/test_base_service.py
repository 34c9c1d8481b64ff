"""The daemon's side of sd_notify, against a socket that listens as systemd does."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.base.machine.service import NOBODY, ServiceManager, keep_fed


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def told(systemd: socket.socket) -> list[str]:
    """The lines of the next message."""
    return systemd.recv(4096).decode().splitlines()


def manager_of(systemd: socket.socket, **more: str) -> ServiceManager:
    return ServiceManager.take({"NOTIFY_SOCKET": systemd.getsockname(), **more})


def test_what_is_told(systemd: socket.socket) -> None:
    manager = manager_of(systemd)
    manager.ready("all is there")
    assert told(systemd) == ["READY=1", "STATUS=all is there"]
    manager.status("all is there")
    manager.status("one has\ngone")
    assert told(systemd) == ["STATUS=one has gone"], "only a change is told, as one line"
    manager.stopping()
    assert told(systemd) == ["STOPPING=1"]


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0gsched-test-{os.getpid()}")
        listening.settimeout(60)
        ServiceManager.take({"NOTIFY_SOCKET": f"@gsched-test-{os.getpid()}"}).feed()
        assert listening.recv(100) == b"WATCHDOG=1"


def test_what_the_daemon_starts_does_not_inherit_the_manager() -> None:
    environment = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_PID": "1", "WATCHDOG_USEC": "9", "HOME": "/"}
    ServiceManager.take(environment)
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("pid", "usec", "feed_s"),
    [(os.getpid(), "60000000", 15.0), (1, "60000000", 0.0), ("", "8000000", 2.0), (os.getpid(), "soon", 0.0)],
)
def test_how_often_the_watchdog_is_fed(pid: object, usec: str, feed_s: float) -> None:
    environment = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_PID": str(pid), "WATCHDOG_USEC": usec}
    assert ServiceManager.take(environment).feed_s == feed_s


def test_nobody_is_told_and_nothing_breaks(tmp_path: Path) -> None:
    for manager in (NOBODY, ServiceManager.take({}), ServiceManager.take({"NOTIFY_SOCKET": "not a path"})):
        assert not manager.is_there
        manager.ready("x")
    gone = ServiceManager(str(tmp_path / "gone"), 8.0)
    gone.feed()
    asyncio.run(asyncio.wait_for(keep_fed(NOBODY, lambda: True), 60))


def test_the_watchdog_is_fed_only_while_all_is_well(systemd: socket.socket) -> None:
    manager = manager_of(systemd, WATCHDOG_USEC="40000")
    wells = iter((True, False, False, True))

    async def loop() -> None:
        def is_well() -> bool:
            well = next(wells, None)
            if well is None:
                raise RuntimeError("enough")
            return well

        with pytest.raises(RuntimeError, match="enough"):
            await keep_fed(manager, is_well)

    asyncio.run(loop())
    assert [told(systemd), told(systemd)] == [["WATCHDOG=1"], ["WATCHDOG=1"]]
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)
