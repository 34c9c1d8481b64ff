"""The leader of two masters is lost again and again, in each way that there is, while a user submits all the time.

No acknowledged job is lost, none starts twice, no command fails; how long nobody led is printed.
"""

from __future__ import annotations

import random
import signal
import statistics
import time

import pytest
from netlab import Host, Lab
from netlab_cluster import PATIENCE_S, SERVICE_USER

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_masters import Submissions, TwoMasters

from tests.support.asking import pause_s
from tests.support.postgresql_server import NoServer

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

WAYS = ("kill", "stop", "end_sessions", "kill_database", "hand_over")
"""As the methods of Losses."""


class Losses:
    """Ways to lose the leader; `settle` comes after each."""

    def __init__(self, masters: TwoMasters, rng: random.Random) -> None:
        self.masters = masters
        self.cluster = masters.cluster
        self.rng = rng

    def leader(self) -> tuple[Host, Host]:
        """The host of the one that leads, and the other one."""
        name = self.masters.leader()
        both = (self.masters.a, self.masters.b)
        return (both[0], both[1]) if both[0].name == name else (both[1], both[0])

    def settle(self) -> None:
        """Wait until one leads and the other one waits; who has ended is started again, as systemd does."""
        until = time.monotonic() + PATIENCE_S
        while not self.is_settled():
            assert time.monotonic() < until, "no master leads while the other one waits"
            time.sleep(pause_s(0.0))

    def is_settled(self) -> bool:
        for host in (self.masters.a, self.masters.b):
            if self.cluster.daemons[host.name, "master"].poll() is not None:
                self.cluster.start_daemon(host, "master")
                return False
        _, other = self.leader()
        return self.masters.is_waiting(other) and "cannot be reached" not in self.masters.last_word(other)

    def kill(self) -> None:
        host, other = self.leader()
        self.cluster.kill(host, "master")
        self.led_by(other)
        self.cluster.start_daemon(host, "master")

    def stop(self) -> None:
        """SIGSTOP for longer than the lease, then SIGCONT: it ends by itself."""
        host, other = self.leader()
        process = self.cluster.daemons[host.name, "master"]
        host.send(process, signal.SIGSTOP)
        self.led_by(other)
        host.send(process, signal.SIGCONT)
        process.wait(PATIENCE_S)

    def end_sessions(self) -> None:
        """An administrator of the database ends all of the cluster's sessions."""
        sessions = "FROM pg_stat_activity WHERE usename = 'gsched'"
        self.masters.database.admin(f"SELECT pg_terminate_backend(pid) {sessions}")

    def kill_database(self) -> None:
        """It is back at once: whoever led goes on, or the other one leads."""
        self.masters.database.kill()
        self.masters.database.start()

    def hand_over(self) -> None:
        _, other = self.leader()
        words = ("gadmin", "failover", "--to", other.name)
        # One that has lost its session of the database a moment ago is not known to wait.
        self.cluster.until(
            lambda: self.cluster.run(*words, user=SERVICE_USER, host=other, check=False).returncode == 0,
            f"{other} is not handed over to",
        )
        self.led_by(other)

    def led_by(self, host: Host) -> None:
        assert self.masters.leader() == host.name


@pytest.mark.fault
def test_no_job_is_lost_or_doubled_when_the_leader_is_lost_again_and_again(
    lab: Lab, request: pytest.FixtureRequest
) -> None:
    try:
        masters = TwoMasters(lab)
    except NoServer as problem:
        pytest.skip(str(problem))
    cluster, c = masters.cluster, masters.c
    away_s: dict[str, list[float]] = {name: [] for name in WAYS}
    held = cluster.submit("-m", "h3", "sleep 100000", user="alice", host=c)
    cluster.becomes(held, "RUN")
    with Submissions(cluster, c) as submissions:
        for number in range(request.config.getoption("--fault-rounds")):
            rng = random.Random(number)
            submissions.more(rng.randint(1, 4))
            way = WAYS[number] if number < len(WAYS) else rng.choice(WAYS)
            began = time.monotonic()
            submissions.longest_s = 0.0
            losses = Losses(masters, rng)
            getattr(losses, way)()
            submissions.more(1)
            away_s[way].append(min(submissions.longest_s, time.monotonic() - began))
            losses.settle()
    numbers = submissions.numbers
    assert len(set(numbers)) == len(numbers)
    for number in [*numbers, held]:
        state = "RUN" if number == held else "DONE"
        cluster.until(
            lambda number=number, state=state: cluster.field(number, "stat", user="alice", host=c) == state,
            f"job {number} is not {state}",
        )
        assert sum("Starting (Pid" in line for line in masters.events(number)) <= 1
    for way, seconds in away_s.items():
        if seconds:
            print(f"{way}: a submission took at most {max(seconds):.1f} s, median {statistics.median(seconds):.1f} s")
