"""A cluster with masters on two hosts, whose database is on a host of its own, and a user who submits all the time."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from netlab import Host, Lab
from netlab_cluster import PATIENCE_S, SharedCluster, shared_cluster
from netlab_database import LabDatabase

from gsched.master.succession import BROKEN_EXIT
from tests.support.asking import pause_s

# Long enough for a master whose clock is an hour early.
_PARAMS = """\
Begin Parameters
DEFAULT_QUEUE  = normal
SBD_SLEEP_TIME = 1
CLEAN_PERIOD   = 100000
End Parameters
"""
_TELLS_STANDING = re.compile("waits to lead|takes over|listens on|is lost:|was taken over by|is told to")


class TwoMasters:
    """Masters on h1 and h2, jobs on h3, the database on h4, and if wanted a standby of it on h5."""

    def __init__(self, lab: Lab, sim_gpus: str = "", *, has_replica: bool = False, disk_mib: int = 0) -> None:
        self.a, self.b, self.c = (lab.host(name) for name in ("h1", "h2", "h3"))
        self.database = LabDatabase(lab.host("h4"), disk_mib)
        self.replica = LabDatabase(lab.host("h5")) if has_replica else None
        self.url = self.database.url_with(*([self.replica.host] if self.replica else []))
        self.versions: dict[str, Mapping[str, str]] = {}
        """Host -> the environment that chooses the gsched of its master, where that is another one than ours."""
        settings = {"LSF_MASTER_LIST": '"h1 h2"', "GSCHED_STORE": f'"{self.url}"'}
        hosts = [self.a, self.b, self.c]
        files = {"lsb.params": "=" + _PARAMS}
        self.cluster = shared_cluster(lab, hosts, sim_gpus=sim_gpus, settings=settings, files=files, start=False)
        self.database.make(self.cluster)
        if self.replica is not None:
            self.replica.follow(self.database)
        self.cluster.start(is_ready=False)
        self._become_ok()
        self.start(self.b)
        self.waits(self.b)

    def _become_ok(self) -> None:
        """Wait until all hosts are; a master that was starved for longer than its lease is started again, as systemd
        does.
        """
        until = time.monotonic() + PATIENCE_S
        while set(self.cluster.states().values()) != {"ok"}:
            code = self.cluster.daemons[self.a.name, "master"].poll()
            assert code in (None, BROKEN_EXIT), f"the master of {self.a} has ended with {code}"
            if code is not None:
                self.start(self.a)
            assert time.monotonic() < until, "the hosts do not become ok"
            time.sleep(pause_s(0.0))

    def start(self, host: Host, env: Mapping[str, str] | None = None) -> subprocess.Popen[Any]:
        """Start the master of this host, in the version that it has."""
        return self.cluster.start_daemon(host, "master", env={**self.versions.get(host.name, {}), **(env or {})})

    def stop(self, host: Host) -> None:
        """End the master of this host in peace."""
        process = self.cluster.daemons.pop((host.name, "master"))
        host.send(process, signal.SIGTERM)
        process.wait(PATIENCE_S)

    def waits(self, host: Host) -> None:
        """Wait until the master of this host waits for another."""
        self.cluster.until(lambda: self.is_waiting(host), f"the master of {host} does not wait")

    def start_waiting(self, host: Host, env: Mapping[str, str] | None = None) -> None:
        """Start a master there, and wait until it waits."""
        before = len(self.cluster.log(host, "master"))
        self.start(host, env)
        self.cluster.until(
            lambda: "waits to lead" in self.cluster.log(host, "master")[before:], f"the master of {host} does not wait"
        )

    def is_waiting(self, host: Host) -> bool:
        """Whether the last that the master of this host has said is that it waits."""
        return "waits to lead" in self.last_word(host)

    def last_word(self, host: Host) -> str:
        """The last line of the master's log that says how it stands."""
        lines = [line for line in self.cluster.log(host, "master").splitlines() if _TELLS_STANDING.search(line)]
        return lines[-1] if lines else ""

    def leader(self) -> str:
        """Who leads, as a user of h3 is told."""
        said = self.cluster.run("gid", user="alice", host=self.c).stdout
        return said.partition("My master name is ")[2].split()[0]

    def events(self, job: int) -> list[str]:
        """What the history says of a job."""
        return self.cluster.run("ghist", "-l", str(job), user="alice", host=self.c).stdout.splitlines()


_REFUSED = "nothing was changed, try again later"
"""What is said as long as a leader waits for a database that is away."""


class Submissions:
    """A user of h3 who submits one job after another, until the end of the block; again what was refused for now."""

    def __init__(self, cluster: SharedCluster, host: Host) -> None:
        self.numbers: list[int] = []
        self.problem = ""
        self.longest_s = 0.0
        """What a submission took at most since somebody set this to 0."""
        self.news = threading.Condition()
        self._cluster, self._host = cluster, host
        self._is_over = False
        self._thread = threading.Thread(target=self._submit)

    def __enter__(self) -> Submissions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def more(self, count: int) -> None:
        """Wait until so many more have been acknowledged."""
        with self.news:
            wanted = len(self.numbers) + count
            assert self.news.wait_for(lambda: self.problem or len(self.numbers) >= wanted, PATIENCE_S)
        assert not self.problem, self.problem

    def _submit(self) -> None:
        while not self._is_over and not self.problem:
            began = time.monotonic()
            words = ("gsub", "-m", "h3", "true")
            try:
                done = self._cluster.run(*words, user="alice", host=self._host, check=False)
            except AssertionError as error:  # it has not ended
                done = subprocess.CompletedProcess(words, 1, "", str(error))
            found = re.search(r"Job <(\d+)>", done.stdout)
            with self.news:
                if found is not None:
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    self.numbers.append(int(found[1]))
                elif _REFUSED not in done.stderr:
                    self.problem = done.stdout + done.stderr
                self.news.notify_all()
