"""Who listens on a port: sockets of this process, of others, of IPv6 for both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gsched.run.processes.listening_sockets import are_open_in, listeners


@contextmanager
def listening(
    address: str, family: socket.AddressFamily = socket.AF_INET, *, only_v6: bool = False
) -> Iterator[tuple[int, int]]:
    """Port and inode of a socket that listens."""
    with socket.socket(family) as found:
        if family is socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
        found.bind((address, 0))
        found.listen()
        yield found.getsockname()[1], os.fstat(found.fileno()).st_ino


@pytest.mark.parametrize(
    ("address", "family"),
    [("127.0.0.1", socket.AF_INET), ("0.0.0.0", socket.AF_INET)]
    + [(each, socket.AF_INET6) for each in ("::", "::ffff:127.0.0.1", "::ffff:0.0.0.0")],
)
def test_who_takes_connections_of_loopback_is_found(address: str, family: socket.AddressFamily) -> None:
    with listening(address, family) as (port, inode):
        assert listeners(port) == {inode}
        assert are_open_in(frozenset({inode}), [os.getpid()])
    assert listeners(port) == frozenset()


def test_other_addresses_and_sockets_that_do_not_listen_do_not_count() -> None:
    with listening("127.0.0.2") as (port, _), socket.socket() as bound:
        assert listeners(port) == frozenset()
        bound.bind(("127.0.0.1", 0))
        assert listeners(bound.getsockname()[1]) == frozenset()
    with listening("::1", socket.AF_INET6) as (port, _):
        assert listeners(port) == frozenset()


def test_a_connection_is_no_listener() -> None:
    with listening("127.0.0.1") as (port, inode), socket.create_connection(("127.0.0.1", port)):
        assert listeners(port) == {inode}


def test_a_socket_of_another_process_is_not_taken_for_ones_own() -> None:
    program = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        found = listeners(int(other.stdout.readline()))
        assert len(found) == 1
        assert not are_open_in(found, [os.getpid()]) and are_open_in(found, [os.getpid(), other.pid])
        assert not are_open_in(found, []) and not are_open_in(found, [other.pid + 100_000_000])
        other.stdin.close()
