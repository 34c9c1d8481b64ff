"""A peer that is stopped keeps its connections: a call on one is given up, not waited for to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import grpc
import pytest

from gsched.wire.channel import CHANNEL_OPTIONS

pytestmark = pytest.mark.slow

SILENT = """
import grpc, sys, threading
from concurrent import futures
def wait(request, context):
    print("called", flush=True)
    threading.Event().wait()
handler = grpc.unary_unary_rpc_method_handler(wait)
server = grpc.server(futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", {"Wait": handler}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
DEADLINE_S = 600.0


def test_a_stopped_peer_is_given_up() -> None:
    """gRPC's own limit is a minute; a command that waits for a master must find the next one long before."""
    with subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
            began = time.monotonic()
            call = channel.unary_unary("/t.T/Wait").future(b"", timeout=DEADLINE_S, wait_for_ready=True)
            assert peer.stdout.readline() == "called\n"
            os.kill(peer.pid, signal.SIGSTOP)
            error = call.exception()
            assert isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNAVAILABLE, error
            assert time.monotonic() - began < DEADLINE_S / 2
        peer.kill()
