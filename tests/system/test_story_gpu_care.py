"""Strangers on GPUs and what jobs leave there, on a machine whose driver is a stand-in: nobody gets such a GPU."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

from gsched.base.coded_text import sentence
from gsched.model.event import JobRequeued, decode_event
from gsched.model.views.view import JobFilter

MIB = 1 << 20
ONE = ("-R", "rusage[ngpus_excl_p=1]")
BOTH = ("-R", "rusage[ngpus_excl_p=2]")
ORPHAN = (
    "import os, signal, sys\n"
    "def end(*_):\n"
    "    open(sys.argv[1], 'a').write(f'gpu.{sys.argv[2]}.procs=\\ngpu.{sys.argv[2]}.used_mib=0\\n')\n"
    "    os._exit(0)\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print(flush=True)\n"
    "while True:\n"
    "    signal.pause()\n"
)
"""Lets its memory go when it is told to end, as the driver would."""


class Machine:
    """Two GPUs in exclusive mode; what is appended to the state file happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.uuids = [f"GPU-{os.getpid():08x}-2222-4000-8000-{index:012d}" for index in range(2)]
        told = "gpu.{0}.uuid={1}\ngpu.{0}.mode=3\ngpu.{0}.mem_mib=81559\ngpu.{0}.reserved_mib=559\n"
        self.state.write_text("count=2\n" + "".join(told.format(*each) for each in enumerate(self.uuids)))

    def now(self, index: int, used_mib: int, *pids: int) -> None:
        """So much is in use there, by these processes in equal parts; by nobody who is seen if there are none."""
        each = f":{used_mib // max(1, len(pids)) * MIB}"
        with self.state.open("a") as state:
            state.write(
                f"gpu.{index}.procs={','.join(f'{pid}{each}' for pid in pids)}\ngpu.{index}.used_mib={used_mib}\n"
            )


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder)


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    return module_cluster(LD_LIBRARY_PATH=str(machine.folder), GSCHED_FAKE_NVML=str(machine.state))


@pytest.fixture
def cluster(shared: Cluster, machine: Machine) -> Iterator[Cluster]:
    """Looks each second at clean GPUs; whatever a test leaves behind goes."""
    yield shared
    for index in range(2):
        machine.now(index, 0)
    shared.end_jobs()
    shared.until(lambda: not problems(shared), "a GPU is not clean again")


@pytest.fixture
def person() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that are no job's."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(words or ("sleep", "600"), stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def notes(cluster: Cluster) -> str:
    """NOTES of ghosts -l."""
    with cluster.client() as client:
        return "; ".join(map(sentence, client.hosts()[0].notes))


def problems(cluster: Cluster) -> list[str]:
    """What is said of GPUs that are not offered."""
    return re.findall(r"is not offered: ([^;]+)", notes(cluster))


def indexes(cluster: Cluster, job: int) -> list[int]:
    allocation = cluster.job(job).allocation
    return [gpu.index for part in allocation.hosts for gpu in part.gpus] if allocation else []


def restarted(cluster: Cluster, name: str) -> None:
    """kill -9 of a daemon; `gsched up` starts it again."""
    cluster.kill(name)
    cluster.up()


@contextlib.contextmanager
def rarely_looking(cluster: Cluster) -> Iterator[None]:
    """The agent looks at its GPUs on its own account only when it starts: what it sees later it has a reason for."""
    path = cluster.conf / "lsf.conf"
    before = path.read_text()
    cluster.configure(lsf_conf="=" + before.replace("GSCHED_GPU_INTERVAL=1\n", "GSCHED_GPU_INTERVAL=3600\n"))
    restarted(cluster, f"agent-{cluster.host}")
    try:
        yield
    finally:
        cluster.configure(lsf_conf="=" + before)


