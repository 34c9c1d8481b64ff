"""Two private clusters on one machine with real GPUs (played by a stand-in for the driver's library)."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from live_cluster import Cluster

PAIR = "rusage[ngpus_excl_p=2]"


@pytest.fixture(scope="module")
def made(module_cluster: Callable[..., Cluster], driver_folder: Path) -> Callable[[str], Cluster]:
    """Each cluster is made when it is first asked for."""
    # UUIDs of this run alone: the locks on GPUs are the whole machine's.
    uuids = [f"GPU-{os.getpid():08x}-0000-4000-8000-{index:012d}" for index in range(4)]
    # Minors and PCI addresses run against indexes.
    told = "gpu.{0}.uuid={1}\ngpu.{0}.mode=3\ngpu.{0}.minor={2}\ngpu.{0}.bus={3}"
    lines = ["count=4", *(told.format(index, uuid, 3 - index, 9 - index) for index, uuid in enumerate(uuids))]
    (driver_folder / "state").write_text("\n".join(lines) + "\n")
    env = {"LD_LIBRARY_PATH": str(driver_folder), "GSCHED_FAKE_NVML": str(driver_folder / "state")}

    @cache
    def make(name: str) -> Cluster:
        cluster = module_cluster(name=name, **env)
        if name == "two":
            cluster.configure(lsf_conf="GSCHED_GPU_FENCE=N\n")
            cluster.kill(f"agent-{cluster.host}")
            cluster.up()
        return cluster

    return make


@pytest.fixture
def clusters(made: Callable[[str], Cluster]) -> Iterator[list[Cluster]]:
    """Both, and nothing runs on them afterwards."""
    found = [made("one"), made("two")]
    yield found
    for cluster in found:
        cluster.end_jobs()


def environment(cluster: Cluster, job: int) -> dict[str, str]:
    path = cluster.folder / f"env.{job}"
    cluster.until(lambda: path.exists() and path.read_text().endswith("\n"), f"job {job} has not said what it sees")
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def held(cluster: Cluster, requirement: str) -> int:
    code = (
        "import json, os, time\n"
        "open('env.' + os.environ['LSB_JOBID'], 'w').write(json.dumps(dict(os.environ)) + '\\n')\n"
        "time.sleep(600)"
    )
    return cluster.submit("-R", requirement, "python", "-c", code)


@pytest.mark.parametrize("name", [pytest.param("one", marks=pytest.mark.smoke), "two"])
def test_the_gpus_are_the_drivers(made: Callable[[str], Cluster], name: str) -> None:
    cluster = made(name)
    said = cluster.run("elim.gpu", "--once").stdout
    assert said == "4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4\n"
    assert "simulated" not in cluster.run("ghosts", "-l").stdout


def test_two_clusters_never_hand_out_the_same_gpu(clusters: list[Cluster]) -> None:
    one, two = clusters
    jobs = [(one, held(one, PAIR)), (two, held(two, PAIR))]
    seen = [cluster.granted(environment(cluster, job)).split(",") for cluster, job in jobs]
    assert sorted(seen[0] + seen[1]) == ["0", "1", "2", "3"]
    # Each sees that nothing is left, and says so.
    for cluster in clusters:
        cluster.until(lambda c=cluster: "is not offered" in c.run("ghosts", "-l").stdout, "nothing is told")  # type: ignore[misc]
    waiting = [(cluster, held(cluster, PAIR)) for cluster in clusters]
    for cluster, job in waiting:
        assert "ngpus_excl_p" in cluster.why_pending(job)
    first = jobs[0][1]
    one.run("gkill", str(first))
    one.wait(first)
    # The pair is free for either of them: one gets it, and never both.
    granted: list[str] = []

    def somebody_runs() -> bool:
        # RUN a job is from its dispatch on; which of the two has the GPUs, its agent finds out.
        granted[:] = [cluster.folder.name for cluster, job in waiting if cluster.job(job).pid is not None]
        return bool(granted)

    one.until(somebody_runs, "nobody gets the free pair")
    assert len(granted) == 1
    winner = next((cluster, job) for cluster, job in waiting if cluster.folder.name == granted[0])
    assert winner[0].granted(environment(*winner)).split(",") == seen[0]


def test_cuda_shows_the_gpus_of_the_job_where_nvml_counts_otherwise(clusters: list[Cluster]) -> None:
    """NVML's numbers were exported as CUDA's: a job had the GPUs of others. `granted` asks what CUDA shows."""
    for cluster in clusters:
        one, pair = held(cluster, "rusage[ngpus_excl_p=1]"), held(cluster, PAIR)
        for job in (one, pair):
            indexes = cluster.granted(environment(cluster, job))
            assert f"gpus={indexes};" in cluster.run("gjobs", "-l", str(job)).stdout
        cluster.end_jobs()


@pytest.mark.needs_root
def test_the_device_is_that_of_the_uuid_and_not_of_the_index(clusters: list[Cluster], tmp_path: Path) -> None:
    """pains 2: the driver's minors run against its indexes; a job opens the minors of its UUIDs."""
    cluster = clusters[0]
    if not cluster.is_fenced():
        pytest.skip("no fence here: ghosts -l says why")
    for minor in range(4):
        os.mknod(tmp_path / f"nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))
    code = (
        "import errno, os, json\n"
        "def denied(minor):\n"
        f"    try: os.open({str(tmp_path)!r} + f'/nvidia{{minor}}', os.O_RDWR)\n"
        "    except OSError as error: return error.errno == errno.EPERM\n"
        "seen = {**os.environ, 'opened': ','.join(str(minor) for minor in range(4) if not denied(minor))}\n"
        "open('env.' + os.environ['LSB_JOBID'], 'w').write(json.dumps(seen) + '\\n')"
    )
    for requirement in ("rusage[ngpus_excl_p=1]", PAIR, "rusage[ngpus_excl_p=3]"):
        job = cluster.submit("-R", requirement, "python", "-c", code)
        seen = environment(cluster, job)
        minors = {3 - int(index) for index in cluster.granted(seen).split(",")}
        assert {int(minor) for minor in seen["opened"].split(",")} == minors
        cluster.wait(job)


def test_many_jobs_of_two_clusters_are_never_on_one_gpu_at_once(clusters: list[Cluster]) -> None:
    """Each job takes a lock of its own on every GPU it was given; a second holder would be told."""
    log = clusters[0].folder / "overlaps"
    code = (
        "import fcntl, os, sys, time\n"
        "for gpu in os.environ['GSCHED_GPU_UUIDS'].split(','):\n"
        f"    file = open({str(clusters[0].folder)!r} + '/lock.' + gpu, 'w')\n"
        "    try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        f"    except OSError: open({str(log)!r}, 'a').write(gpu + '\\n')\n"
        "    globals()[gpu] = file\n"
        "time.sleep(0.15)"
    )
    jobs = [
        (cluster, cluster.submit("-R", f"rusage[ngpus_excl_p={1 + turn % 2}]", "python", "-c", code))
        for turn in range(6)
        for cluster in clusters
    ]
    for cluster in clusters:
        views = cluster.wait(*[job for owner, job in jobs if owner is cluster])
        assert {view.state for view in views} == {"DONE"}, [re.sub(r"\s+", " ", str(view.result)) for view in views]
    assert not log.exists(), log.read_text()
