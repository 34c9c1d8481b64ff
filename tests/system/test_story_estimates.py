"""What users are told of starts, with real daemons: learned from jobs that waited, kept with the next, judged later."""

from __future__ import annotations

import json
import os
import pwd

from live_cluster import Cluster

WAITERS = 12
ONE = ["-R", "rusage[ngpus_excl_p=1]"]
ALL = ["-R", "rusage[ngpus_excl_p=4]"]


def test_waits_are_learned_told_and_judged_also_by_the_next_master(cluster: Cluster) -> None:
    holder = cluster.submit(*ALL, "-W", "10", "sleep 7")
    cluster.starts(holder)
    jobs = [cluster.submit(*ONE, "-W", "10", "true") for _ in range(WAITERS)]
    cluster.wait(holder, *jobs)
    found = json.loads(cluster.run("gadmin", "estimates", "--json").stdout)
    assert (found["waited"], found["not_kept"], found["estimated"]) == (WAITERS, 0, 0)
    assert found["plan_jobs"] >= 1, "the first of them had a planned start, by the run limit of the holder"
    cluster.kill("master")
    cluster.up()
    holder = cluster.submit(*ALL, "sleep 7")
    cluster.starts(holder)
    waiter = cluster.submit(*ONE, "true")
    with cluster.client() as client:
        told = client.explain(waiter)
    assert told.such_jobs == WAITERS
    assert told.p50_at is not None and told.p90_at is not None and told.submitted_at < told.p50_at <= told.p90_at
    assert f"Judging by {WAITERS} such jobs that waited" in cluster.run("gjobs", "-p4", str(waiter)).stdout
    cluster.wait(holder, waiter)
    found = json.loads(cluster.run("gadmin", "estimates", "--json").stdout)
    assert (found["waited"], found["not_kept"], found["estimated"]) == (WAITERS + 1, 0, 1)
    assert found["median_error_s"] is not None and found["mean_wait_median_error_s"] is not None


def test_who_has_no_starts_and_who_is_nobody(cluster: Cluster) -> None:
    assert cluster.run("gadmin", "estimates").stdout == "No job has started\n"
    me = pwd.getpwuid(os.getuid()).pw_name
    asked = cluster.run("gadmin", "estimates", "-u", me, "-q", "short")
    assert (asked.returncode, asked.stdout) == (0, f"No job of {me} in short has started\n")
    cluster.wait(cluster.submit("true"))
    for words, said in (
        (("-u", "no-such-user"), "no-such-user: Unknown user"),
        (("-u", f"{me} no-such-user"), "no-such-user: Unknown user"),
        (("-q", "nowhere"), "nowhere: No such queue"),
    ):
        asked = cluster.run("gadmin", "estimates", *words, check=False)
        assert (asked.returncode, asked.stdout, asked.stderr) == (255, "", f"gadmin: {said}\n")
    assert cluster.run("gadmin", "estimates", "-u", me).stdout.startswith("Jobs that had to wait: ")
