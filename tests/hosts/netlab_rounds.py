"""Rounds of losses of two masters, while clients submit, ask and kill all the time and an administrator reconfigures.

No acknowledged job is lost, none starts twice, no GPU has two jobs, all that clients were told can be true of one
master, and the store replays to the same as a copy of it; how long nothing was acknowledged is printed.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest
from netlab import BIN, Lab
from netlab_cluster import FOLDERS, PATIENCE_S, SERVICE_USER
from netlab_losses import Losses
from netlab_masters import TwoMasters
from recording_clients import Recorded

from tests.support.postgresql_server import NoServer

PER_WAY = 5
"""So many rounds (--fault-rounds) are one of each way; what is left over is dropped, but for one of each at least."""


def of_each_way(rounds: int) -> int:
    """How often each way is tried in so many rounds."""
    return max(1, rounds // PER_WAY)


def made_masters(lab: Lab, *, has_replica: bool = False, disk_mib: int = 0) -> TwoMasters:
    """With GPUs. Skips the test where there is no PostgreSQL."""
    try:
        return TwoMasters(lab, sim_gpus="2", has_replica=has_replica, disk_mib=disk_mib)
    except NoServer as problem:
        pytest.skip(str(problem))


def check_each_way(masters: TwoMasters, ways: Sequence[str], rounds: int) -> None:
    """Lose the leader in each of these ways (methods of Losses), in any order, under load; all must be well."""
    cluster, c = masters.cluster, masters.c
    held = cluster.submit("-m", "h3", "sleep 100000", user="alice", host=c)
    cluster.becomes(held, "RUN")
    rng = random.Random(7)
    losses = Losses(masters, rng)
    away_s: dict[str, list[float]] = {way: [] for way in ways}
    with Recorded(cluster, c) as clients:
        of_each = of_each_way(rounds)
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
    leader, _ = losses.leader()
    cluster.run("gadmin", "check-store", user=SERVICE_USER, host=leader, env=masters.versions.get(leader.name))
    check_replays(masters)


def check_replays(masters: TwoMasters) -> None:
    """Ends both masters: the store, and a copy of it in a file, add up to the same cluster and the same histories."""
    host, leader = masters.a, masters.leader()
    for each in sorted((masters.a, masters.b), key=lambda each: each.name == leader):  # else the other one would lead
        masters.stop(each)
    place, env = f"{FOLDERS.state_dir}/copied/gsched.db", masters.versions.get(host.name)
    host.run(["mkdir", "-m", "700", str(Path(place).parent)], user=SERVICE_USER, check=True)
    copying = ["gadmin", "store-copy", masters.url, f"sqlite:///{place}"]
    host.run(copying, user=SERVICE_USER, check=True, env=env, timeout=PATIENCE_S)
    reading = [str(BIN / "python"), str(Path(__file__).with_name("replayed_store.py"))]
    server, file = (
        host.run([*reading, each], user=SERVICE_USER, check=True, env=env).stdout.splitlines()
        for each in (masters.url, place)
    )
    different = [pair for pair in zip_longest(server, file) if pair[0] != pair[1]]
    assert not different, different[:5]
    told = dict(line.split(maxsplit=1) for line in server[:3])
    assert told["state-by-checkpoint"] == told["state-by-events"]
    print(f"the store and its copy agree: {told['events']} events, {len(server) - 3} histories")
