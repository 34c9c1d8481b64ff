"""The words that run a program in a container, and whom of a job in one a signal reaches."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from gsched.run.containers import container_processes, container_words
from gsched.run.containers.container import Container
from gsched.run.containers.container_processes import SignalReach, main_of, of_job
from gsched.run.containers.container_words import contained, image_path, look_for, of_registry, removal
from gsched.run.order import Order, read_order, written_order
from gsched.run.processes.process_tree import Process

PODMAN = Container(
    runtime="podman",
    program="/usr/bin/podman",
    image="docker://a/b:1",
    name="gsched-c-h-1.1",
    mounts=(("/home/ann/run", "/home/ann/run", False), ("/data", "/d", True)),
    devices=("nvidia.com/gpu=GPU-1",),
    has_gpus=True,
    user=(1000, 100),
)
APPTAINER = msgspec.structs.replace(PODMAN, runtime="apptainer", program="/usr/bin/apptainer", image="/i/a.sif")
ENVIRONMENT = {"A": "secret", "PATH": "/x", "HOME": "/home/ann", "BASH_FUNC_f%%": "() { :; }", "CONDA_EXE": "/c"}


def words_of(container: Container, **more: object) -> list[str]:
    return contained(container, ["sh", "-c", "true"], ENVIRONMENT, "/home/ann/run", **more)


def after(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_podman_runs_it_in_the_jobs_own_group_as_its_user() -> None:
    words = words_of(PODMAN)
    assert words[0] == "/usr/bin/podman" and words[words.index("run")] == "run"
    assert {"--cgroups=disabled", "--user=1000:100", "--userns=keep-id", "--network=host", "--rm"} <= set(words)
    assert after(words, "--volume") == ["/home/ann/run:/home/ann/run", "/data:/d:ro"]
    assert after(words, "--device") == ["nvidia.com/gpu=GPU-1"] and after(words, "--workdir") == ["/home/ann/run"]
    assert words[-4:] == ["docker.io/a/b:1", "sh", "-c", "true"] and "--tty" not in words
    assert after(words, "--name") == ["gsched-c-h-1.1"]


def test_no_value_of_a_variable_is_among_the_words() -> None:
    words = words_of(PODMAN)
    assert after(words, "--env") == ["NVIDIA_VISIBLE_DEVICES=void", "A", "LS_JOBPID", "LSB_JOBRES_PID"]
    assert "secret" not in " ".join(words)
    home = msgspec.structs.replace(PODMAN, mounts=(("/home/ann", "/home/ann", False),))
    assert "HOME" in after(words_of(home), "--env")


def test_a_task_has_a_container_and_a_terminal_of_its_own() -> None:
    words = words_of(PODMAN, has_terminal=True, task="t7")
    assert after(words, "--name") == ["gsched-c-h-1.1-t7"] and "--tty" in words
    assert after(words, "--label") == after(words_of(PODMAN), "--label"), "they are removed together"


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("docker://ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("docker://pytorch/pytorch", "docker.io/pytorch/pytorch"),
        ("docker://nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io/nvidia/pytorch:24.01-py3"),
        ("docker://localhost/small:1", "localhost/small:1"),
        ("docker://host:5000/a", "host:5000/a"),
        ("oci-archive:/i/a.tar", "oci-archive:/i/a.tar"),
    ],
)
def test_an_image_that_the_host_has_is_not_asked_for_again(image: str, name: str) -> None:
    assert of_registry(image) == name


@pytest.mark.parametrize(
    ("image", "path"),
    [
        ("docker://a/my-archive:1", ""),
        ("/i/a.sif", "/i/a.sif"),
        ("/i/folder", "/i/folder"),
        ("oci-archive:/i/a.tar", "/i/a.tar"),
        ("docker-archive:/i/oci-archive:a", "/i/oci-archive:a"),
        ("docker-archive:/i/a.tar:name:tag", "/i/a.tar:name:tag"),
    ],
)
def test_an_image_is_a_file_or_comes_from_a_registry(image: str, path: str) -> None:
    assert image_path(image) == path


def test_an_archive_may_hold_several_images(tmp_path: Path) -> None:
    for name in ("a.tar", "b:1.tar"):
        (tmp_path / name).touch()
    for image in ("docker-archive:{}/a.tar:name:tag", "oci-archive:{}/a.tar", "oci-archive:{}/b:1.tar", "docker://a:1"):
        look_for(image.format(tmp_path))
    for image in ("docker-archive:{}/c.tar:name:tag", "{}/a.tar:name", "oci-archive:{}/b.tar"):
        with pytest.raises(FileNotFoundError):
            look_for(image.format(tmp_path))


def test_root_is_not_mapped() -> None:
    words = words_of(msgspec.structs.replace(PODMAN, user=(0, 0)))
    assert "--user=0:0" in words and "--userns=keep-id" not in words


def test_containers_of_one_host_have_its_name_and_its_shared_memory() -> None:
    """NCCL takes them for one host by these, and by the boot id, which is in /proc."""
    words = words_of(PODMAN)
    assert "--uts=host" in words and not [word for word in words if word.startswith("--hostname")]
    assert "--ipc=host" in words or "--volume=/dev/shm:/dev/shm" in words
    apptainer = words_of(APPTAINER)
    assert not {"--uts", "--hostname", "--contain", "--containall", "-C"} & set(apptainer), "it has /dev/shm as it is"


def test_a_folder_is_the_root_of_a_container_that_may_write_beside_it() -> None:
    words = words_of(msgspec.structs.replace(PODMAN, image="/images/train"))
    assert after(words, "--rootfs") == ["/images/train:O"] and words[-3:] == ["sh", "-c", "true"]


def test_apptainer() -> None:
    words = words_of(APPTAINER)
    assert words[:5] == ["/usr/bin/apptainer", "exec", "--pid", "--no-mount", "home,cwd,tmp"] and "--nv" in words
    assert after(words, "--scratch") == ["/tmp", "/var/tmp"]
    assert after(words, "--bind") == ["/home/ann/run:/home/ann/run", "/data:/d:ro"]
    assert words[-6:] == ["--pwd", "/home/ann/run", "/i/a.sif", "sh", "-c", "true"]
    assert "--nv" not in words_of(msgspec.structs.replace(APPTAINER, has_gpus=False))
    assert removal(APPTAINER) == "" and "label=gsched.attempt=gsched-c-h-1.1" in removal(PODMAN)


def test_the_removal_of_what_is_left_has_an_end_and_takes_no_options_from_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's GPUs are free only behind it."""
    monkeypatch.setattr(container_words, "REMOVAL_S", 0.2)
    podman = tmp_path / "podman"
    podman.write_text(
        f'#!/bin/sh\ncase "$2" in ps) echo --all;; *) echo "$@" > {tmp_path}/said; exec sleep 1000;; esac\n'
    )
    podman.chmod(0o755)
    line = removal(msgspec.structs.replace(PODMAN, program=str(podman)))
    subprocess.run(["/bin/sh", "-c", line], check=False, timeout=60)
    assert (tmp_path / "said").read_text().split()[-2:] == ["--", "--all"]


