"""Parts of GPUs by MIG: seen, asked for, given out, and laid out anew while the cluster runs (a stand-in for NVML)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

from gsched.base.coded_text import sentence

ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def gpu_uuid(index: int) -> str:
    """Of this run alone: the locks on GPUs are the whole machine's."""
    return f"GPU-{os.getpid():08x}-2222-4000-8000-{index:012d}"


def part_uuid(place: int, profile: str) -> str:
    return f"MIG-{os.getpid():08x}-{place}-{profile}"


def laid(index: int, *profiles: str) -> str:
    """The lines that lay out a GPU like this, whatever it was before."""
    lines = [f"gpu.{index}.mig_mode={int(bool(profiles))}"]
    for place in range(3):
        key = f"gpu.{index}.mig.{place}"
        if place < len(profiles):
            lines += [f"{key}.uuid={part_uuid(place, profiles[place])}", f"{key}.gi={place}", f"{key}.ci=0"]
            lines += [f"{key}.name=NVIDIA A100-SXM4-40GB MIG {profiles[place]}", f"{key}.mem_mib=4864"]
        else:
            lines.append(f"{key}.gi=-1")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    """The state file: GPU 0 is whole, GPU 1 is split."""
    lines = ["count=2", "driver=570.86.10"]
    for index in range(2):
        lines += [f"gpu.{index}.uuid={gpu_uuid(index)}", f"gpu.{index}.minor={index}", f"gpu.{index}.mode=0"]
        lines += [f"gpu.{index}.name=NVIDIA A100-SXM4-40GB", f"gpu.{index}.mem_mib=40960"]
    (driver_folder / "state").write_text("\n".join(lines) + "\n" + laid(0) + laid(1, "3g.20gb", "1g.5gb"))
    return driver_folder / "state"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    return module_cluster(LD_LIBRARY_PATH=str(machine.parent), GSCHED_FAKE_NVML=str(machine))


@pytest.fixture(autouse=True)
def all_free(cluster: Cluster, machine: Path) -> Iterator[None]:
    yield
    cluster.end_jobs()
    relay(cluster, machine, 0)
    relay(cluster, machine, 1, "3g.20gb", "1g.5gb")


def relay(cluster: Cluster, machine: Path, index: int, *profiles: str) -> None:
    """Lay the GPU out anew and wait until the master offers what is there now."""
    with machine.open("a") as state:
        state.write(laid(index, *profiles))
    wanted = {part_uuid(*each) for each in enumerate(profiles)}

    def is_seen() -> bool:
        with cluster.client() as client:
            (gpu,) = [each.gpu for host in client.hosts() for each in host.gpus if each.gpu.index == index]
        return {part.uuid for part in gpu.mig_devices} == wanted and not gpu.problem

    cluster.until(is_seen, f"the layout {profiles} of GPU {index} is not offered")


def parts(cluster: Cluster) -> list[list[str]]:
    """The rows of MIG DEVICES of ghosts -gpu -l."""
    said = cluster.run("ghosts", "-gpu", "-l").stdout
    return [line.split() for line in said.partition("MIG DEVICES\n")[2].partition("\n\n")[0].splitlines()[1:]]


def test_a_job_gets_the_part_that_it_asks_for(cluster: Cluster) -> None:
    name = part_uuid(1, "1g.5gb")
    job = cluster.submit("-gpu", "num=1:mig=1", "-o", "env", "python", "-c", ENVIRONMENT)
    (view,) = cluster.wait(job)
    said = json.loads(printed(cluster.folder / "env"))
    assert said["CUDA_VISIBLE_DEVICES"] == said["GSCHED_GPU_UUIDS"] == name
    assert view.messages[0].text.startswith(f"{cluster.host}:gpus=1;"), "LSF posts the GPU's number"
    running = cluster.submit("-gpu", "num=1:mig=3:j_exclusive=yes", "sleep", "600")
    cluster.starts(running)
    assert parts(cluster) == [
        ["1", "3g.20gb", "0", "0", "4.8G", "Y", str(running), "-", part_uuid(0, "3g.20gb")],
        ["1", "1g.5gb", "1", "0", "4.8G", "-", "-", "-", name],
    ]
    (row,) = [
        line.split() for line in cluster.run("gjobs", "-l", "-gpu", str(running)).stdout.splitlines() if "-/3" in line
    ]
    assert row[:6] == [cluster.host, "0", "1", "-/3", "-/3", "A100_SXM4_40"] and row[6] == "4.8G"
    assert cluster.run("ghosts", "-gpu", "-noheader").stdout.splitlines()[1].split()[-5:-1] == ["0G", "1", "1", "0"]
    assert "1 split by MIG" in cluster.run("gadmin", "frag").stdout


