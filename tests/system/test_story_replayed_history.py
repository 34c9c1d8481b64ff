"""What real daemons decided under random load, kills and reconfigurations, `gsched sim --history` decides again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from live_cluster import Cluster

pytestmark = pytest.mark.system

QUEUES = "\nBegin Queue\nQUEUE_NAME = urgent\nPRIORITY = {priority}\n{more}\nEnd Queue\n"
LIMIT = "\nBegin Limit\nNAME = of_all\nPROJECTS = p1\nJOBS = 1\nEnd Limit\n"


def replayed(cluster: Cluster, *words: str) -> dict[str, Any]:
    done = cluster.run("gsched", "sim", "--history", str(cluster.folder / "state"), *words, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def submit_some(cluster: Cluster, dice: random.Random, count: int) -> list[int]:
    """Jobs of different shapes; none asks for more than a host has."""
    made = []
    for _ in range(count):
        gpus = dice.choice((0, 1, 1, 2, 3, 4))
        words = ["-gpu", f"num={gpus}:mode=exclusive_process"] if gpus else ["-n", str(dice.choice((1, 2)))]
        words += [
            "-q",
            dice.choice(("normal", "short", "night", "urgent")),
            "-W",
            "10",
            "-P",
            dice.choice(("p1", "p2")),
        ]
        words += ["-r"] if dice.random() < 0.3 else []
        made.append(cluster.submit(*words, "-o", "/dev/null", f"sleep {dice.choice((0.1, 0.3, 1, 2))}"))
    return made


@pytest.mark.nightly
def test_history_of_real_daemons_is_decided_again(make_cluster: Any) -> None:
    cluster: Cluster = make_cluster("--hosts", "h1,h2", "--sim-gpus", "4:exclusive_process")
    dice = random.Random(20)
    queues = (cluster.conf / "lsb.queues").read_text()
    cluster.configure(lsb_queues="=" + queues + QUEUES.format(priority=20, more=""))
    numbers: list[int] = []
    for turn in range(8):
        numbers += submit_some(cluster, dice, 6)
        match turn:
            case 0:
                cluster.configure(lsb_queues="=" + queues + QUEUES.format(priority=90, more="UJOB_LIMIT = 1"))
            case 1:
                cluster.kill("master")
                cluster.run("gsched", "up", "--dir", str(cluster.folder))
            case 2:
                cluster.configure(
                    lsb_resources=LIMIT, lsb_params="=Begin Parameters\nGPU_PLACEMENT = scarce\nEnd Parameters\n"
                )
            case 3:
                cluster.kill("agent-h1")
                numbers += submit_some(cluster, dice, 4)
                cluster.run("gsched", "up", "--dir", str(cluster.folder))
            case 4:
                cluster.run("gkill", *map(str, numbers[-5:]), check=False)
            case 5:
                cluster.run("gadmin", "hclose", "h2")
                cluster.configure(lsb_queues="=" + queues + QUEUES.format(priority=1, more=""))
            case 6:
                cluster.run("gadmin", "hopen", "h2")
                cluster.run("gtop", str(numbers[-1]), check=False)
            case _:
                cluster.kill("master")
                cluster.run("gsched", "up", "--dir", str(cluster.folder))
    cluster.wait(*numbers)
    found = replayed(cluster)
    summary = found["replay"]
    assert found["deviations"] == []
    assert summary["deviation"] == 0
    assert summary["starts"] >= len(numbers) - 5
    assert summary["same_place"] + summary["by_load"] == summary["starts"]
    assert bool(summary["by_load"]) == bool(found["notes"]), found["notes"]
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    assert replayed(cluster)["replay"]["starts"] == summary["starts"]
