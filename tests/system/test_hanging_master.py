"""A master whose engine hangs while its process is well otherwise: it leads no more, and one that waits takes over."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gsched.master.succession import BROKEN_EXIT
from gsched.wire.address import MASTER_SOCKET, read_address
from gsched.wire.calls.client import Client
from tests.support.neighbour_masters import configure_masters

pytestmark = pytest.mark.needs_postgresql

PATIENCE_S = 120
HOSTS = ("m1", "m2")
MASTER = """
import logging, os, sys, threading
from gsched.master import daemon
from gsched.master.views.board import Board

conf, host, hanging = sys.argv[1:]
publish = Board.publish


def publish_or_hang(self, engine):
    if os.path.exists(hanging):
        threading.Event().wait()
    publish(self, engine)


logging.basicConfig(level=logging.INFO)
daemon.HANG_S = 5.0
Board.publish = publish_or_hang
sys.exit(daemon.run(conf, host))
"""
"""A real master; its engine's thread, and nothing else of it, hangs as soon as a file is there."""


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)  # neither a socket nor a log tells of what it waits for


def listens(conf: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(conf.parent / "run" / "master" / MASTER_SOCKET)) == 0


def test_a_master_whose_engine_hangs_leads_no_more(postgresql_server: Any, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("m")
    confs = configure_masters(folder, HOSTS, postgresql_server.new_url())
    script, hanging = folder / "master.py", [folder / f"{host} hangs" for host in HOSTS]
    script.write_text(MASTER)
    logs = [conf.parent / "log" / "master.log" for conf in confs]
    masters: list[subprocess.Popen[bytes]] = []
    try:
        for host, conf, flag, log in zip(HOSTS, confs, hanging, logs, strict=True):
            words = [sys.executable, str(script), str(conf), host, str(flag)]
            with log.open("wb") as file:
                masters.append(subprocess.Popen(words, stdout=file, stderr=file))
            if host == HOSTS[0]:
                until(lambda: listens(confs[0]), masters[0], logs[0])
        until(lambda: "waits to lead" in logs[1].read_text(), masters[1], logs[1])
        hanging[0].touch()
        assert masters[0].wait(PATIENCE_S) == BROKEN_EXIT
        assert "is lost: it could not be renewed for 6 seconds: this master hangs" in logs[0].read_text()
        until(lambda: listens(confs[1]), masters[1], logs[1])
        with Client(read_address(str(confs[1])), wait_s=PATIENCE_S) as client:
            assert client.cluster().master_host == HOSTS[1]
    finally:
        for process in masters:
            process.kill()
            process.wait(PATIENCE_S)