def test_an_order_keeps_its_container() -> None:
    order = Order(job_id=1, attempt=1, command="true", container=PODMAN)
    assert read_order(written_order(order)).container == PODMAN
    assert read_order(written_order(msgspec.structs.replace(order, container=None))).container is None


def process(pid: int, name: str, start: int = 1, ppid: int = 1) -> Process:
    return Process(pid, f"{pid} ({name}) S {ppid} {pid} {pid} 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0".encode())


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Processes that have an image's files."""
    found: set[int] = set()
    monkeypatch.setattr(container_processes, "_has_hosts_files", lambda pid: pid not in found)
    return found


def test_a_signal_is_for_what_runs_inside_alone(inside: set[int]) -> None:
    inside |= {13, 14}
    tree = [process(10, "podman"), process(11, "conmon", 2), process(13, "python", 3), process(14, "conmon", 4)]
    pids = [each.pid for each in SignalReach(is_contained=True).meant(tree, signal.SIGUSR1)]
    assert pids == [13, 14], "a program of that name inside is the job's own"
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
        assert len(SignalReach(is_contained=True).meant(tree, number)) == 4
    assert len(SignalReach(is_contained=False).meant(tree, signal.SIGUSR1)) == 4
    assert main_of(tree, 10, is_contained=True) == 13 and main_of(tree, 10, is_contained=False) == 10


def test_what_held_a_job_that_is_over_is_let_end(inside: set[int]) -> None:
    """Its exit code would be lost."""
    reach, holding = SignalReach(is_contained=True), [process(10, "podman"), process(11, "conmon", 2)]
    assert reach.meant(holding, signal.SIGINT) == holding
    inside.add(12)
    assert [each.pid for each in reach.meant([*holding, process(12, "sh", 3)], signal.SIGINT)] == [12]
    assert reach.meant(holding, signal.SIGINT) == []


def test_while_the_image_is_fetched_a_signal_is_for_who_fetches_it(inside: set[int]) -> None:
    tree = [process(10, "podman")]
    assert SignalReach(is_contained=True).meant(tree, signal.SIGTERM) == tree and of_job(tree) == []
    assert main_of(tree, 10, is_contained=True) == 10


def test_who_starts_tasks_outside_hears_signals_too(inside: set[int]) -> None:
    inside.add(12)
    tree = [process(10, "glaunch"), process(11, "podman", 2), process(12, "python", 3)]
    assert [each.pid for each in SignalReach(is_contained=True).meant(tree, signal.SIGTERM)] == [10, 12]
    assert main_of(tree, 10, is_contained=True) == 10


def test_what_holds_a_container_has_the_hosts_files() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert container_processes._has_hosts_files(child.pid)
    finally:
        child.kill()
        child.wait()


def test_a_job_runs_by_the_program_of_its_container(on_host, tmp_path: Path) -> None:
    program = tmp_path / "apptainer"
    program.write_text('#!/bin/sh\nwhile [ "$1" != image ]; do shift; done; shift\necho held; exec "$@"\n')
    program.chmod(0o755)
    container = Container(runtime="apptainer", program=str(program), image="image", name="n")

    async def scenario(host):
        result = await host.run("echo inside; exit 4", container=container, output_file="out")
        assert (host.root / "out").read_text() == "held\ninside\n" and result.exit_code == 4

    on_host(scenario)


def test_the_program_is_let_tidy_up_and_is_not_told_as_left_running(on_host, tmp_path: Path) -> None:
    (program := tmp_path / "podman").write_text(
        '#!/bin/sh\nwhile [ "$1" != image ]; do shift; done; shift\n'
        f'({tmp_path}/conmon 0.3; echo tidy > {tmp_path}/tidy) & exec "$@"\n'
    )
    (tmp_path / "conmon").symlink_to("/bin/sleep")
    program.chmod(0o755)
    container = Container(runtime="podman", program=str(program), image="image", name="n")

    async def scenario(host):
        result = await host.run("true", container=container)
        assert (tmp_path / "tidy").exists() and result.left_running_count == 0

    on_host(scenario)
