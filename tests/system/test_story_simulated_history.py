"""What a real cluster has done, played once more by `gsched sim --history`."""

from __future__ import annotations

import json

import pytest
from live_cluster import Cluster

pytestmark = pytest.mark.system


@pytest.mark.nightly
def test_history_of_real_daemons_is_played_again(cluster: Cluster) -> None:
    whole = ("-gpu", "num=4:mode=exclusive_process", "-o", "/dev/null")
    half = ("-gpu", "num=2:mode=exclusive_process", "-o", "/dev/null")
    # One after the other, for lack of GPUs: what each gets depends on nobody's speed.
    numbers = [cluster.submit(*whole, "sleep 0.2") for _ in range(3)]
    killed = cluster.submit(*whole, "sleep 600")
    last = [cluster.submit(*half, "-J", "sweep[1-2]", "sleep 0.2")]
    cluster.becomes(killed, "RUN")
    cluster.run("gkill", str(killed))
    cluster.wait(*numbers, killed)
    cluster.until(lambda: not cluster.run("gjobs", "-u", "all", check=False).stdout, "jobs are left")
    slots = cluster.run("ghosts", "-noheader", "-o", "max").stdout.strip()
    described = cluster.folder / "hosts.csv"
    described.write_text(f"host,slots,gpus,gpu_mode\n{cluster.host},{slots},4,exclusive_process\n")
    words = ("--history", str(cluster.folder / "state"), "--config", str(cluster.folder / "conf"))
    while_it_runs = cluster.run("gsched", "sim", str(described), *words, "--json")
    found = json.loads(while_it_runs.stdout)
    assert found["summary"]["recorded_jobs"] == len(numbers) + 1 + 2 * len(last)
    assert found["summary"]["same_place"] == 1.0
    cluster.down()
    afterwards = cluster.run("gsched", "sim", str(described), *words, "--json")
    assert afterwards.stdout == while_it_runs.stdout