def test_a_small_stranger_on_an_exclusive_gpu(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """One process of 74 MiB made every job fail that came to its GPU; the screen's server is in nobody's way."""
    stranger = person()
    machine.now(0, 74, stranger.pid)
    name = f"foreign({user_of(stranger.pid)},{stranger.pid},74)"
    cluster.until(lambda: problems(cluster) == [name], "the GPU is offered")
    jobs = [cluster.submit(*ONE, "true") for _ in range(3)]
    ended = [cluster.wait(job)[0] for job in jobs]
    assert [(view.state, view.allocation.hosts[0].gpus[0].index) for view in ended] == [("DONE", 1)] * 3
    both = cluster.submit(*BOTH, "true")
    cluster.why_pending(both)
    for words in (("gjobs", "-p"), ("gjobs", "-l")):
        said = cluster.run(*words, str(both)).stdout
        assert f"GPU 0 not offered: {name}" in "".join(line.removeprefix(" " * 21) for line in said.split("\n")), said
    with machine.state.open("a") as state:
        state.write(f"gpu.0.procs=\ngpu.0.graphics={stranger.pid}:{74 * MIB}\n")
    try:
        assert cluster.wait(both)[0].state == "DONE"
    finally:
        with machine.state.open("a") as state:
            state.write("gpu.0.graphics=\n")


def test_a_stranger_between_cycle_and_start(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """pains 4: the job goes back before it has begun and is on another GPU at once; who is in the way is named."""
    with rarely_looking(cluster):
        first = cluster.submit(*ONE, "true")
        (index,) = indexes(cluster, first) or [cluster.wait(first)[0].allocation.hosts[0].gpus[0].index]
        cluster.wait(first)
        stranger = person()
        machine.now(index, 700, stranger.pid)
        job = cluster.submit(*ONE, "sleep", "600")
        cluster.starts(job)
        assert indexes(cluster, job) == [1 - index]
        with cluster.client() as client:
            (history,) = client.history(JobFilter(ids=(job,), user="all"))
        events = [decode_event(record.payload.encode()) for record in history.events]
        (event,) = [each for each in events if isinstance(each, JobRequeued)]
        name = f"foreign({user_of(stranger.pid)},{stranger.pid},700)"
        assert sentence(event.reason) == f"GPU {index} ({machine.uuids[index]}) must not be used: {name}"
        assert event.not_before == 0.0
        assert problems(cluster) == [name]
        both = cluster.submit(*BOTH, "true")
        assert cluster.why_pending(both).endswith(f" free on {cluster.host}, GPU {index} not offered: {name})")
        cluster.run("gkill", str(job))
        cluster.wait(job)
        assert cluster.state(both) == "PEND"
        machine.now(index, 0)
        stranger.kill()
        assert cluster.wait(both)[0].state == "DONE", "the end of the stranger is an event"


def user_of(pid: int) -> str:
    return pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name


def mark_of(cluster: Cluster, job: int) -> str:
    pid = cluster.starts(job).pid
    found: list[str] = []

    def is_there() -> bool:
        pieces = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found[:] = [piece.decode().partition("=")[2] for piece in pieces if piece.startswith(b"GSCHED_ATTEMPT_ID=")]
        return bool(found)

    cluster.until(is_there, "the job has no mark")
    return found[0]


def test_an_orphan_is_ended_before_its_gpu_is_anybody_elses(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """pains 1: what outlives a job is ended, and the next job does not begin on that GPU before."""
    job = cluster.submit(*ONE, "sleep", "600")
    mark = mark_of(cluster, job)
    (index,) = indexes(cluster, job)
    orphan = person(
        *(sys.executable, "-c", ORPHAN, str(machine.state), str(index)), env={**os.environ, "GSCHED_ATTEMPT_ID": mark}
    )
    assert orphan.stdout is not None and orphan.stdout.readline()
    machine.now(index, 700, orphan.pid)
    held = cluster.submit(*BOTH, "true")
    cluster.why_pending(held)
    cluster.run("gkill", "-s", "KILL", str(job))
    after = cluster.wait(held)[0]
    assert orphan.poll() == 0, "it was told to end, and did before the other job began"
    assert after.state == "DONE" and after.attempt == 1
    assert not any("not clean" in note for note in map(sentence, cluster.job(job).notes))


def test_memory_that_stays_keeps_the_gpu_until_it_goes(cluster: Cluster, machine: Machine) -> None:
    """pains 1: dirty, also for an agent and a master that were killed meanwhile; then clean without anybody's doing."""
    job = cluster.submit(*ONE, "sleep", "600")
    pid = cluster.starts(job).pid
    assert pid is not None
    (index,) = indexes(cluster, job)
    machine.now(index, 5000, pid)
    cluster.until(lambda: str(pid) in cluster.run("ghosts", "-gpu", "-l").stdout, "its memory is not seen")
    machine.now(index, 5000)
    cluster.run("gkill", str(job))
    assert cluster.wait(job)[0].state == "EXIT"
    text = f"GPU {index} ({machine.uuids[index]}) of {cluster.host} is not clean after run 1: dirty(?,5000)"
    assert any(note.startswith(text) for note in map(sentence, cluster.job(job).notes))
    assert problems(cluster) == ["dirty(?,5000)"]
    both = cluster.submit(*BOTH, "true")
    for daemon in (f"agent-{cluster.host}", "master"):
        restarted(cluster, daemon)
        cluster.until(lambda: problems(cluster) == ["dirty(?,5000)"], "it is forgotten")
        assert cluster.state(both) == "PEND"
    assert f"ERROR of GPU {index}: dirty(?,5000)" in cluster.run("ghosts", "-gpu", "-l").stdout
    machine.now(index, 0)
    assert cluster.wait(both)[0].state == "DONE"
    assert problems(cluster) == []


def test_an_agent_that_is_killed_while_it_waits_goes_on_waiting(cluster: Cluster, machine: Machine) -> None:
    job = cluster.submit(*ONE, "sleep", "600")
    cluster.starts(job)
    (index,) = indexes(cluster, job)
    machine.now(index, 5000)
    cluster.run("gkill", "-s", "KILL", str(job))
    cluster.until(lambda: "not gone from its GPUs" in cluster.logs(), "the agent has not looked")
    assert cluster.state(job) == "RUN"
    restarted(cluster, f"agent-{cluster.host}")
    other = cluster.submit(*BOTH, "true")
    machine.now(index, 0)
    assert [view.state for view in cluster.wait(job, other)] == ["EXIT", "DONE"]


def test_an_orphan_of_a_job_that_ended_while_no_agent_was_there_is_ended(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """pains 1: an agent that has just started knows no GPUs yet, and tells no end before it has looked at them."""
    job = cluster.submit(*ONE, "sleep", "600")
    mark, pid = mark_of(cluster, job), cluster.job(job).pid
    assert pid is not None
    (index,) = indexes(cluster, job)
    orphan = person(
        *(sys.executable, "-c", ORPHAN, str(machine.state), str(index)), env={**os.environ, "GSCHED_ATTEMPT_ID": mark}
    )
    assert orphan.stdout is not None and orphan.stdout.readline()
    machine.now(index, 700, orphan.pid)
    held = cluster.submit(*BOTH, "true")
    cluster.kill(f"agent-{cluster.host}")
    os.kill(pid, signal.SIGKILL)
    cluster.until(lambda: not Path(f"/proc/{pid}").exists(), "the job has not ended")
    cluster.up()
    assert cluster.wait(job)[0].state == "EXIT"
    assert orphan.poll() == 0, "it was told to end, and did before the end of the job was told"
    assert cluster.wait(held)[0].state == "DONE"


def test_people_beside_a_job_are_told_of_and_under_warn_nothing_is_closed(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    job = cluster.submit(*ONE, "sleep", "600")
    cluster.starts(job)
    (index,) = indexes(cluster, job)
    stranger = person()
    machine.now(index, 700, stranger.pid)
    text = f"A foreign process is on GPU {index} ({machine.uuids[index]}) of {cluster.host}, which run 1 holds"
    cluster.until(
        lambda: any(note.startswith(text) for note in map(sentence, cluster.job(job).notes)), "nobody is told"
    )
    assert cluster.state(job) == "RUN"
    before = (cluster.conf / "lsb.params").read_text()
    cluster.configure(lsb_params="=" + before.replace("End Parameters", "GPU_FOREIGN = warn\nEnd Parameters"))
    try:
        cluster.until(lambda: problems(cluster) == [], "it is still closed")
        who = f"{stranger.pid} of {user_of(stranger.pid)} (700 MiB)"
        cluster.until(lambda: f"is used by processes of no job: {who}" in notes(cluster), "nobody is told")
        cluster.run("gkill", str(job))
        assert cluster.wait(cluster.submit(*BOTH, "true"))[0].state == "DONE"
    finally:
        cluster.configure(lsb_params="=" + before)


@pytest.mark.skipif(os.getuid() != 0, reason="a process of another person takes root to start")
def test_kill_after_ends_persons_and_spares_services(
    cluster: Cluster, machine: Machine, person: Callable[..., subprocess.Popen[bytes]]
) -> None:
    some_one, service = person(user=4242), person()
    before = (cluster.conf / "lsb.params").read_text()
    cluster.configure(lsb_params="=" + before.replace("End Parameters", "GPU_FOREIGN = kill-after:1\nEnd Parameters"))
    try:
        machine.now(0, 1400, some_one.pid, service.pid)
        some_one.wait(PATIENCE_S)
        machine.now(0, 700, service.pid)
        cluster.until(lambda: "is not ended: it is root's or a service's" in cluster.logs(), "it is not said")
        assert (
            f"process {some_one.pid} (sleep) of 4242 on GPU 0 ({machine.uuids[0]}) belongs to no job and gets SIGTERM"
            in cluster.logs()
        )
        assert service.poll() is None
    finally:
        cluster.configure(lsb_params="=" + before)
