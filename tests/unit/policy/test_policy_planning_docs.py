"""The worked examples of docs/policies.md on backfill and preemption come out as they are told there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planning_cluster import Ask, Cluster, kind

from gsched.config.configuration import check_texts
from gsched.model.queues.queue import Queue

DOCUMENT = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
HOUR = 3600.0
NOON = 12 * HOUR


@pytest.fixture(scope="module")
def queues() -> list[Queue]:
    found = re.findall(r"^```lsb.queues\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    texts = [text for text in found if "BACKFILL" in text or "PREEMPTION" in text]
    assert len(texts) == 2
    loaded = check_texts(
        "/conf",
        {
            "lsf.conf": "LSB_SHAREDIR=/s\nLSF_LOGDIR=/l\nLSF_SERVERDIR=/e\n",
            "lsf.cluster.c1": "Begin ClusterAdmins\nADMINISTRATORS = adm\nEnd ClusterAdmins\n"
            "Begin Host\nHOSTNAME model type server RESOURCES\nh0 ! ! 1 ()\nEnd Host\n",
            "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nPRIORITY = 30\nEnd Queue\n" + "".join(texts),
        },
    )
    return list(loaded.required().queues.values())


def test_backfill_of_the_example(queues: list[Queue]) -> None:
    cluster = Cluster(queues=queues)
    cluster.run(kind(Ask(6), "batch"), ends_at=NOON)
    head = cluster.wait(kind(Ask(8), "batch"))
    late = cluster.wait(kind(Ask(), "batch", run_s=HOUR + 60))
    plain = cluster.wait(kind(Ask(), "normal", run_s=HOUR))
    in_time = cluster.wait(kind(Ask(), "batch", run_s=HOUR))
    done = cluster.cycle(11 * HOUR)
    assert done.planned[head].at == NOON
    assert set(done.started) == {in_time}
    assert done.refused.keys() >= {late, plain}


@pytest.mark.parametrize("queue", ["batch", "normal"])
def test_the_eighth_slot_of_the_example(queues: list[Queue], queue: str) -> None:
    cluster = Cluster(queues=queues)
    cluster.run(kind(Ask(6), "batch"), ends_at=NOON)
    cluster.wait(kind(Ask(7), "batch"))
    eighth = cluster.wait(kind(Ask(), queue, run_s=None))
    assert set(cluster.cycle(11 * HOUR).started) == {eighth}


def test_victims_of_the_example(queues: list[Queue]) -> None:
    cluster = Cluster(slots=2, queues=queues)
    cluster.run(kind(Ask(), "batch"), started_at=50.0)
    scavenger = cluster.run(kind(Ask(), "scavenge"))
    cluster.wait(kind(Ask(), "urgent"))
    assert [each.job_id for each in cluster.cycle(100.0).preempted] == [scavenger.job_id]