def test_a_split_gpu_is_never_given_as_a_whole(cluster: Cluster) -> None:
    whole = cluster.submit("-gpu", "num=1:j_exclusive=yes", "sleep", "600")
    view = cluster.starts(whole)
    assert view.allocation is not None and view.allocation.hosts[0].gpus[0].uuid == gpu_uuid(0)
    for asked in ("num=1:j_exclusive=yes", "num=3:mig=1", "num=1:mig=7"):
        waiting = cluster.submit("-gpu", asked, "true")
        assert "ngpus_physical" in cluster.why_pending(waiting)


def test_pains_23_a_changed_layout_closes_one_gpu_and_restarts_nothing(cluster: Cluster, machine: Path) -> None:
    """pains 23."""
    agent, master = cluster.pid(f"agent-{cluster.host}"), cluster.pid("master")
    waiting = cluster.submit("-gpu", "num=1:mig=7", "true")
    cluster.why_pending(waiting)
    relay(cluster, machine, 1, "7g.40gb")
    assert cluster.wait(waiting)[0].state == "DONE"
    # A job whose part goes below it: its GPU is closed until it has ended, the other one stays open.
    holder = cluster.submit("-gpu", "num=1:mig=7", "sleep", "600")
    cluster.starts(holder)
    with machine.open("a") as state:
        state.write(laid(1, "1g.5gb"))
    lost = f"its part {part_uuid(0, '7g.40gb')} (7g.40gb) of GPU 1 ({gpu_uuid(1)}) on {cluster.host} is gone"
    cluster.until(lambda: any(lost in note for note in map(sentence, cluster.job(holder).notes)), "the job is not told")
    assert lost in cluster.run("ghist", "-l", str(holder)).stdout.replace("\n                     ", "")
    late = cluster.submit("-gpu", "num=1:mig=1", "true")
    assert cluster.wait(cluster.submit("-gpu", "num=1", "true"))[0].state == "DONE"
    cluster.why_pending(late)
    closed = f"GPU 1 ({gpu_uuid(1)}) is not offered: MIG was changed below job {holder}, which holds its part"
    assert closed.replace(" ", "") in "".join(cluster.run("ghosts", "-l").stdout.split())
    cluster.run("gkill", str(holder))
    assert cluster.wait(late)[0].state == "DONE"
    assert (cluster.pid(f"agent-{cluster.host}"), cluster.pid("master")) == (agent, master)


LOOK = "for n in 0 1; do { : < nvidia$n; } 2>&1 | grep -q 'not permitted' || echo $n; done; echo $CUDA_VISIBLE_DEVICES"
"""Prints the minors of the devices that it may open: no driver serves them, but that is another error."""


@pytest.mark.needs_root
def test_a_job_on_a_part_opens_that_gpu_alone(cluster: Cluster) -> None:
    if not cluster.is_fenced():
        pytest.skip(cluster.run("ghosts", "-l").stdout.partition("(no fence: ")[2].partition(")")[0])
    for minor in range(2):
        try:
            os.mknod(cluster.folder / f"nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
    job = cluster.submit("-gpu", "num=2:mig=1", "-o", "looked", LOOK)
    assert cluster.why_pending(job).startswith("Job's requirements for reserving resource (ngpus_physical)")
    cluster.run("gmod", "-gpu", "num=1:mig=1", str(job))
    cluster.wait(job)
    assert printed(cluster.folder / "looked").split() == ["1", part_uuid(1, "1g.5gb")]
