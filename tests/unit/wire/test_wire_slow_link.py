"""A connection whose first answer takes longer than a retry is made all the same."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest

from gsched.wire.channel import CHANNEL_OPTIONS

DELAY_S = 0.9
"""Longer than any wait between two attempts."""


def _pass_on(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    time.sleep(delay_s)
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def far_server() -> Iterator[str]:
    """The address of a gRPC server whose first bytes arrive late."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for pair in ((near, far, 0.0), (far, near, DELAY_S)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    server.stop(None)


def test_a_server_that_is_slow_to_answer_is_reached(far_server: str) -> None:
    with grpc.insecure_channel(far_server, options=CHANNEL_OPTIONS) as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/no/such")(b"", timeout=60, wait_for_ready=True)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
