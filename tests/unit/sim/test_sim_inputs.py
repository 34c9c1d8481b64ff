"""Cluster files and workloads of every form: read as they are meant, and refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.base.errors import BadRequest
from gsched.model.hosts.host import ComputeMode
from gsched.sim.cluster_file import read_cluster
from gsched.sim.trace import TraceJob
from gsched.sim.workload import read_workload

SACCT = "JobID|User|Partition|Submit|Start|End|Timelimit|ReqCPUS|NNodes|ReqMem|AllocTRES|\n"


def written(folder: Path, text: str, name: str = "a file") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_words_say_a_cluster() -> None:
    hosts = read_cluster("2x8xH200,1x0:4")
    assert [(host.name, host.slots, host.gpus, host.gpu_model, host.gpu_mem_mib) for host in hosts] == [
        ("h001", 128, 8, "H200", 143_771),
        ("h002", 128, 8, "H200", 143_771),
        ("h003", 4, 0, "", None),
    ]
    assert read_cluster("1x2xGeForce")[0].gpu_mem_mib is None  # nobody knows, which is not 0


def test_cluster_file(tmp_path: Path) -> None:
    text = "host,count,slots,mem_mib,gpus,gpu_model,gpu_mode\na,2,8,1000,4,T4,exclusive_process\nb,,16,,,,\n"
    first, second, third = read_cluster(written(tmp_path, text))
    assert (first.name, second.name, third.name) == ("a001", "a002", "b")
    assert (first.slots, first.mem_mib, first.gpus, first.gpu_mem_mib) == (8, 1000.0, 4, 15_360)
    assert {gpu.mode for gpu in first.devices()} == {ComputeMode.EXCLUSIVE_PROCESS}
    assert (third.slots, third.mem_mib, third.gpus) == (16, 65_536.0, 0)


def test_nodes_of_openb(tmp_path: Path) -> None:
    (host,) = read_cluster(written(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,262144,2,P100\n"))
    assert (host.name, host.slots, host.mem_mib, host.gpus, host.gpu_model) == ("n-1", 64, 262_144.0, 2, "P100")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host,gpu\na,1\n", "{}:1: there is no column gpu; known are host, count"),
        ("count\n1\n", "{}:1: no column host"),
        ("host,gpus\na\n", "{}:2: 1 values under 2 columns"),
        ("host,gpus\na,many\n", "{}:2: gpus is 'many', not a number"),
        ("host,gpus\na,-1\n", "{}:2: gpus is -1, it cannot be negative"),
        ("host,gpus\na,1.5\n", "{}:2: gpus is 1.5, not a whole number"),
        ("host,slots\na,0\n", "{}:2: a host has at least one slot"),
        ("host,gpu_mode\na,fast\n", "{}:2: gpu_mode is 'fast'"),
        ("host\na b\n", "{}:2: 'a b' is no name of a host"),
        ("host\na\nb\na\n", "{}:4: host a is in line 2 already"),
        ("host,count\na001,1\na,2\n", "{}:3: host a001 is in line 2 already"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1000,1,0,\nn,1000,1,0,\n", "{}:3: host n is in line 2 already"),
        ("host\n", "{}: no hosts"),
        ("", "{}:1: no column host"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadRequest) as error:
        read_cluster(path)
    assert error.value.text.startswith(said.format(path)), error.value.text


def test_no_file_and_no_text(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(BadRequest, match="cannot be read"):
            read_cluster(path)
    (tmp_path / "bytes").write_bytes(b"host\n\xff\n")
    with pytest.raises(BadRequest, match=":2: not UTF-8"):
        read_cluster(str(tmp_path / "bytes"))


def test_own_form_asks_for_gpus_as_gpu_does(tmp_path: Path) -> None:
    text = "arrives_s,runs_s,gpus,gpu_req\n5,1,2,\n7,1,1,num=1:mode=shared:share=0.5\n"
    first, second = read_workload(written(tmp_path, text), 0).jobs
    assert (first.gpu_req, second.gpu_req, first.line) == ("num=2", "num=1:mode=shared:share=0.5", 2)
    assert "ngpus" not in first.spec().res_req and first.spec().gpu_req == "num=2"


def test_swf_says_when_it_begins_and_what_never_ran(tmp_path: Path) -> None:
    text = "; UnixStartTime: 1000000000\n1 3 5 100 4 -1 -1 8 200 -1 1 7 1 1 1 -1 -1 -1\n"
    text += "2 9 0 -1 4 -1 -1 4 200 -1 0 7 1 1 1 -1 -1 -1\n"
    found = read_workload(written(tmp_path, text), 0)
    assert (found.begins_at, found.left_out, found.jobs[0].arrives_s) == (1e9, {"never ran": 1}, 3.0)


def test_what_sacct_prints(tmp_path: Path) -> None:
    text = SACCT + (
        "7|ann|gpu|2026-11-02T10:00:00|2026-11-02T10:05:00|2026-11-02T11:05:00|1-02:00:00|8|2|16G|"
        "cpu=8,gres/gpu:a100=8,gres/gpu=8,node=2|\n"
        "7.batch|||2026-11-02T10:05:00|2026-11-02T10:05:00|2026-11-02T11:05:00||4|1|||\n"
        "8|bob|cpu|2026-11-02T09:00:00|Unknown|Unknown|UNLIMITED|1|1|1000Mc||\n"
        "9|bob|cpu|2026-11-02T09:30:00|2026-11-02T09:31:00|2026-11-02T09:32:30|30:00|2|1|1000Mc||\n"
    )
    found = read_workload(written(tmp_path, text), 0)
    assert found.left_out == {"never ran": 1}
    assert found.begins_at == 1_793_611_800.0  # 2026-11-02 09:30 UTC
    assert found.jobs == [
        TraceJob(arrives_s=0, runs_s=90, limit_s=1800, slots=2, mem_mib=2000, queue="cpu", user="bob"),
        TraceJob(
            arrives_s=1800,
            runs_s=3600,
            limit_s=93_600,
            slots=8,
            gpus=4,
            gpu_req="num=4",
            mem_mib=8192,
            spread=True,
            tasks_per_host=4,
            queue="gpu",
            user="ann",
        ),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1|a|q|2026-11-02T10:00:00|2026-11-02T10:05:00|2026-11-02T10:04:00||1|1|||", "2: End 2026-11-02T10:04:00 is"),
        ("1|a|q|soon|2026-11-02T10:05:00|2026-11-02T10:06:00||1|1|||", "2: Submit is 'soon', not a time"),
        ("1|a|q|2026-11-02T10:00:00|2026-11-02T10:05:00|2026-11-02T10:06:00|soon|1|1|||", "2: Timelimit is 'soon'"),
        ("1|a|q|2026-11-02T10:00:00|2026-11-02T10:05:00|2026-11-02T10:06:00||-1|1|||", "2: ReqCPUS is -1"),
        ("1|a|q|2026-11-02T10:00:00|2026-11-02T10:05:00|2026-11-02T10:06:00||1|1|some||", "2: ReqMem is 'some'"),
        ("1|a", "2: 2 values under 11 columns"),
    ],
)
def test_what_is_wrong_with_a_dump_of_sacct_is_told(tmp_path: Path, row: str, said: str) -> None:
    path = written(tmp_path, SACCT + row + "\n")
    with pytest.raises(BadRequest) as error:
        read_workload(path, 0)
    assert error.value.text.startswith(f"{path}:{said}"), error.value.text


OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def test_tasks_of_openb(tmp_path: Path) -> None:
    text = (
        OPENB + "p0,12500,16384,1,460,V100M16|V100M32,LS,Running,100,400,110\np1,1000,1,2,1000,,BE,Running,50,60,50\n"
    )
    found = read_workload(written(tmp_path, text + "p2,1,1,0,0,,BE,Pending,50,,\n"), 0)
    first, second = found.jobs
    assert (first.gpus, first.gpu_req, first.arrives_s, first.runs_s) == (2, "num=2", 0.0, 10.0)
    assert (second.gpu_req, second.arrives_s, second.slots) == ("num=1:mode=shared:share=0.46", 50.0, 13)
    assert second.res_req == "select[gpumodel == V100M16 || gpumodel == V100M32]"
    assert found.left_out == {"never ran": 1}


def test_a_task_of_openb_that_ends_before_it_starts_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, OPENB + "p0,1000,1,0,0,,LS,Running,100,105,110\n")
    with pytest.raises(BadRequest) as error:
        read_workload(path, 0)
    assert error.value.text == f"{path}:2: deletion_time 105 is before scheduled_time 110"


def test_jobs_are_made_up_from_a_seed() -> None:
    first, again, other = (read_workload("random:50", seed, 8).jobs for seed in (3, 3, 4))
    assert first == again != other
    assert len(first) == 50
    with pytest.raises(BadRequest, match="random:0"):
        read_workload("random:0", 1, 8)


def test_own_form_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, "arrives_s,runs_s\n1,2\n-1,2\n")
    with pytest.raises(BadRequest) as error:
        read_workload(path, 0)
    assert error.value.text.startswith(f"{path}:3: ")
