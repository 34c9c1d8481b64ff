"""`gsched requeue-me`: a process of a job tells the agent of its host that the job is to run again when it has ended.

It proves nothing by itself: the agent learns from the kernel whose process it is.
"""

from __future__ import annotations

import os
import socket
import time

import click

from gsched.base.errors import BadRequest, Conflict, Unavailable
from gsched.wire.calls.retry_policy import WAIT_VARIABLE, read_wait
from gsched.wire.messages import launch_protocol, requeue_messages
from gsched.wire.messages.frames import Decoder, ProtocolError, frame

SOCKET = "GSCHED_AGENT_SOCKET"
AGAIN_S = 0.2
ANSWER_S = 10.0
"""An agent that takes longer than that is asked anew: to ask twice does what to ask once does."""
MOST_READ = 1 << 16


@click.command("requeue-me")
def requeue_me() -> None:
    """Inside a job, on its first host: when it ends it waits again, whatever its exit code.

    A job calls it when it has saved its state, and ends. It keeps its number and its place in the queue; GSCHED_ATTEMPT
    counts its attempts, LSB_RESTART=Y says that there was one before. --max-restarts of gsub says how often that may
    be (100 times where it was not given, and never more often than MAX_JOB_REQUEUE of its queue). A job that is killed
    ends for good. GSCHED_BINDIR is set in every job.

    \b
    trap 'save; "$GSCHED_BINDIR/gsched" requeue-me; exit' TERM
    """
    path = os.environ.get(SOCKET, "")
    if not path:
        raise BadRequest(f"requeue-me works only inside a job ({SOCKET} is not set)")
    until = time.monotonic() + read_wait(os.environ.get(WAIT_VARIABLE, ""))
    while True:
        try:
            _ask(path)
            return
        except OSError as error:  # the agent may be restarting
            if time.monotonic() >= until:
                why = error.strerror or str(error)
                raise Unavailable(f"requeue-me: the agent of this host does not answer ({path}: {why})") from None
        except ProtocolError:
            raise Unavailable("requeue-me: the agent of this host is of another version") from None
        time.sleep(AGAIN_S)


def _ask(path: str) -> None:
    """Raises Conflict with what the agent says against it, OSError, ProtocolError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(path)
        decoder, frames = Decoder(), list[tuple[bytes, bytes]]()
        while True:
            while not frames:
                data = connection.recv(MOST_READ)
                if not data:
                    raise ConnectionResetError("it hung up")
                frames += decoder.feed(data)
            kind, payload = frames.pop(0)
            if kind == launch_protocol.REFUSED:
                raise Conflict(f"requeue-me: {payload.decode('utf8', 'replace')}")
            if kind == requeue_messages.NOTED:
                return
            if kind != launch_protocol.HELLO or payload != launch_protocol.GREETING:
                raise ProtocolError("it says something else")
            connection.sendall(frame(requeue_messages.ASK))
