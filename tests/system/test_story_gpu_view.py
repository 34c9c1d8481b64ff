"""Who is on which GPU, on a machine whose device minors run against its indices (a stand-in for the driver)."""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

from gsched.base.coded_text import sentence

MIB = 1 << 20


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    """The folder of the library and of its state file."""
    lines = ["count=4", "driver=570.86.10"]
    for index in range(4):
        lines += [f"gpu.{index}.uuid={uuid_of(index)}", f"gpu.{index}.minor={3 - index}", f"gpu.{index}.mode=3"]
        lines += [f"gpu.{index}.mem_mib=81559", f"gpu.{index}.reserved_mib=559"]
    (driver_folder / "state").write_text("\n".join(lines) + "\n")
    return driver_folder


def uuid_of(index: int) -> str:
    """Of this run alone: the locks on GPUs are the whole machine's."""
    return f"GPU-{os.getpid():08x}-1111-4000-8000-{index:012d}"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    return module_cluster(LD_LIBRARY_PATH=str(machine), GSCHED_FAKE_NVML=str(machine / "state"))


def rows(cluster: Cluster, section: str) -> list[list[str]]:
    """The rows of one section of ghosts -gpu -l."""
    said = cluster.run("ghosts", "-gpu", "-l").stdout
    return [line.split() for line in said.partition(f"{section}\n")[2].partition("\n\n")[0].splitlines()[1:]]


def test_uuid_index_and_minor_are_never_confused(cluster: Cluster) -> None:
    shown = {row[0]: row for row in rows(cluster, "STATIC ATTRIBUTES")}
    for index in range(4):
        assert shown[str(index)][-3:] == [f"/dev/nvidia{3 - index}", uuid_of(index), "570.86.10"]
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    jobs = [
        cluster.submit("-R", "rusage[ngpus_excl_p=1]", "-o", f"env.{turn}", "python", "-c", code) for turn in (0, 1)
    ]
    for turn, view in enumerate(cluster.wait(*jobs)):
        assert view.allocation is not None
        (held,) = view.allocation.hosts[0].gpus
        said = json.loads(printed(cluster.folder / f"env.{turn}"))
        assert said["GSCHED_GPU_UUIDS"] == held.uuid == uuid_of(held.index)


def test_who_is_on_a_gpu(cluster: Cluster, machine: Path) -> None:
    job = cluster.submit("-R", "rusage[ngpus_excl_p=1]", "sleep", "600")
    view = cluster.starts(job)
    assert view.allocation is not None and view.pid is not None
    index = view.allocation.hosts[0].gpus[0].index
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs={view.pid}:{500 * MIB}\ngpu.{index}.used_mib=500\n")
        state.write(f"gpu.3.procs={os.getpid()}:{700 * MIB},999999999\ngpu.3.used_mib=800\n")
    me = getpass.getuser()
    program = Path("/proc/self/cmdline").read_text().partition("\0")[0]
    name = program if len(program) <= 40 else "..." + program[-37:]
    wanted = [
        [str(index), str(view.pid), me, "500M", str(job), "C", "sleep"],
        ["3", str(os.getpid()), me, "700M", "foreign", "C", name],
        ["3", "999999999", "-", "-", "foreign", "C", "-"],
    ]
    cluster.until(lambda: rows(cluster, "GPU PROCESSES") == wanted, "the processes are not shown")
    free = {row[0]: row[-4] for row in rows(cluster, "DYNAMIC ATTRIBUTES")}
    assert (free[str(index)], free["3"]) == ("79.1G", "78.3G")  # 81559 - 559 MiB; less 800 of a stranger
    assert next(row for row in rows(cluster, "GPU JOB INFORMATION") if row[0] == str(index))[2] == str(job)
    # What is really free counts: three GPUs have that much only when the stranger has gone.
    wide = cluster.submit("-gpu", "num=3:mode=exclusive_process:gmem=80300M", "true")
    cluster.why_pending(wide)
    with (machine / "state").open("a") as state:
        state.write("gpu.3.procs=\ngpu.3.used_mib=0\n")
    assert cluster.wait(wide)[0].state == "DONE"
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs=\ngpu.{index}.used_mib=0\n")
    cluster.run("gkill", str(job))
    cluster.wait(job)


