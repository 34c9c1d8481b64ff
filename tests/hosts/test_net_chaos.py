"""A network that fails again and again, at random, while users work; and one that is away for minutes."""

from __future__ import annotations

import random
import re
import time

import pytest
from netlab import Host, Lab
from netlab_cluster import CLUSTER, ENVDIR, SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

JOB = "echo $LSB_JOBID begin $$ >> log; sleep {}; echo $LSB_JOBID end $$ >> log"
"""The homes are those of a file server: one log for all hosts."""


class Trouble:
    """Things that happen to a host; each is over when it returns."""

    def __init__(self, cluster: SharedCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng

    def strike(self) -> str:
        """Let one of them happen; says which."""
        host = self.rng.choice(self.cluster.hosts)
        what = self.rng.choice([self.cut, self.lose, self.slow, self.kill_agent, self.kill_master])
        what(host)
        return f"{what.__name__} {host.name}"

    def cut(self, host: Host) -> None:
        host.cut()
        time.sleep(self.rng.uniform(0.2, 6.0))
        host.mend()

    def lose(self, host: Host) -> None:
        host.lose(self.rng.randint(10, 50))
        time.sleep(self.rng.uniform(0.5, 4.0))
        host.lose(0)

    def slow(self, host: Host) -> None:
        host.slow(kbit=self.rng.randint(64, 512))
        time.sleep(self.rng.uniform(0.5, 4.0))
        host.slow(0)

    def kill_agent(self, host: Host) -> None:
        self.cluster.kill(host, "agent")
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.cluster.start_daemon(host, "agent")

    def kill_master(self, host: Host) -> None:
        self.cluster.kill(self.cluster.master_host, "master")
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.cluster.start_daemon(self.cluster.master_host, "master")


@pytest.mark.fault
def test_every_job_runs_once_though_the_network_fails_again_and_again(lab: Lab, request: pytest.FixtureRequest) -> None:
    """Nothing is lost, nothing is started twice, and every end is known: no job here may be run again."""
    rng = random.Random(7)
    cluster = shared_cluster(lab, [lab.host(f"h{n}") for n in (1, 2, 3)], settings={"GSCHED_HOST_LOST": "6"})
    trouble = Trouble(cluster, rng)
    jobs: list[int] = []
    happened: list[str] = []
    for _ in range(request.config.getoption("--fault-rounds")):
        jobs += [cluster.submit(JOB.format(round(rng.uniform(0, 5), 1))) for _ in range(4)]
        happened.append(trouble.strike())
    print(happened)
    waiting = set(jobs)

    def all_over() -> bool:
        for line in cluster.run("gjobs", "-noheader", "-a", "-o", "jobid stat", check=False).stdout.splitlines():
            job_id, state = line.split()
            if state in ("DONE", "EXIT"):
                waiting.discard(int(job_id))
        return not waiting

    cluster.until(all_over, "not all jobs end")
    lines = cluster.run("cat", "log").stdout.split("\n")
    begun = [int(line.split()[0]) for line in lines if " begin " in line]
    ended = [int(line.split()[0]) for line in lines if " end " in line]
    assert sorted(begun) == sorted(ended) == sorted(jobs)
    states = cluster.run("gjobs", "-noheader", "-a", "-o", "stat").stdout.split()
    assert set(states) == {"DONE"}
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "not all hosts are back")


@pytest.mark.nightly
def test_host_is_away_for_minutes_with_the_intervals_of_a_real_cluster(lab: Lab) -> None:
    """unreach within ten seconds or so, unavail after GSCHED_HOST_LOST (30 s), and back after minutes."""
    a, b, c = lab.host("h1"), lab.host("h2"), lab.host("h3")
    cluster = shared_cluster(lab, [a, b, c], settings={"GSCHED_HOST_LOST": "30"}, start=False)
    for host in cluster.hosts:
        path = host.path(f"{ENVDIR}/lsf.cluster.{CLUSTER}")
        path.write_text(path.read_text().replace("EXINTERVAL = 1\n", "EXINTERVAL = 15\n"))
    cluster.start()
    plain = [cluster.submit("-m", "h2", "sleep 200; echo over") for _ in range(2)]
    again = [cluster.submit("-r", "-m", "h2+2 h3+1", "sleep 300") for _ in range(2)]
    for job_id in (*plain, *again):
        cluster.becomes(job_id, "RUN")
    time.sleep(20)
    began = time.monotonic()
    b.cut()
    cluster.host_becomes(b, "unreach")
    unreach_s = time.monotonic() - began
    cluster.host_becomes(b, "unavail")
    unavail_s = time.monotonic() - began
    for job_id in plain:
        cluster.becomes(job_id, "UNKWN")
    for job_id in again:
        cluster.until(lambda job_id=job_id: cluster.field(job_id, "exec_host") == "h3", "it does not start elsewhere")
    time.sleep(max(0.0, 170 - (time.monotonic() - began)))
    b.mend()
    mended = time.monotonic()
    cluster.host_becomes(b, "ok")
    back_s = time.monotonic() - mended
    print(f"unreach after {unreach_s:.1f} s, unavail after {unavail_s:.1f} s, back after {back_s:.1f} s")
    assert unreach_s < unavail_s and unavail_s > 15
    for job_id in plain:
        cluster.becomes(job_id, "DONE")
    cluster.until(lambda: b.run(["pgrep", "-f", "^sleep 300$"]).returncode != 0, "what was given up runs on")
    history = " ".join(cluster.run("ghist", "-l", *map(str, (*plain, *again))).stdout.split())
    assert len(re.findall(r"Starting \(Pid", history)) == len(plain) + 2 * len(again)
