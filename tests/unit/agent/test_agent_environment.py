"""What a job sees in its environment."""

from __future__ import annotations

from pathlib import Path

from gsched.agent.environment import job_environment, output_path, parse_environment
from gsched.model.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.job import JobSpec

SPEC = JobSpec(
    command="./train.sh", user="ann", queue="normal", cwd="/home/ann/work", home="/home/ann", submit_host="login"
)


def environment_with(
    *indices: int, block: bytes = b"PATH=/bin\0", gpu_unrequested: str = "hide", slots: int = 1, spec: JobSpec = SPEC
) -> dict[str, str]:
    gpus = tuple(HeldGpu(uuid=f"GPU-{index}", index=index, claim="ngpus_excl_p") for index in indices)
    allocation = Allocation(hosts=(HostAllocation(host="gpu1", slots=slots, gpus=gpus),))
    return job_environment(
        block,
        17,
        1,
        spec,
        allocation,
        "gpu1",
        cluster="private",
        effective_req="select[type == local]",
        gpu_unrequested=gpu_unrequested,
        user="ann",
    )


def test_gpus_of_the_job_and_no_others_are_visible() -> None:
    found = environment_with(2, 3, block=b"CUDA_VISIBLE_DEVICES=0,1,2,3\0")
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found["GSCHED_GPU_UUIDS"] == "GPU-2,GPU-3"


def test_a_job_without_gpus_sees_none_by_default() -> None:
    found = environment_with(block=b"CUDA_VISIBLE_DEVICES=0\0GSCHED_GPU_UUIDS=GPU-9\0")
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    assert "GSCHED_GPU_UUIDS" not in found


def test_allow_leaves_the_variable_as_it_was_submitted() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in environment_with(gpu_unrequested="allow")
    assert environment_with(block=b"CUDA_VISIBLE_DEVICES=1\0", gpu_unrequested="allow")["CUDA_VISIBLE_DEVICES"] == "1"


def test_names_that_batch_scripts_rely_on() -> None:
    found = environment_with(slots=3)
    assert found["LSB_JOBID"] == "17"
    assert found["LSB_JOBINDEX"] == "0"
    assert found["LSB_JOBNAME"] == "./train.sh"
    assert found["LSB_QUEUE"] == "normal"
    assert found["LSB_HOSTS"] == "gpu1 gpu1 gpu1"
    assert found["LSB_MCPU_HOSTS"] == "gpu1 3"
    assert found["LSB_DJOB_NUMPROC"] == "3"
    assert found["LSB_SUB_HOST"] == "login"
    assert found["LS_SUBCWD"] == found["PWD"] == "/home/ann/work"
    assert found["PATH"] == "/bin"


def test_a_host_list_too_long_for_a_variable_is_left_out() -> None:
    found = environment_with(slots=2000)
    assert "LSB_HOSTS" not in found
    assert found["LSB_MCPU_HOSTS"] == "gpu1 2000"


def test_values_that_are_not_utf8_and_hold_newlines_survive() -> None:
    found = parse_environment(b"A=\xff\xfe\0B=one\ntwo=three\0nonsense\0=x\0C=\0")
    assert found == {"A": "\udcff\udcfe", "B": "one\ntwo=three", "C": ""}


def test_a_folder_as_output_gets_a_file_of_the_jobs_own(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert output_path("logs/", 5, str(tmp_path), "out") == "logs/5.out"
    assert output_path("logs", 5, str(tmp_path), "err") == "logs/5.err"
    assert output_path("out.%J.%I", 5, str(tmp_path), "out") == "out.5.0"
    assert output_path("", 5, str(tmp_path), "out") == ""
