"""What a cluster showed at a moment is shown again by --at: through jobs, reconfigurations and killed daemons."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime

import pytest
from live_cluster import Cluster

from gsched.core.scheduling_cycles import REASONS_STAND_S
from gsched.master.engine_thread import RENEW_REASONS_S

pytestmark = pytest.mark.system

LISTINGS = (
    ("gjobs", "-u", "all", "-a", "-w"),
    ("gjobs", "-u", "all", "-p"),
    ("gjobs", "-u", "all", "-q", "normal", "-o", "jobid stat queue exec_host slots gpu_num job_priority delimiter=','"),
    ("gjobs", "-u", "all", "-a", "-json", "-o", "jobid stat exit_code pend_reason"),
    ("ghosts", "-w"),
    ("ghosts", "-gpu"),
    ("gqueues", "-w"),
    ("gqueues", "-l"),
)
REST_S = REASONS_STAND_S + 2 * RENEW_REASONS_S
"""So long reasons may stand that were found before something happened, which a look at the past finds anew."""


def shown(cluster: Cluster, at: str = "") -> list[tuple[int, str, str]]:
    found = []
    for words in LISTINGS:
        done = cluster.run(*words, *(("--at", at) if at else ()), check=False)
        # When a reason was found is not kept: with --at it is looked for anew.
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" (as of ")]
        found.append((done.returncode, "\n".join(lines), done.stderr))
    return found


def moment(cluster: Cluster) -> tuple[str, list[tuple[int, str, str]]]:
    """A time at which nothing happened, as --at takes it, and what was shown before and after it."""
    deadline = time.monotonic() + 120
    since, before = time.monotonic(), shown(cluster)
    while True:
        at = time.time()
        found = shown(cluster)
        if found != before:
            since, before = time.monotonic(), found
        elif time.monotonic() - since > REST_S:
            return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f"), found
        assert time.monotonic() < deadline, "the cluster does not come to rest"


def test_the_past_is_shown_as_it_was(cluster: Cluster) -> None:
    dice = random.Random(20)
    moments = [moment(cluster)]
    running: list[int] = []
    for turn in range(6):
        count = dice.choice((1, 2, 4))
        running.append(cluster.submit("-gpu", f"num={count}:mode=exclusive_process", "-o", "/dev/null", "sleep 900"))
        cluster.submit("-H", "-J", f"held{turn}", "-o", "/dev/null", "sleep 900")
        cluster.submit("-w", f"done({running[-1]})", "-o", "/dev/null", "true")
        match turn:
            case 0:
                cluster.becomes(running[0], "RUN")
                cluster.run("gstop", str(running[0]))
                cluster.becomes(running[0], "USUSP")
            case 1:
                cluster.configure(lsb_queues="Begin Queue\nQUEUE_NAME = later\nPRIORITY = 7\nEnd Queue\n")
            case 2:
                cluster.run("gkill", str(running[0]))
                cluster.wait(running[0])
            case 3:
                cluster.kill("master")
                cluster.run("gsched", "up", "--dir", str(cluster.folder))
            case 4:
                cluster.kill(f"agent-{cluster.host}")
                moments.append(moment(cluster))
                cluster.run("gsched", "up", "--dir", str(cluster.folder))
            case _:
                cluster.run("gadmin", "hclose", cluster.host)
        moments.append(moment(cluster))
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.run("gsched", "up", "--dir", str(cluster.folder))
    for at, then in moments:
        again = shown(cluster, at)
        for words, was, now in zip(LISTINGS, then, again, strict=True):
            assert now == was, f"{words} at {at}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gjobs", "--at", "1999-01-01 00:00"), "1999-01-01 00:00:00 UTC is before history begins"),
        (("ghosts", "--at", "2999-01-01"), "ghosts: --at 2999-01-01 is in the future"),
        (("gqueues", "--at", "soon"), "Bad time specification: 'soon' is not of the form YYYY-MM-DD HH:MM"),
        (("gjobs", "--at", "2026-02-30"), "Bad time specification: there is no such time as '2026-02-30'"),
        (("gjobs", "--at", ".", "--watch"), "gjobs: --at and --watch cannot be given together"),
        (("gjobs", "--at", ".", "-psum"), "gjobs: --at and -psum cannot be given together"),
        (("gqueues", "--at", ".", "nowhere"), "nowhere: No such queue"),
    ],
)
def test_a_time_of_which_nothing_can_be_told_is_refused_in_one_line(
    shared: Cluster, words: tuple[str, ...], said: str
) -> None:
    done = shared.run(*words, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (255, "", 1)
    assert done.stderr.startswith(said)


@pytest.fixture(scope="module")
def shared(module_cluster: object) -> Cluster:
    made: Cluster = module_cluster()  # type: ignore[operator]
    return made
