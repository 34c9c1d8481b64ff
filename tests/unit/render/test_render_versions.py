"""The table of gadmin versions."""

from __future__ import annotations

from datetime import UTC

from gsched.cli.render.hosts.versions import render_versions
from gsched.model.hosts.fleet import CONNECTED, REFUSED, DaemonView


def test_mixed_versions_and_a_refusal() -> None:
    found = [
        DaemonView(kind="master", host="h1", state=CONNECTED, version="1.0", protocol=4, pid=10, since=0.0),
        DaemonView(
            kind="agent", host="gpu01", state=REFUSED, version="2.0", protocol=5, pid=7, since=60.0, problem="no \x1b"
        ),
        DaemonView(kind="agent", host="h3"),
    ]
    assert render_versions(found, UTC).splitlines() == [
        "HOST_NAME  DAEMON  STATE      VERSION  PROTOCOL  PID  SINCE",
        "h1         master  connected  1.0      4         10   Thu Jan  1 00:00:00",
        "gpu01      agent   refused    2.0      5         7    Thu Jan  1 00:01:00",
        "h3         agent   away       -        -         -    -",
        "no ?",
        "mixed versions: 1.0, 2.0",
    ]
