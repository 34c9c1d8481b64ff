"""A signal that was acknowledged while the agent is away reaches the job when it is back, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cluster import Cluster

pytestmark = pytest.mark.system
COUNTS = """python3 -u -c '
import signal
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
print("ready", flush=True)
while True: signal.pause()'"""


def count(path: Path, word: str) -> int:
    """Lines of the job's that are this word."""
    return path.read_text().splitlines().count(word) if path.exists() else 0


def test_a_signal_waits_for_the_agent(cluster: Cluster) -> None:
    out = cluster.folder / "out"
    job_id = cluster.submit("-o", str(out), COUNTS)
    cluster.until(lambda: count(out, "ready"), "the job does not start")
    name = f"agent-{cluster.host}"
    cluster.kill(name)
    done = cluster.run("gkill", "-s", "USR1", str(job_id))
    assert done.stdout == f"Job <{job_id}> is being signaled\n"
    cluster.up()
    cluster.until(lambda: count(out, "heard"), "the signal does not arrive")
    sent = "were sent the signal"
    cluster.until(lambda: sent in " ".join(cluster.run("ghist", "-l", str(job_id)).stdout.split()), "nobody says so")
    cluster.kill(name)
    cluster.up()
    assert cluster.run("gkill", "-s", "USR1", str(job_id)).returncode == 0
    cluster.until(lambda: count(out, "heard") == 2, "the second one does not arrive")
    cluster.run("gkill", "-r", str(job_id))
    cluster.wait(job_id)
    assert count(out, "heard") == 2
