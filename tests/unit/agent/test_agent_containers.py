"""The container of an attempt as an agent settles it: mounts, GPUs, name, and what is removed behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gsched.agent.attempts import job_container
from gsched.agent.attempts.job_accounts import Login
from gsched.agent.attempts.order_builder import HostContext, OrderBuilder, Start
from gsched.base.errors import ResourceExhausted
from gsched.dialect.launching.launcher_names import is_launcher
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.run.containers.container import Container
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Order
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

IMAGE = "docker://a/b"
GPUS = (
    HeldGpu(uuid="GPU-b", index=3, claim="ngpus_excl_p", pci_bus_id="0000:03:00.0"),
    HeldGpu(uuid="GPU-a", index=1, claim="ngpus_excl_p", pci_bus_id="0000:01:00.0"),
)


@pytest.fixture(autouse=True)
def cdi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of descriptions of devices: empty."""
    folder = tmp_path / "cdi"
    folder.mkdir()
    monkeypatch.setattr(job_container, "CDI_FOLDERS", (folder,))
    return folder


def order_of(
    folder: Path,
    *,
    runtimes: tuple[str, ...] = ("podman",),
    gpus: tuple[HeldGpu, ...] = (),
    hosts: tuple[str, ...] = ("h",),
    real: bool = True,
    **changes: object,
) -> Order:
    asked = {"command": "train", "user": "u", "queue": "normal", "cwd": "/work/u", "container": IMAGE}
    spec = JobSpec(**asked | changes)  # type: ignore[arg-type]

    async def build() -> Order:
        clock = ManualClock()
        executor = ProcessExecutor(folder, "c", on_started=lambda *_: None, on_ended=lambda *_: None, clock=clock)
        context = HostContext(
            locks_gpus=lambda: real,
            places={},
            container_runtimes=lambda: {name: f"/bin/{name}" for name in runtimes},
            gpu_minors=lambda: {"GPU-a": 0, "GPU-b": 2},
        )
        builder = OrderBuilder("h", "u", executor, clock, context)
        parts = tuple(HostAllocation(host=name, slots=1, gpus=gpus if name == "h" else ()) for name in hosts)
        here = next(part for part in parts if part.host == "h")
        message = agent_pb2.StartAttempt(job_id=7, attempt=2)
        message.store.cluster_id = "0123456789abcdef"
        try:
            return builder.of(Start(message, spec, Allocation(hosts=parts), here, Login()), None, 10.0)
        finally:
            executor.close()

    return asyncio.run(build())


def container_of(folder: Path, **what: object) -> Container:
    found = order_of(folder, **what).container  # type: ignore[arg-type]
    assert found is not None
    return found


def test_it_sees_the_working_directory_its_own_files_and_what_it_asks_for(tmp_path: Path) -> None:
    found = container_of(tmp_path, container_mounts=("/data:/d:ro",))
    own = str(tmp_path / "attempts" / "7.2")
    assert found.mounts == (("/data", "/d", True), ("/work/u", "/work/u", False), (own, own, True))
    assert container_of(tmp_path, container_mounts=("/x:/work/u",)).mounts[0] == ("/x", "/work/u", False)
    assert (found.runtime, found.program, found.image) == ("podman", "/bin/podman", IMAGE)
    assert found.name == "gsched-0123456789ab-h-7.2" and found.holds_main


def test_what_podman_keeps_is_removed_behind_the_job_on_each_host(tmp_path: Path) -> None:
    order = order_of(tmp_path, post_exec="tidy")
    assert order.last[0].command == "tidy"
    assert "rm" in order.last[-1].command and "gsched-0123456789ab-h-7.2" in order.last[-1].command
    part = order_of(tmp_path, post_exec="tidy", hosts=("g", "h"))
    assert part.is_part and len(part.last) == 1 and part.container is not None
    assert order_of(tmp_path, runtimes=("apptainer", "podman")).last == ()


def test_a_job_without_one_has_none(tmp_path: Path) -> None:
    order = order_of(tmp_path, container="")
    assert order.container is None and order.last == ()


def test_where_no_program_is_it_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(ResourceExhausted) as caught:
        order_of(tmp_path, container="/i/a.sif")
    assert caught.value.text == "the host has no program for the job's container (apptainer)"


def test_gpus_are_named_by_their_nodes_and_numbered_anew(tmp_path: Path) -> None:
    order = order_of(tmp_path, gpus=GPUS)
    assert order.container is not None
    nodes = [each for each in order.container.devices if each[-1].isdigit()]
    assert nodes == ["/dev/nvidia2", "/dev/nvidia0"] and order.container.has_gpus
    assert order.environment["CUDA_VISIBLE_DEVICES"] == "0,1", "nothing but the job's own GPUs is there"


def test_gpus_are_named_by_their_descriptions_where_there_are_some(tmp_path: Path, cdi: Path) -> None:
    (cdi / "nvidia.yaml").write_text(
        'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "1"\n- name: GPU-b\n- name: all\n'
    )
    found = container_of(tmp_path, gpus=GPUS)
    assert found.devices == ("nvidia.com/gpu=GPU-b", "nvidia.com/gpu=1")
    (cdi / "nvidia.yaml").unlink()
    (cdi / "other.json").write_text('{"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-a"}]}')
    assert "nvidia.com/gpu=GPU-a" in container_of(tmp_path, gpus=GPUS).devices


def test_a_part_of_a_gpu_needs_a_description(tmp_path: Path, cdi: Path) -> None:
    part = HeldGpu(uuid="MIG-x", index=1, claim="mig_shared", parent="GPU-a", profile="1g.5gb")
    with pytest.raises(ResourceExhausted) as caught:
        order_of(tmp_path, gpus=(part,))
    assert "MIG-x" in caught.value.text
    (cdi / "nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices:\n- name: MIG-x\n")
    assert container_of(tmp_path, gpus=(part,)).devices == ("nvidia.com/gpu=MIG-x",)


def test_simulated_gpus_have_no_devices(tmp_path: Path) -> None:
    found = container_of(tmp_path, gpus=GPUS, real=False)
    assert found.devices == () and not found.has_gpus


@pytest.mark.parametrize(
    ("command", "launches"),
    [
        ("glaunch hostname", True),
        ("/opt/g/bin/glaunch --launch torch python t.py", True),
        ("'/opt/g/bin/blaunch' x", True),
        ("exec glaunch x", True),
        ("python glaunch", False),
        ("glaunches", False),
    ],
)
def test_a_launcher_stays_outside_and_its_tasks_run_inside(tmp_path: Path, command: str, launches: bool) -> None:
    assert is_launcher(command) is launches
    assert container_of(tmp_path, command=command).holds_main is not launches
