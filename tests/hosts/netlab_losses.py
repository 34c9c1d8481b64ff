"""Ways to lose the leader of two masters, or to replace it: by what happens to processes, the database, the network,
and by a newer version. `netlab_rounds` plays them and says what must hold.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from netlab import Host
from netlab_cluster import PATIENCE_S, SERVICE_USER
from netlab_masters import TwoMasters

import gsched
from gsched.base.errors import LSF_FAILURE
from gsched.base.machine.service import TOLD_TO_RESTART
from gsched.master.succession import BROKEN_EXIT
from gsched.store.tables.migrations import MIGRATIONS
from tests.fakeclock.fakeclock import OFFSET_VARIABLE, NoCompiler, build
from tests.support.asking import pause_s

_LEADS_NO_MORE = {BROKEN_EXIT}
"""Exit codes of a master whose lease is lost, or whose store was taken over."""
_ENDS = {TOLD_TO_RESTART, LSF_FAILURE, BROKEN_EXIT}
"""Those of all that end by themselves: also of one that has handed over, or cannot reach the database as it starts."""
_NEVER_SAID = ("Traceback", "internal error", "the engine stopped")
_CLOCK = "/var/lib/fakeclock.so"
_HANGING = "/var/local/hanging"
# Read by each interpreter as it starts. The handler runs in the main thread, which is that of the loop.
_HANGS_WHEN_TOLD = """\
import signal, sys, time

def hang(*_):
    sys.modules["gsched.master.daemon"].HANG_S = 5.0
    while True:
        time.sleep(1)

signal.signal(signal.SIGUSR2, hang)
"""
_NEWER = "/var/local/newer"
_STEP = "\n\nMIGRATIONS.append(lambda connection: None)\n"


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
                self.masters.start(host)
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
        self.masters.start(host)

    def stop(self) -> None:
        """SIGSTOP for longer than the lease, then SIGCONT: it ends by itself, and says why."""
        host, other = self.leader()
        process = self.cluster.daemons[host.name, "master"]
        host.send(process, signal.SIGSTOP)
        self.led_by(other)
        host.send(process, signal.SIGCONT)
        self._ends(host)
        # gRPC writes lines of its own there.
        said = [line for line in self.cluster.log(host, "master").splitlines() if " gsched." in line][-1]
        assert "the lease on the store" in said or "was taken over by" in said, said

    def lose_host(self) -> None:
        """The power of the leader's host fails; it is booted when the other one leads."""
        host, other = self.leader()
        self.cluster.power_off(host)
        self.led_by(other)
        self.cluster.boot(host)
        if host is not self.cluster.master_host:
            self.masters.start(host)

    def start_together(self) -> None:
        """Both are killed, and both start at once: one leads."""
        both = (self.masters.a, self.masters.b)
        for host in both:
            self.cluster.kill(host, "master")
        for host in both:
            self.masters.start(host)

    def hang_services(self) -> None:
        """The loop that answers calls hangs, the engine does not: who leads ends when its lease is over."""
        host, other = self.leader()
        folder = other.path(_HANGING)
        if not folder.exists():
            folder.mkdir()
            (folder / "sitecustomize.py").write_text(_HANGS_WHEN_TOLD)
        self.cluster.kill(other, "master")
        self.masters.start_waiting(other, {"PYTHONPATH": _HANGING})
        self.kill()
        self.settle()
        other.send(self.cluster.daemons[other.name, "master"], signal.SIGUSR2)
        self._ends(other)
        self.led_by(host)

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

    def promote(self) -> None:
        """The host of the database is lost, and its standby takes its place, for which each commit has waited; later
        the host comes back as the standby.
        """
        self.fail_over()
        self.follow_again()
        self.masters.database.wait_for_standby()

    def fail_over(self) -> None:
        """The host of the database is lost, and its standby takes its place."""
        lost, promoted = self.masters.database, self.masters.replica
        assert promoted is not None
        lost.host.power_off()
        promoted.promote()
        self.masters.database, self.masters.replica = promoted, lost

    def follow_again(self) -> None:
        """The host that was lost comes back as the standby."""
        standby = self.masters.replica
        assert standby is not None
        standby.host.boot()
        standby.follow(self.masters.database)

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

    # -- another version ----------------------------------------------------------------------------------------------

    def upgrade(self) -> None:
        """The one that waits gets a version whose stores have a newer format, and leads; then the other one gets it, of
        which the older version ends with a line.
        """
        host, other = self.leader()
        older = self.cluster.daemons[host.name, "master"]
        self.cluster.kill(other, "master")
        self._install_newer(other)
        self.masters.start_waiting(other)
        self.hand_over()
        self._is_refused(host, older)  # it has begun anew by itself, to wait
        self._is_refused(host, self.masters.start(host))
        del self.cluster.daemons[host.name, "master"]
        self._install_newer(host)
        self.masters.start_waiting(host)

    def _is_refused(self, host: Host, process: subprocess.Popen[Any]) -> None:
        """It ends, for the store has one format more than its master knows."""
        known = self._formats(host)
        refused = f"has format {known + 1}, made by a newer gsched; this one knows up to {known}\n"
        code, said = process.wait(PATIENCE_S), self.cluster.log(host, "master")
        assert code == LSF_FAILURE and said.endswith(refused), f"the master of {host} has ended with {code}: {said}"

    def _install_newer(self, host: Host) -> None:
        """A gsched whose stores have one format more than that of its master so far; its next start is of that one."""
        source = host.path(_NEWER) / "gsched"
        if not source.exists():
            shutil.copytree(Path(gsched.__file__).parent, source)
        with (source / "store/tables/migrations.py").open("a") as steps:
            steps.write(_STEP)
        self.masters.versions[host.name] = {"PYTHONPATH": _NEWER}

    def _formats(self, host: Host) -> int:
        """How many formats of the store the gsched knows that its master is of."""
        source = host.path(_NEWER) / "gsched/store/tables/migrations.py"
        return len(MIGRATIONS) + (source.read_text().count(_STEP) if source.exists() else 0)

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
