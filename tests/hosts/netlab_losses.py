"""Ways to lose the leader of two masters, and rounds of them while clients submit, ask and kill all the time and an
administrator reconfigures.

No acknowledged job is lost, none starts twice, no GPU has two jobs, and all that clients were told can be true of one
master; how long nothing was acknowledged is printed.
"""

from __future__ import annotations

import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence

import pytest
from netlab import Host, Lab
from netlab_cluster import PATIENCE_S, SERVICE_USER
from netlab_masters import TwoMasters
from recording_clients import Recorded

from gsched.base.errors import LSF_FAILURE
from gsched.base.machine.service import TOLD_TO_RESTART
from gsched.master.succession import BROKEN_EXIT
from tests.fakeclock.fakeclock import OFFSET_VARIABLE, NoCompiler, build
from tests.support.asking import pause_s
from tests.support.postgresql_server import NoServer

PER_WAY = 5
"""So many rounds (--fault-rounds) are one of each way; what is left over is dropped, but for one of each at least."""

_LEADS_NO_MORE = {BROKEN_EXIT}
"""Exit codes of a master whose lease is lost, or whose store was taken over."""
_ENDS = {TOLD_TO_RESTART, LSF_FAILURE, BROKEN_EXIT}
"""Those of all that end by themselves: also of one that has handed over, or cannot reach the database as it starts."""
_NEVER_SAID = ("Traceback", "internal error", "the engine stopped")
_CLOCK = "/var/lib/fakeclock.so"


class Losses:
    """Of the two masters; each way is over when it returns, and `settle` comes after it."""

    def __init__(self, masters: TwoMasters, rng: random.Random | None = None) -> None:
        self.masters = masters
        self.cluster = masters.cluster
        self.rng = rng or random.Random(7)

    def leader(self) -> tuple[Host, Host]:
        """The host of the one that leads, and the other one."""
        name = self.masters.leader()
        both = (self.masters.a, self.masters.b)
        return (both[0], both[1]) if both[0].name == name else (both[1], both[0])

    def settle(self) -> None:
        """Wait until one leads and the other one waits; who has ended is started again, as systemd does."""
        self.until(self.is_settled, "no master leads while the other one waits")

    def is_settled(self) -> bool:
        for host in (self.masters.a, self.masters.b):
            code = self.cluster.daemons[host.name, "master"].poll()
            if code is not None:
                assert code in _ENDS, f"the master of {host} has ended with {code}"
                self.cluster.start_daemon(host, "master")
                return False
        _, other = self.leader()
        return self.masters.is_waiting(other) and "cannot be reached" not in self.masters.last_word(other)

    def until(self, is_true: Callable[[], object], complaint: str) -> None:
        """As that of the cluster, while a master may end."""
        until = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < until, complaint
            time.sleep(pause_s(0.0))

    def led_by(self, host: Host) -> None:
        self.until(lambda: self.masters.leader() == host.name, f"{host} does not lead")

    # -- processes ----------------------------------------------------------------------------------------------------

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
        self._ends(host)

    def start_together(self) -> None:
        """Both are killed, and both start at once: one leads."""
        both = (self.masters.a, self.masters.b)
        for host in both:
            self.cluster.kill(host, "master")
        for host in both:
            self.cluster.start_daemon(host, "master")

    def hand_over(self) -> None:
        _, other = self.leader()
        words = ("gadmin", "failover", "--to", other.name)
        # One that has lost its session of the database a moment ago is not known to wait.
        self.cluster.until(
            lambda: self.cluster.run(*words, user=SERVICE_USER, host=other, check=False).returncode == 0,
            f"{other} is not handed over to",
        )
        self.led_by(other)

    def wrong_clock(self) -> None:
        """A master whose clock is an hour early or late leads for a while, and then one whose clock is right."""
        host, other = self.leader()
        library = other.path(_CLOCK)
        if not library.exists():
            try:
                build(library)
            except NoCompiler as problem:
                pytest.skip(str(problem))
        self.cluster.kill(other, "master")
        offset_s = self.rng.choice((-3600, 3600))
        self.masters.start_waiting(other, {"LD_PRELOAD": _CLOCK, OFFSET_VARIABLE: str(offset_s)})
        for leads, waits in ((other, host), (host, other)):
            self.cluster.kill(waits, "master")
            self.led_by(leads)
            job = self.cluster.submit("-m", "h3", "true", user="alice", host=self.masters.c)
            self.cluster.until(
                lambda job=job: self.cluster.field(job, "stat", user="alice", host=self.masters.c) == "DONE",
                f"job {job} does not end",
            )
            self.masters.start_waiting(waits)

    # -- the database -------------------------------------------------------------------------------------------------

    def end_sessions(self) -> None:
        """An administrator of the database ends all of the cluster's sessions."""
        sessions = "FROM pg_stat_activity WHERE usename = 'gsched'"
        self.masters.database.admin(f"SELECT pg_terminate_backend(pid) {sessions}")

    def kill_database(self) -> None:
        """It is back at once: whoever led goes on, or the other one leads."""
        self.masters.database.kill()
        self.masters.database.start()

    def fill_database(self) -> None:
        """Its disk is full until something could not be stored."""
        host, _ = self.leader()
        before = len(self.cluster.log(host, "master"))
        self.masters.database.fill_disk()
        self.until(
            lambda: "new commands are refused" in self.cluster.log(host, "master")[before:],
            "all is stored",
        )
        self.masters.database.free_disk()

    # -- the network --------------------------------------------------------------------------------------------------

    def cut_database(self) -> None:
        """Between leader and database: it ends before its lease is over, and the other one leads."""
        host, other = self.leader()
        host.cut_from(self.masters.database.host, hears=self.rng.random() < 0.5)
        self._ends(host)
        self.led_by(other)
        host.mend_to(self.masters.database.host)

    def cut_agents(self) -> None:
        """Between leader and the host where users and jobs are: it still leads, and the host is away."""
        host, _ = self.leader()
        agents = self.masters.c
        host.cut_from(agents, hears=self.rng.random() < 0.5)
        self.until(lambda: self._status(agents, host) != "ok", f"{host} does not miss {agents}")
        host.mend_to(agents)
        self.led_by(host)
        self.until(lambda: self._status(agents, host) == "ok", f"{host} does not hear {agents}")

    def cut_both(self) -> None:
        """It can reach neither the database nor the other hosts, and leads no more."""
        host, other = self.leader()
        others = (self.masters.database.host, self.masters.c, other)
        host.cut_from(*others)
        self._ends(host)
        self.led_by(other)
        host.mend_to(*others)

    def _ends(self, host: Host) -> None:
        code = self.cluster.daemons[host.name, "master"].wait(PATIENCE_S)
        assert code in _LEADS_NO_MORE, f"the master of {host} has ended with {code}"

    def check_logs(self) -> None:
        """At the end: no master has failed in a way that nobody has thought of."""
        for host in (self.masters.a, self.masters.b):
            lines = self.cluster.log(host, "master").splitlines()
            failures = [line for line in lines if any(word in line for word in _NEVER_SAID)]
            assert not failures, f"{host}: {failures}"

    def _status(self, of: Host, seen_by: Host) -> str:
        done = self.cluster.run("ghosts", "-w", of.name, user="root", host=seen_by, check=False)
        lines = [line.split() for line in done.stdout.splitlines()[1:]]
        return lines[0][1] if lines and len(lines[0]) > 1 else ""


