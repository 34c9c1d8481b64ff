"""Launch profiles: words and variables of each task, as a pure function and as the shell text that hosts run."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest
from test_dialect_bsub import refusal, submit

from gsched.base.errors import BadRequest
from gsched.dialect.launching.launch_plan import (
    LaunchHost,
    LaunchJob,
    LaunchPlan,
    plan_launch,
    rank_words,
    task_script,
    task_variables,
    task_words,
)
from gsched.dialect.launching.launch_profiles import PROFILES, LaunchUnit
from gsched.dialect.launching.launch_words import read_launch
from gsched.dialect.launching.rank_file import HostCores, RankTopology, rank_lines

HOSTS = (LaunchHost("h1", 2, 2, "h1.example"), LaunchHost("h2", 2, 2), LaunchHost("h3", 2, 2))
JOB = LaunchJob(number="7", hosts=HOSTS, port=4711, rank_file="/tmp/a b/rankfile", forwarded=("PATH",))
COMMAND = ["python", "train it.py"]
SEED_HOSTS = tuple(f"sys-{89074 + number}" for number in range(6))
"""Those of the guide to PowerAI DDL, with its two rank files of 2x10 cores."""
SEED_4X2X3 = [[0, 6, 12, 18], [3, 9, 15, 21], [1, 7, 13, 19], [4, 10, 16, 22], [2, 8, 14, 20], [5, 11, 17, 23]]
SEED_4X2X1 = [[0, 2, 4, 6], [1, 3, 5, 7]]


def plan(*words: str, hosts: tuple[LaunchHost, ...] = HOSTS) -> LaunchPlan:
    job = LaunchJob(
        number="7", hosts=hosts, port=4711, rank_file=JOB.rank_file, profile_folder="/w/prof.7", forwarded=("PATH",)
    )
    return plan_launch(read_launch([*words, *COMMAND]), job)


def test_torch_is_one_launcher_on_each_host() -> None:
    found = plan("--torch")
    assert found.task_hosts == ["h1", "h2", "h3"]
    assert task_words(found, 1) == [
        *("torchrun", "--nproc-per-node=2", "--local-addr=h2", "--nnodes=3", "--node-rank=1"),
        *("--master-addr=h1.example", "--master-port=4711", "--no-python"),
    ]


def test_torch_is_elastic_by_its_own_rendezvous() -> None:
    found = plan("--launch", "torch", "--max-restarts", "3", "--min-hosts=2")
    assert task_words(found, 0) == [
        *("torchrun", "--nproc-per-node=2", "--local-addr=h1.example", "--nnodes=2:3", "--rdzv-backend=c10d"),
        *("--rdzv-id=7", "--rdzv-endpoint=h1.example:4711", "--rdzv-conf=is_host=1", "--max-restarts=3", "--no-python"),
    ]
    assert "--rdzv-conf=is_host=0" in task_words(found, 2)
    restarted = plan("--torch", "--max-restarts", "3")
    assert task_words(restarted, 0) == task_words(plan("--torch"), 0)  # glaunch starts all of it again


def test_lightning_is_a_process_for_each_gpu_with_its_place() -> None:
    found = plan("--lightning")
    assert found.task_hosts == ["h1", "h1", "h2", "h2", "h3", "h3"]
    assert task_variables(found, 3) == {
        "MASTER_ADDR": "h1.example",
        "MASTER_PORT": "4711",
        "WORLD_SIZE": "6",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "NODE_RANK": "1",
    }


def test_horovod_and_mpi_are_told_of_the_hosts_once() -> None:
    assert task_words(plan("--horovod"), 0)[:5] == ["horovodrun", "-np", "6", "-H", "h1:2,h2:2,h3:2"]
    assert task_words(plan("--mpi"), 0) == ["mpirun", "-n", "6"]
    assert task_words(plan("--ddl"), 0) == ["mpirun", "-x", "PATH", "-n", "6", "-rf", "/tmp/a b/rankfile"]


def test_deepspeed_is_told_of_the_world() -> None:
    words = task_words(plan("--deepspeed", hosts=(LaunchHost("a", 1, 1), LaunchHost("b", 4, 2))), 1)
    world = next(word.partition("=")[2] for word in words if word.startswith("--world_info"))
    assert json.loads(urlsafe_b64decode(world)) == {"a": [0], "b": [0, 1]} and "--node_rank=1" in words


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if not profile.script])
def test_the_script_does_what_the_table_says(name: str, shell: str, tmp_path: Path) -> None:
    """On hosts with different numbers of ranks, where the profile takes that."""
    sizes = (2, 2, 2) if PROFILES[name].has_even_hosts else (2, 1, 3)
    hosts = tuple(LaunchHost(f"h{number}", size, size, "127.0.0.1") for number, size in enumerate(sizes))
    found = plan(f"--{name}", hosts=hosts)
    program = tmp_path / (PROFILES[name].words[0] if PROFILES[name].words else "python")
    program.write_text('#!/bin/sh\nfor word in "$0" "$@"; do printf "%s\\0" "$word"; done\nenv -0\n')
    program.chmod(0o755)
    assert len(found.tasks) == {LaunchUnit.HOST: 3, LaunchUnit.RANK: 6, LaunchUnit.JOB: 1}[found.profile.unit]
    for number in range(len(found.tasks)):
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LSF_PM_TASKID": str(number + 1), "rank": "mine"}
        words = [shell, "-c", task_script(found), "sh", *COMMAND]
        done = subprocess.run(words, env=environment, capture_output=True, check=True, text=True)
        said = done.stdout.split("\0")
        wanted = [*(task_words(found, number) or ["python"]), *COMMAND[0 if task_words(found, number) else 1 :]]
        assert said[1 : len(wanted)] == wanted[1:]
        variables = dict(each.partition("=")[::2] for each in said[len(wanted) :] if each)
        assert task_variables(found, number).items() <= variables.items() and variables["rank"] == "mine"


def test_a_rank_knows_its_number_and_has_the_gpus_of_its_host(tmp_path: Path) -> None:
    text = 'echo "$GSCHED_RANK ${GSCHED_IS_RANK0-no} $CUDA_VISIBLE_DEVICES"'
    found = plan_launch(read_launch(["--torch", "/bin/sh", "-c", text]), JOB)
    lines = []
    for rank in ("0", "4"):
        environment = {"RANK": rank, "CUDA_VISIBLE_DEVICES": "0,1", "GSCHED_LAUNCH_GPUS": "2,3", "GSCHED_IS_RANK0": "1"}
        done = subprocess.run(rank_words(found), env={**os.environ, **environment}, capture_output=True, text=True)
        lines.append(done.stdout)
    assert lines == ["0 1 2,3\n", "4 no 2,3\n"]


def test_a_signal_that_asks_ranks_to_save_does_not_end_their_launcher(tmp_path: Path) -> None:
    found = plan_launch(read_launch(["--torch", "/bin/sh", "-c", "trap 'echo heard' USR2; kill -USR2 $$"]), JOB)
    program = tmp_path / "torchrun"
    program.write_text(
        '#!/bin/sh\nkill -USR1 $$; kill -USR2 $$\nwhile [ "$1" != --no-python ]; do shift; done; shift; "$@"\n'
    )
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LSF_PM_TASKID": "1", "RANK": "0"}
    words = ["/bin/sh", "-c", task_script(found), "sh", *rank_words(found)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


def test_accelerate_is_asked_for_no_several_gpus_where_there_is_one() -> None:
    """It refuses `--multi_gpu` then."""
    lone = task_words(plan("--accelerate", hosts=(LaunchHost("a", 1, 1),)), 0)
    assert "--multi_gpu" not in lone and "--num_processes=1" in lone
    assert "--multi_gpu" in task_words(plan("--accelerate", hosts=(LaunchHost("a", 2, 2),)), 0)


def test_slots_or_gpus_decide_how_many() -> None:
    hosts = (LaunchHost("a", 8, 1), LaunchHost("b", 8, 1))
    assert plan("--torch", hosts=hosts).sizes == (1, 1)
    assert plan("--torch", "--nproc-per-node", "slot", hosts=hosts).sizes == (8, 8)
    assert plan("--torch", "--nproc-per-node", "3", hosts=hosts).sizes == (3, 3)
    assert plan("--mpi", hosts=hosts).sizes == (8, 8)
    assert plan("--torch", hosts=(LaunchHost("a", 4),)).sizes == (4,)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--launch", "tensorflow"], "--launch: 'tensorflow' is no profile; there are torch, accelerate"),
        (["--torch", "--mpi"], "one profile is launched at a time, not torch and mpi"),
        (["--max-restarts", "2"], "--max-restarts needs a profile beside it"),
        (["--torch", "--max-restarts", "many"], "--max-restarts: 'many' is no number from 0 to 1000"),
        (["--torch", "--nproc-per-node", "0"], "--nproc-per-node: '0' is no number from 1 to 128"),
        (["--torch", "--topo", "4x2x1"], "--topo is for --launch ddl, not for torch"),
        (["--mpi", "--min-hosts", "2"], "--min-hosts: mpi needs all of its hosts"),
        (["--torch", "--min-hosts", "4"], "--min-hosts: 4 is more than the 3 hosts of the job"),
        (["--ddl", "--topo", "4x2"], "--topo 4x2x1 has 8 ranks on 2 hosts, 4 on each; the job has 2 slots on h1"),
        (["--ddl", "--topo", "4by2"], "--topo: '4by2' is not GPUsxHOSTSxRACKS"),
        (["--ddl", "--topo", "9999x9999x9"], "can be launched at a time"),
        (["--ray", "--profile", "nsys"], "--profile: gsched does not start the processes of ray"),
        (["--torch", "--nope"], "unknown option --nope"),
    ],
)
def test_what_cannot_be_is_named(words: list[str], why: str) -> None:
    with pytest.raises(BadRequest) as problem:
        plan(*words)
    assert why in problem.value.text


def test_uneven_hosts_are_refused_where_the_framework_cannot() -> None:
    with pytest.raises(BadRequest) as problem:
        plan("--accelerate", hosts=(LaunchHost("a", 1), LaunchHost("b", 2)))
    assert problem.value.text.endswith("the job has 1 slots on a, 2 slots on b")
    assert plan("--torch", hosts=(LaunchHost("a", 1), LaunchHost("b", 2))).size == 3


# -- rank files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "ranks"), [("4x2x3", SEED_4X2X3), ("4x2x1", SEED_4X2X1)])
def test_the_rank_files_of_the_guide(text: str, ranks: list[list[int]]) -> None:
    slots = ["0:0-4", "0:5-9", "1:0-4", "1:5-9"]
    wanted = "".join(
        f"rank {rank}={host} slot={slot}\n"
        for host, of_host in zip(SEED_HOSTS, ranks, strict=False)
        for rank, slot in zip(of_host, slots, strict=True)
    )
    hosts = SEED_HOSTS[: len(ranks)]
    assert rank_lines(RankTopology.read(text), hosts, [HostCores(2, 10)] * len(hosts)) == wanted


def test_other_cores_are_shared_evenly_and_each_rank_has_one() -> None:
    def slots(gpus: int, cores: HostCores) -> list[str]:
        lines = rank_lines(RankTopology(gpus, 1, 1), ["h"], [cores]).splitlines()
        return [line.rpartition("=")[2] for line in lines]

    assert slots(4, HostCores(2, 8)) == ["0:0-3", "0:4-7", "1:0-3", "1:4-7"]
    assert slots(3, HostCores(1, 8)) == ["0:0-1", "0:2-4", "0:5-7"]
    assert slots(3, HostCores(2, 4)) == ["0:0-1", "0:2-3", "1:0-3"]
    assert slots(4, HostCores(1, 2)) == ["0:0", "0:1", "0:0", "0:1"]
    assert slots(1, HostCores(2, 4)) == ["0:0-3"]


# -- gsub ------------------------------------------------------------------------------------------------------------


def test_gsub_makes_the_command_one_of_glaunch() -> None:
    spec = submit("-n", "4", "--launch", "torch --max-restarts 2", "python", "train.py", "a b").spec
    assert spec.command == 'glaunch --launch torch --max-restarts 2 python train.py "a b"'
    assert submit("--launch", "mpi", "cd x; ./run").spec.command == "glaunch --launch mpi /bin/sh -c 'cd x; ./run'"
    assert submit("--profile", "py-spy", "./run").spec.command == "glaunch --profile py-spy ./run"


def test_a_topology_asks_for_its_slots_hosts_and_gpus() -> None:
    spec = submit("--launch", "ddl", "--topo", "4x2x1", "caffe train").spec
    assert spec.command == "glaunch --launch ddl --topo 4x2x1 caffe train"
    assert (spec.slots, spec.res_req, spec.gpu_req) == (8, "span[ptile=4]", "num=4")
    spec = submit("-n", "8", "-gpu", "num=4:mode=shared", "--launch", "ddl", "--topo", "4x2x1", "./run").spec
    assert (spec.slots, spec.gpu_req) == (8, "num=4:mode=shared")
    assert submit("--launch", "ddl", "--topo", "2x1x1", "./run").spec.res_req == "span[hosts=1]"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-n", "16", "--launch", "ddl", "--topo", "4x8x2"), "-n 16: --topo 4x8x2 is 64 ranks, 4 a host on 16 hosts"),
        (("-gpu", "num=2", "--launch", "ddl", "--topo", "4x2x1"), "-gpu num=2: --topo 4x2x1 has 4 GPUs on each host"),
        (("-R", "span[ptile=2]", "--launch", "ddl", "--topo", "4x2x1"), "--topo 4x2x1 says how the slots lie on hosts"),
        (("--topo", "4x2x1"), "needs a profile beside it"),
        (("--launch", ""), "option --launch is empty"),
        (("--launch", "torch train.py"), "'train.py' behind the profile is no option of a launch"),
        (("--launch", "torch '"), "--launch: 'torch '': No closing quotation"),
        (("--launch", "caffe"), "--launch: 'caffe' is no profile"),
    ],
)
def test_gsub_refuses_what_cannot_be(words: tuple[str, ...], why: str) -> None:
    assert why in refusal(*words, "./run")


def test_a_script_is_told_what_to_write() -> None:
    why = refusal("--launch", "torch", stdin=b"python train.py\n")
    assert "the job is a script: call glaunch in it" in why
    why = refusal(stdin=b"#BSUB --launch torch\npython train.py\n")
    assert "line 1 of the script: '--launch' cannot stand in a #BSUB line" in why
