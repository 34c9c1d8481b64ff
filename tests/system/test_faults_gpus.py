"""Pains 12: no GPU ever has two exclusive owners, whoever is killed and however compute modes change meanwhile."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from fault_tools import AcknowledgedJobs, kill_everything, kill_fork_server, submission
from live_cluster import Cluster

from gsched.model.hosts.host import ComputeMode

pytestmark = [pytest.mark.system, pytest.mark.fault]

OWNER = """\
name=$LSB_JOBID.$GSCHED_ATTEMPT count=0
echo $name >> starts
set -C  # > creates a file exclusively (O_EXCL) from here on
for gpu in $(echo $GSCHED_GPU_UUIDS | tr , ' '); do
    count=$((count + 1))
    : > lock.$gpu || echo "$name found GPU $gpu taken" >> violations
done 2> /dev/null
sleep $1
for gpu in $(echo $GSCHED_GPU_UUIDS | tr , ' '); do rm lock.$gpu; done
exit $count
"""
"""Takes each of its GPUs by a lock file while it runs, and ends with their number."""


class Modes(threading.Thread):
    """Switches the compute mode of single GPUs at random until it is stopped; all are exclusive in the end."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._cluster, self._rng, self._stop_it = cluster, rng, threading.Event()

    def run(self) -> None:
        while not self._stop_it.wait(0.3):
            self._set(str(self._rng.randrange(4)), self._rng.choice(["exclusive_process", "prohibited"]))

    def stop(self) -> None:
        self._stop_it.set()
        self.join()
        self._set("0-3", "exclusive_process")

    def _set(self, gpus: str, mode: str) -> None:
        folder = str(self._cluster.folder)
        self._cluster.run("gsched", "sim-gpu", gpus, f"compute_mode={mode}", "--dir", folder)


@pytest.mark.smoke
def test_no_gpu_has_two_owners(cluster: Cluster, request: pytest.FixtureRequest):
    program = cluster.folder / "owner"
    program.write_text(OWNER)
    acknowledged = AcknowledgedJobs(cluster)
    agent = f"agent-{cluster.host}"
    deeds = {
        "master": lambda: cluster.kill("master"),
        "agent": lambda: cluster.kill(agent),
        "fork server": lambda: kill_fork_server(cluster),
        "all": lambda: kill_everything(cluster),
    }
    for number in range(request.config.getoption("--fault-rounds")):
        rng = random.Random(number)
        modes = Modes(cluster, rng)
        cluster.until(lambda: are_exclusive(cluster), "GPUs are not seen as they were switched")
        ids = submit(cluster, acknowledged, program, rng)
        modes.start()
        try:
            threading.Event().wait(rng.random() * 0.5)
            deeds[rng.choice(sorted(deeds))]()
            cluster.up()
        finally:
            modes.stop()
        cluster.wait(*ids)
        assert not (cluster.folder / "violations").exists(), (cluster.folder / "violations").read_text()
        assert not list(cluster.folder.glob("lock.*"))
    acknowledged.check()


def are_exclusive(cluster: Cluster) -> bool:
    """Whether the master knows all GPUs in the mode that the jobs ask for: it refuses what no host can ever provide."""
    with cluster.client() as client:
        (host,) = client.hosts()
    return [each.gpu.mode for each in host.gpus] == [ComputeMode.EXCLUSIVE_PROCESS] * 4


def submit(cluster: Cluster, acknowledged: AcknowledgedJobs, program: Path, rng: random.Random) -> list[int]:
    """Forty jobs of one or two GPUs each."""
    jobs, counts = [], []
    for _ in range(40):
        counts.append(rng.choice([1, 1, 2]))
        command = f"sh {program} {rng.random() * 0.1:.3f}"
        request = f"select[ngpus>0] rusage[ngpus_excl_p={counts[-1]}]"
        jobs.append(submission(command, cluster.folder, res_req=request))
    with cluster.client() as client:
        ids = [done.job_id for done in client.submit_many(jobs)]
    acknowledged.expected.update((job_id, ("exit", count)) for job_id, count in zip(ids, counts, strict=True))
    return ids