def check_each_way(lab: Lab, ways: Sequence[str], rounds: int, *, disk_mib: int = 0) -> None:
    """Lose the leader in each of these ways (methods of Losses), in any order, under load; all must be well."""
    try:
        masters = TwoMasters(lab, sim_gpus="2", disk_mib=disk_mib)
    except NoServer as problem:
        pytest.skip(str(problem))
    cluster, c = masters.cluster, masters.c
    held = cluster.submit("-m", "h3", "sleep 100000", user="alice", host=c)
    cluster.becomes(held, "RUN")
    rng = random.Random(7)
    losses = Losses(masters, rng)
    away_s: dict[str, list[float]] = {way: [] for way in ways}
    with Recorded(cluster, c) as clients:
        of_each = max(1, rounds // PER_WAY)
        print(f"--fault-rounds {rounds}: {of_each} of each way, {of_each * len(ways)} in all")
        for _ in range(of_each):
            for way in rng.sample(ways, len(ways)):
                clients.more(rng.randint(1, 4), since=time.monotonic())
                began = time.monotonic()
                getattr(losses, way)()
                clients.more(1, since=time.monotonic())
                away_s[way].append(clients.outage_s(began))
                losses.settle()
                cluster.run("gadmin", "reconfig", user=SERVICE_USER, host=losses.leader()[0])
    for way, seconds in away_s.items():
        median, longest = statistics.median(seconds), max(seconds)
        print(f"{way}: {len(seconds)} rounds, median {median:.1f} s, longest {longest:.1f} s without a submission")
    jobs, calls = clients.check(), clients.calls()
    print(f"{jobs} jobs, {len(calls)} calls, {sum(call.end is None for call in calls)} of them without an answer")
    assert cluster.field(held, "stat", user="alice", host=c) == "RUN"
    assert sum("Starting (Pid" in line for line in masters.events(held)) == 1
    losses.check_logs()
    cluster.run("gadmin", "check-store", user=SERVICE_USER, host=losses.leader()[0])