def test_who_holds_which_gpu_on_every_host(module_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """pains 26: GPU, job, user, processes, utilisation and memory of all hosts, by one command."""
    inventory = tmp_path / "gpus.json"
    inventory.write_text(json.dumps([{"index": index, "memory_mib": 81559, "processes": []} for index in range(2)]))
    cluster = module_cluster("--hosts", "left,right", "--sim-gpus", str(inventory), name="hosts")
    jobs = {
        host: cluster.submit("-m", host, "-gpu", "num=1:mode=shared:j_exclusive=yes", "sleep", "600")
        for host in ("left", "right")
    }
    wanted = []
    for host, job in jobs.items():
        view = cluster.starts(job)
        assert view.allocation is not None and view.pid is not None
        index = view.allocation.hosts[0].gpus[0].index
        path = cluster.folder / "gpus" / f"{host}.json"
        gpus = json.loads(path.read_text())
        gpus[index] |= {"used_mib": 500 + job, "utilization_percent": 90 + job}
        gpus[index]["processes"] = [{"pid": view.pid, "user": getpass.getuser(), "used_mib": 500 + job}]
        path.write_text(json.dumps(gpus))
        wanted.append((index, str(view.pid), f"{500 + job}M", f"{90 + job}%", str(job)))

    def are_shown() -> bool:
        parts = cluster.run("ghosts", "-gpu", "-l").stdout.split("HOST: ")[1:]
        return [part.split()[0] for part in parts] == list(jobs) and all(
            re.search(rf"^{index} .* {used} .* {busy} ", part, re.MULTILINE)
            and re.search(rf"^{index} +Y +{job} +- +-$", part, re.MULTILINE)
            and re.search(rf"^{index} +{pid} +{getpass.getuser()} +{used} +{job} +- +-$", part, re.MULTILINE)
            and part.partition("GPU PROCESSES\n")[2].strip().count("\n") == 1
            for part, (index, pid, used, busy, job) in zip(parts, wanted, strict=True)
        )

    cluster.until(are_shown, f"{wanted} are not shown")


@pytest.mark.nightly
def test_who_holds_a_gpu_of_a_job_on_another_of_its_hosts(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """pains 29, of a job on two hosts: it fails on the first because a GPU of the second is somebody else's."""
    inventory = tmp_path / "gpus.json"
    inventory.write_text(json.dumps([{"index": 0, "compute_mode": "exclusive_process", "processes": []}]))
    cluster = make_cluster("--hosts", "left,right", "--sim-gpus", str(inventory))
    params = next((cluster.folder / "conf").rglob("lsb.params"))
    text = params.read_text()
    assert text.count("Begin Parameters") == 1
    params.write_text(text.replace("Begin Parameters", "Begin Parameters\nGPU_FOREIGN = warn", 1))
    cluster.run("gadmin", "reconfig")
    wide = ("-n", "2", "-m", "left! right", "-R", "span[ptile=1] rusage[ngpus_excl_p=1/host]")
    job = cluster.submit(*wide, "while [ ! -e busy ]; do sleep 0.02; done; exit 46")
    cluster.starts(job)
    path = cluster.folder / "gpus" / "right.json"
    (gpu,) = json.loads(path.read_text())
    path.write_text(json.dumps([gpu | {"processes": [{"pid": 999_999_999, "user": "eve", "used_mib": 74}]}]))
    (cluster.folder / "busy").touch()
    assert cluster.wait(job)[0].state == "EXIT"
    said = "Run 1 on host right: device busy: GPU 0 ("
    cluster.until(lambda: said in cluster.run("ghist", "-l", "-UF", str(job)).stdout, "nobody says who has the GPU")
    shown = cluster.run("gjobs", "-l", "-UF", str(job)).stdout
    assert said in shown and "is held by pid 999999999 of eve (74 MiB)" in shown
    next_job = cluster.submit("-m", "right", "-R", "rusage[ngpus_excl_p=1]", "true")
    cluster.until(
        lambda: "busy(eve,999999999,74)" in " ".join(cluster.why_pending(next_job).split()), "the GPU is not closed"
    )
    path.write_text(json.dumps([gpu]))
    assert cluster.wait(next_job)[0].state == "DONE"


def test_a_job_beyond_its_gmem_is_told_so(cluster: Cluster, machine: Path) -> None:
    """pains 15."""
    job = cluster.submit("-gpu", "num=1:mode=exclusive_process:gmem=1G", "sleep", "600")
    view = cluster.starts(job)
    assert view.allocation is not None and view.pid is not None
    index = view.allocation.hosts[0].gpus[0].index
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs={view.pid}:{2000 * MIB}\ngpu.{index}.used_mib=2000\n")
    text = f"Run 1 uses more memory of GPU {index} ({uuid_of(index)})"
    cluster.until(
        lambda: any(note.startswith(text) for note in map(sentence, cluster.job(job).notes)), "nobody is told"
    )
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs=\ngpu.{index}.used_mib=0\n")
    cluster.run("gkill", str(job))
    cluster.wait(job)


ESCAPE = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        line = 'echo $$ > escaped.new; mv escaped.new escaped; exec sleep 600'\n"
    "        os.execve('/bin/sh', ['sh', '-c', line], {'PATH': '/bin:/usr/bin'})\n"
    "    os._exit(0)\n"
    "time.sleep(600)\n"
)


def test_a_process_on_a_gpu_that_its_job_does_not_hold_has_escaped(cluster: Cluster, machine: Path) -> None:
    """pains 3, on hosts with and without a fence: what left its parents and its environment behind is the job's."""
    pid_file = cluster.folder / "escaped"
    job = cluster.submit("-R", "rusage[ngpus_excl_p=1]", "python", "-c", ESCAPE)
    view = cluster.starts(job)
    assert view.allocation is not None
    index = (view.allocation.hosts[0].gpus[0].index + 1) % 4
    cluster.until(pid_file.exists, "nothing is forked")
    pid = int(pid_file.read_text())
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs={pid}:{500 * MIB}\ngpu.{index}.used_mib=500\n")
    where = f"uses GPU {index} ({uuid_of(index)}) on {cluster.host}, which is not its own"
    text = f"ESCAPED: of run 1 process {pid} of user {getpass.getuser()} {where}"
    cluster.until(lambda: text in map(sentence, cluster.job(job).notes), "nobody is told")
    for command in ("gjobs", "ghist"):
        assert text in re.sub(r"\n {21}", "", cluster.run(command, "-l", str(job)).stdout)
    row = [str(index), str(pid), getpass.getuser(), "500M", str(job), "ESCAPED", "C", "sleep"]
    assert row in rows(cluster, "GPU PROCESSES")
    # Whoever needs all GPUs that the job does not hold waits until it has gone from there.
    wide = cluster.submit("-R", "rusage[ngpus_excl_p=3]", "true")
    cluster.why_pending(wide)
    with (machine / "state").open("a") as state:
        state.write(f"gpu.{index}.procs=\ngpu.{index}.used_mib=0\n")
    assert cluster.wait(wide)[0].state == "DONE"
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert not Path(f"/proc/{pid}").exists()
