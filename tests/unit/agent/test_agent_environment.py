"""What a job sees in its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import msgspec
import pytest

from gsched.agent.attempts.cpu_binding import affinity_lines, bound_to
from gsched.agent.attempts.job_environment import (
    EnvironmentFacts,
    attempt_line,
    host_lines,
    job_environment,
    output_path,
    parse_environment,
)
from gsched.base.ids import element_id
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, CpuBinding, HeldGpu, HostAllocation, TaskCpus
from tests.support.fakecuda import devices_of

SPEC = JobSpec(
    command="./train.sh", user="ann", queue="normal", cwd="/home/ann/work", home="/home/ann", submit_host="login"
)


ADDRESSES = tuple(f"00000000:{index + 4:02X}:00.0" for index in range(4))
CUDA_NUMBERS = {f"GPU-{index}": index for index in range(4)}


def environment_with(
    *indices: int,
    parts: tuple[str, ...] = (),
    block: bytes = b"PATH=/bin\0",
    gpu_unrequested: str = "hide",
    slots: int = 1,
    spec: JobSpec = SPEC,
    job_id: int = 17,
    attempt: int = 1,
    share: float = 1.0,
    others: tuple[HostAllocation, ...] = (),
    fenced: bool = False,
    addresses: Sequence[str] = ADDRESSES,
    cuda_numbers: Mapping[str, int] = CUDA_NUMBERS,
) -> dict[str, str]:
    gpus = tuple(
        HeldGpu(uuid=f"GPU-{index}", index=index, claim="ngpus_excl_p", share=share, pci_bus_id=addresses[index])
        for index in indices
    )
    gpus += tuple(HeldGpu(uuid=uuid, index=0, claim="mig_shared", parent="GPU-0") for uuid in parts)
    allocation = Allocation(hosts=(HostAllocation(host="gpu1", slots=slots, gpus=gpus), *others))
    return job_environment(
        block,
        EnvironmentFacts(
            job_id=job_id,
            attempt=attempt,
            spec=spec,
            allocation=allocation,
            host="gpu1",
            cluster="private",
            effective_req="select[type == local]",
            gpu_unrequested=gpu_unrequested,
            user="ann",
            hostfile="/spool/hostfile",
            earlier_runs=attempt - 1,
            fenced=fenced,
            cuda_numbers=cuda_numbers,
        ),
    )


def test_gpus_of_the_job_and_no_others_are_visible() -> None:
    found = environment_with(2, 3, block=b"CUDA_VISIBLE_DEVICES=0,1,2,3\0")
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found["GSCHED_GPU_UUIDS"] == "GPU-2,GPU-3"


def test_in_a_fence_cuda_counts_what_can_be_opened() -> None:
    found = environment_with(2, 3, fenced=True)
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found["GSCHED_GPU_UUIDS"] == "GPU-2,GPU-3"
    assert environment_with(fenced=True)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("is_certain", [True, False])
def test_cuda_shows_the_jobs_gpus_in_whatever_order_nvml_counts(fenced: bool, is_certain: bool) -> None:
    """Device i of CUDA is the GPU at place i of GSCHED_GPU_UUIDS; NVML may count against the PCI addresses."""
    for order in permutations(range(4)):
        addresses = [ADDRESSES[place] for place in order]
        by_uuid = {f"GPU-{index}": address for index, address in enumerate(addresses)}
        numbers = {f"GPU-{index}": order[index] for index in range(4)} if is_certain else {}
        for held in ((0,), (3,), (0, 2), (1, 2, 3)):
            found = environment_with(*held, fenced=fenced, addresses=addresses, cuda_numbers=numbers)
            uuids = found["GSCHED_GPU_UUIDS"].split(",")
            assert sorted(uuids) == [f"GPU-{index}" for index in held]
            assert devices_of(found, by_uuid, uuids if fenced else None) == uuids
            if fenced or is_certain:
                assert found["CUDA_VISIBLE_DEVICES"].replace(",", "").isdigit(), "programs read numbers"


def test_where_no_address_is_known_gpus_go_by_their_uuids() -> None:
    for fenced in (True, False):
        found = environment_with(2, 3, fenced=fenced, addresses=[""] * 4, cuda_numbers={})
        assert found["CUDA_VISIBLE_DEVICES"] == found["GSCHED_GPU_UUIDS"] == "GPU-2,GPU-3"
    assert environment_with(2, fenced=True, addresses=[""] * 4)["CUDA_VISIBLE_DEVICES"] == "0"


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
    assert output_path("logs", element_id(5, 3), str(tmp_path), "out") == "logs/5.3.out"
    assert output_path("out.%J.%I", element_id(5, 3), str(tmp_path), "out") == "out.5.3"


def test_an_element_of_an_array_knows_its_index() -> None:
    spec = msgspec.structs.replace(SPEC, name="train", indices="1-9:2,20-25", output_file="o.%J.%I", input_file="in.%I")
    found = environment_with(spec=spec, job_id=element_id(17, 3))
    assert (found["LSB_JOBID"], found["LSB_JOBINDEX"], found["LSB_JOBNAME"]) == ("17", "3", "train[3]")
    assert (found["LSB_JOBINDEX_STEP"], found["LSB_JOBINDEX_END"]) == ("2", "25")
    assert (found["LSB_OUTPUTFILE"], found["LSB_INPUTFILE"]) == ("o.17.3", "in.3")
    assert found["LSB_BATCH_JID"] == found["GSCHED_JOB_ID"] == "17[3]"
    assert environment_with(spec=spec, job_id=element_id(17, 21))["LSB_JOBINDEX_STEP"] == "1"
    assert "LSB_JOBINDEX_END" not in environment_with()


def test_a_parallel_job_knows_all_its_hosts() -> None:
    gpu = HeldGpu(uuid="GPU-7", index=1, claim="ngpus_excl_p")
    found = environment_with(
        0,
        2,
        slots=2,
        spec=msgspec.structs.replace(SPEC, slots=3, max_slots=8),
        others=(HostAllocation(host="gpu2", slots=1, gpus=(gpu,)), HostAllocation(host="cpu", slots=1)),
    )
    assert found["LSB_HOSTS"] == "gpu1 gpu1 gpu2 cpu"
    assert found["LSB_MCPU_HOSTS"] == "gpu1 2 gpu2 1 cpu 1"
    assert (found["LSB_DJOB_NUMPROC"], found["LSB_MAX_NUM_PROCESSORS"]) == ("4", "8")
    assert found["GSCHED_HOST_GPUS"] == "gpu1:gpus=0,2;gpu2:gpus=1;"
    assert found["CUDA_VISIBLE_DEVICES"] == "0,2"
    assert found["LSB_DJOB_HOSTFILE"] == found["LSB_DJOB_RANKFILE"] == "/spool/hostfile"
    assert "GSCHED_HOST_GPUS" not in environment_with(0)


def test_a_host_file_has_a_line_per_slot() -> None:
    hosts = (HostAllocation(host="b", slots=2), HostAllocation(host="a", slots=1))
    assert host_lines(Allocation(hosts=hosts)) == "b\nb\na\n"


def test_a_share_of_a_gpu_is_told() -> None:
    assert environment_with(0, share=0.25)["GSCHED_GPU_SHARE"] == "0.25"
    assert "GSCHED_GPU_SHARE" not in environment_with(0)


def test_a_job_submitted_by_a_job_is_not_taken_for_it() -> None:
    outer = b"LSB_RESTART=Y\0LSB_JOBINDEX_END=9\0LSB_JOBGROUP=/a\0LSB_OUTPUTFILE=o\0GSCHED_GPU_SHARE=0.5\0LSB_X=1\0"
    outer += b"GSCHED_TMPDIR=/x\0"
    found = environment_with(block=outer)
    stale = ("LSB_RESTART", "LSB_JOBINDEX_END", "LSB_JOBGROUP", "LSB_OUTPUTFILE", "GSCHED_GPU_SHARE", "GSCHED_TMPDIR")
    assert not [name for name in stale if name in found]
    assert found["LSB_X"] == "1"


def test_what_only_some_jobs_are_told() -> None:
    found = environment_with(attempt=2, spec=msgspec.structs.replace(SPEC, group="/risk", requeue_exit_values="30"))
    assert (found["LSB_RESTART"], found["LSB_JOBGROUP"], found["LSB_EXIT_REQUEUE"]) == ("Y", "/risk", "30")
    assert not {"LSB_RESTART", "LSB_JOBGROUP", "LSB_EXIT_REQUEUE"} & set(environment_with())


def test_attempts_are_told_apart_in_one_file() -> None:
    assert attempt_line(17, 1, "gpu1", 0.0, 0) == ""
    line = attempt_line(element_id(17, 3), 2, "gpu1", 1_500_000_000.0, 1)
    assert line.startswith("---- attempt 2 of job 17[3] on gpu1 at 2017-07-1") and line.endswith(" ----")


def bound(host: str, *tasks: tuple[int, ...], membind: str = "") -> HostAllocation:
    text = f"affinity[core(1){':membind=' + membind if membind else ''}]"
    cpus = tuple(TaskCpus(cpus=task[:1], bound=task, nodes=(task[0] // 4,)) for task in tasks)
    held = tuple(cpu for task in tasks for cpu in task[:1])
    return HostAllocation(host=host, slots=len(tasks), bindings=(CpuBinding(affinity=text, held=held, tasks=cpus),))


def test_a_job_with_affinity_is_told_its_cpus_and_those_of_all_tasks() -> None:
    allocation = Allocation(hosts=(bound("gpu1", (0, 1), (4, 5)), bound("gpu2", (2,))))
    found = job_environment(
        b"LSB_BIND_MEM_POLICY=localonly\0",
        EnvironmentFacts(
            job_id=17,
            attempt=1,
            spec=SPEC,
            allocation=allocation,
            host="gpu1",
            cluster="private",
            effective_req="",
            gpu_unrequested="hide",
            user="ann",
            affinity_hostfile="/spool/affinity",
        ),
    )
    assert (found["LSB_BIND_CPU_LIST"], found["LSB_AFFINITY_HOSTFILE"]) == ("0,1,4,5", "/spool/affinity")
    assert "LSB_BIND_MEM_POLICY" not in found and "LSB_BIND_MEM_LIST" not in found
    assert affinity_lines(allocation) == "gpu1 0,1\ngpu1 4,5\ngpu2 2\n"
    assert bound_to(allocation.hosts[0]) == ((0, 1, 4, 5), ())


def test_memory_is_bound_with_localonly_alone() -> None:
    only, prefer = bound("gpu1", (0,), (4,), membind="localonly"), bound("gpu1", (0,), membind="localprefer")
    assert (bound_to(only), bound_to(prefer)) == (((0, 4), (0, 1)), ((0,), ()))
    assert affinity_lines(Allocation(hosts=(only,))) == "gpu1 0 0 1\ngpu1 4 1 1\n"
    assert affinity_lines(Allocation(hosts=(prefer,))) == "gpu1 0 0 2\n"
    found = environment_with(others=(only,), block=b"LSB_BIND_CPU_LIST=7\0LSB_AFFINITY_HOSTFILE=/x\0")
    assert "LSB_BIND_CPU_LIST" not in found and "LSB_AFFINITY_HOSTFILE" not in found  # of its own host: nothing


def test_where_the_cluster_lies_is_told_to_jobs_that_would_not_know() -> None:
    places = {"LSF_ENVDIR": "/conf", "LSF_SERVERDIR": "/server"}
    plain = with_places(b"", places)
    assert (plain["LSF_ENVDIR"], plain["LSF_SERVERDIR"]) == ("/conf", "/server")
    assert (plain["USER"], plain["LOGNAME"], plain["LSB_TRAPSIGS"]) == ("ann", "ann", "trap # 15 10 12 2 1")
    assert with_places(b"LSF_ENVDIR=/mine\0", places)["LSF_ENVDIR"] == "/mine"
    assert "LSF_ENVDIR" not in with_places(b"GSCHED_ENVDIR=/mine\0", places)


def test_a_job_with_a_script_is_told_its_file_and_takes_no_others() -> None:
    block = b"LSB_JOBFILENAME=/other\0LSB_JOBEXIT_STAT=256\0LSB_INTERACTIVE=Y\0LSB_JOBPIDS=7\0"
    assert with_places(block, {}, script_file="/spool/17.1/script")["LSB_JOBFILENAME"] == "/spool/17.1/script"
    assert not {"LSB_JOBFILENAME", "LSB_JOBEXIT_STAT", "LSB_INTERACTIVE", "LSB_JOBPIDS"} & set(with_places(block, {}))


def with_places(block: bytes, places: dict[str, str], script_file: str = "") -> dict[str, str]:
    return job_environment(
        block,
        EnvironmentFacts(
            job_id=17,
            attempt=1,
            spec=SPEC,
            allocation=Allocation(hosts=(HostAllocation(host="gpu1", slots=1),)),
            host="gpu1",
            cluster="private",
            effective_req="",
            gpu_unrequested="hide",
            user="ann",
            script_file=script_file,
            places=places,
        ),
    )


def test_parts_of_gpus_go_by_their_uuids() -> None:
    for fenced in (False, True):
        found = environment_with(parts=("MIG-a", "MIG-b"), fenced=fenced)
        assert found["CUDA_VISIBLE_DEVICES"] == found["GSCHED_GPU_UUIDS"] == "MIG-a,MIG-b"
