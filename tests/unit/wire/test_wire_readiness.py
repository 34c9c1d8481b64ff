"""Who waits for a connection in vain hears of it once, and nothing of gRPC's threads."""

from __future__ import annotations

import subprocess
import sys

GIVES_UP = """
import sys, threading, grpc
from gsched.wire.channel_readiness import wait_until_ready

channel = grpc.insecure_channel("unix:" + sys.argv[1])
threads = []
start = threading.Thread.start
threading.Thread.start = lambda self: (threads.append(self), start(self))[1]
try:
    wait_until_ready(channel, 0.001)
except grpc.FutureTimeoutError:
    print("gave up")
channel.close()
for each in threads:
    each.join()
broken = threading.Thread(target=lambda: int("x"), name="another")
broken.start()
broken.join()
print(len(threads))
"""


def test_a_connection_that_is_given_up_leaves_no_traceback(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVES_UP, f"{tmp_path}/none.sock"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said, count = done.stdout.split("\n")[:2]
    assert said == "gave up" and int(count) >= 2, "gRPC's thread, and the other one"
    assert "_poll_connectivity" not in done.stderr and "Channel closed" not in done.stderr
    assert "Exception in thread another" in done.stderr, "any other fault of a thread is told as before"
