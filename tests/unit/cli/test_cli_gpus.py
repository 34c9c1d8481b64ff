"""What ghosts, gload and glshosts show of GPUs when a probe tells all there is. Layouts as in LSF's transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, spec

from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, MigDevice, ProcessKind
from gsched.model.ledgers.allocation import (
    ALONE_CLAIM,
    PROCESS_CLAIM,
    SHARED_CLAIM,
    Allocation,
    HeldGpu,
    HostAllocation,
)
from gsched.model.views.view import GpuView, HostView, JobView

NewCall = Callable[..., FakeCall]
PROGRAM = f"/opt/{'a' * 60}/python"


def shown(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


@pytest.fixture
def gpu_hosts(master: FakeMaster) -> None:
    """Device minors are in reverse order of the indices; job 7 runs on GPU 0, nobody knows anything of GPU 2."""
    first = Gpu(
        uuid="GPU-aa",
        index=0,
        model="NVIDIA H100 80GB HBM3",
        mode=ComputeMode.DEFAULT,
        memory_mib=81559,
        reserved_mib=559,
        used_mib=11000,
        foreign_mib=1000,
        utilization_percent=93,
        memory_utilization_percent=41,
        temperature_c=61,
        power_w=512,
        ecc_errors=2,
        ecc_corrected=7,
        throttle=0x44,
        pstate=0,
        process_count=3,
        processes=(
            GpuProcess(pid=4711, user="ann", used_mib=10000, job="7.1", kind=ProcessKind.COMPUTE, name=PROGRAM),
            GpuProcess(pid=815, user="bob", used_mib=1000),
        ),
        pci_bus_id="00000000:1B:00.0",
        minor=2,
        numa=0,
        links=("GPU-bb",),
        mig=False,
    )
    second = Gpu(
        uuid="GPU-bb",
        index=1,
        model="NVIDIA H100 80GB HBM3",
        mode=ComputeMode.EXCLUSIVE_PROCESS,
        memory_mib=81559,
        process_count=0,
        minor=1,
        numa=1,
        links=("GPU-aa",),
        mig=True,
        mig_devices=tuple(MigDevice(uuid=f"MIG-{part}", profile="1g.10gb") for part in (1, 2)),
        problem="XID 79: GPU has fallen off the bus",
        throttle=0,
    )
    third = Gpu(uuid="GPU-cc", index=2, minor=0)
    held = HeldGpu(uuid="GPU-aa", index=0, claim=ALONE_CLAIM, gmem_mib=20480.0)
    where = Allocation(hosts=(HostAllocation(host="gpu01", slots=1, gpus=(held,)),))
    master.views = [JobView(job_id=7, spec=spec(), state="RUN", submitted_at=1.0, allocation=where)]
    master.host_views = [
        HostView(name="front", status="ok", gpu_provider="none"),
        HostView(
            name="gpu01",
            status="ok",
            gpu_provider="nvml",
            gpu_driver="570.86.10",
            gpus=(GpuView(gpu=first, holders=("7.1",)), GpuView(gpu=second), GpuView(gpu=third)),
        ),
    ]


@pytest.mark.usefixtures("gpu_hosts")
def test_gpu_load_of_every_gpu(call: NewCall) -> None:
    assert shown(call, "lsload", "-gpuload") == (
        "HOST_NAME       gpuid   gpu_model   gpu_mode  gpu_temp   gpu_ecc  gpu_ut  gpu_mut gpu_mtotal gpu_mused"
        "   gpu_pstate   gpu_status   gpu_error\n"
        "gpu01               0 H10080GBHBM        0.0       61C       2.0     93%      41%      79.6G     10.7G"
        "            0           ok           -\n"
        "                    1 H10080GBHBM        3.0         -         -       -        -      79.6G         -"
        "            -        error XID 79: GPU has fallen off the bus\n"
        "                    2           -          -         -         -       -        -          -         -"
        "            -           ok           -\n"
    )
    wide = shown(call, "lsload", "-gpuload", "-w", "-noheader").splitlines()
    assert wide[0].split()[:3] == ["gpu01", "0", "H10080GBHBM3"]


@pytest.mark.usefixtures("gpu_hosts")
def test_gpu_summary_and_models(call: NewCall) -> None:
    assert shown(call, "lsload", "-gpu") == (
        "HOST_NAME       status  ngpus  gpu_shared_avg_mut  gpu_shared_avg_ut  ngpus_physical\n"
        "front               ok      0                   -                  -               0\n"
        "gpu01               ok      3                 41%                93%               3\n"
    )
    assert shown(call, "lshosts", "-gpu") == (
        "HOST_NAME   gpu_id       gpu_model   gpu_driver   gpu_factor      numa_id\n"
        "gpu01            0    H10080GBHBM3    570.86.10            -            0\n"
        "                 1    H10080GBHBM3    570.86.10            -            1\n"
        "                 2               -    570.86.10            -            -\n"
    )


@pytest.mark.usefixtures("gpu_hosts")
def test_long_list_says_what_each_gpu_is_and_who_is_on_it(call: NewCall) -> None:
    assert shown(call, "bhosts", "-gpu", "-l") == (
        "HOST: gpu01\n"
        "NGPUS  NGPUS_SHARED_AVAIL  NGPUS_EXCLUSIVE_AVAIL\n"
        "3      0                   0\n"
        "\n"
        "STATIC ATTRIBUTES\n"
        "GPU_ID  MODEL         MTOTAL  FACTOR  SOCKET  VENDOR  MIG        NVLINK/XGMI  PCI               DEVICE        "
        "UUID    DRIVER\n"
        "0       H10080GBHBM3  79.6G   -       0       Nvidia  N          -/Y/N        00000000:1B:00.0  /dev/nvidia2  "
        "GPU-aa  570.86.10\n"
        "1       H10080GBHBM3  79.6G   -       1       Nvidia  2*1g.10gb  Y/-/N        -                 /dev/nvidia1  "
        "GPU-bb  570.86.10\n"
        "2       -             -       -       -       Nvidia  -          -            -                 /dev/nvidia0  "
        "GPU-cc  570.86.10\n"
        "\n"
        "DYNAMIC ATTRIBUTES\n"
        "GPU_ID  MODE               MUSED  MRSV  TEMP  ECC  UT   MUT  PSTATE  STATUS  ERROR      "
        "MFREE  POWER  ECC_CORR  THROTTLE\n"
        "0       SHARED             10.7G  20G   61C   2    93%  41%  0       ok      -          "
        "58.1G  512W   7         "
        "sw_power_cap,hw_thermal_slowdown\n"
        "1       EXCLUSIVE_PROCESS  -      0M    -     -    -    -    -       error   see below  -  "
        "    -      -         none\n"
        "2       -                  -      0M    -     -    -    -    -       ok      -          -  "
        "    -      -         -\n"
        "ERROR of GPU 1: XID 79: GPU has fallen off the bus\n"
        "\n"
        "GPU JOB INFORMATION\n"
        "GPU_ID  JEXCL  RUNJOBIDS  SUSPJOBIDS  RSVJOBIDS\n"
        "0       Y      7          -           -\n"
        "1       -      -          -           -\n"
        "2       -      -          -           -\n"
        "\n"
        "MIG DEVICES\n"
        "GPU_ID  PROFILE  GI_ID  CI_ID  MTOTAL  JEXCL  RUNJOBIDS  SUSPJOBIDS  UUID\n"
        "1       1g.10gb  -      -      -       -      -          -           MIG-1\n"
        "1       1g.10gb  -      -      -       -      -          -           MIG-2\n"
        "\n"
        "GPU PROCESSES\n"
        "GPU_ID  PID         USER  MUSED  JOBID    TYPE  NAME\n"
        "0       4711        ann   9.8G   7        C     ...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/python\n"
        "0       815         bob   1000M  foreign  -     -\n"
        "0       and 1 more  -     -      -        -     -\n"
        "2       -           -     -      -        -     -\n"
    )


@pytest.mark.usefixtures("gpu_hosts")
def test_all_of_each_gpu_as_json(call: NewCall) -> None:
    said = json.loads(shown(call, "bhosts", "-gpu", "-l", "-json"))
    assert (said["COMMAND"], said["GPUS"]) == ("bhosts", 3)
    first, second, third = said["RECORDS"]
    assert (first["HOST_NAME"], first["GPU_ID"], first["UUID"], first["UT"]) == ("gpu01", 0, "GPU-aa", 93)
    assert (first["ECC"], first["ECC_CORR"], first["TEMP"], first["POWER"]) == (2, 7, 61, 512)
    assert first["THROTTLE"] == ["sw_power_cap", "hw_thermal_slowdown"]
    assert (first["RUNJOBIDS"], first["JEXCL"], first["MRSV"]) == (["7"], True, 20 << 30)
    assert first["PROCESSES"][0] == {
        "PID": 4711,
        "TYPE": "C",
        "NAME": PROGRAM,
        "USER": "ann",
        "MUSED": 10000 << 20,
        "JOBID": "7",
        "ESCAPED": False,
    }
    assert (first["PROCESSES"][1]["TYPE"], first["PROCESSES"][1]["JOBID"]) == (None, None)
    assert (second["THROTTLE"], second["STATUS"]) == ([], "error")
    assert second["ERROR"] == "XID 79: GPU has fallen off the bus"
    assert [part["UUID"] for part in second["MIG_DEVICES"]] == ["MIG-1", "MIG-2"] and second["PROCESSES"] == []
    assert (third["THROTTLE"], third["UT"], third["PROCESSES"]) == (None, None, None)


@pytest.mark.usefixtures("gpu_hosts")
def test_json_has_a_record_for_each_gpu(call: NewCall) -> None:
    said = json.loads(shown(call, "lsload", "-gpuload", "-json"))
    assert (said["COMMAND"], said["GPUS"]) == ("lsload", 3)
    assert [record["HOST_NAME"] for record in said["RECORDS"]] == ["gpu01"] * 3
    assert said["RECORDS"][0]["gpu_model"] == "H10080GBHBM3"
    used = json.loads(shown(call, "bhosts", "-gpu", "-json"))["RECORDS"][0]
    assert used == {
        "HOST_NAME": "gpu01",
        "GPU_ID": "0",
        "MODEL": "H10080GBHBM3",
        "MUSED": "10.7G",
        "MRSV": "20G",
        "NJOBS": "1",
        "RUN": "1",
        "SUSP": "0",
        "RSV": "0",
    }
    assert json.loads(shown(call, "lshosts", "-gpu", "-json"))["RECORDS"][2]["gpu_driver"] == "570.86.10"
    done = call("lsload", "-gpu", "-json", "-noheader")
    assert (done.run(), "-json and -noheader" in done.err) == (255, True)


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(("claim", "shown_as"), [(PROCESS_CLAIM, "Y"), (SHARED_CLAIM, "N"), ("ngpus_excl_p", "N")])
def test_exclusive_process_implies_j_exclusive(master: FakeMaster, call: NewCall, claim: str, shown_as: str) -> None:
    held = HeldGpu(uuid="GPU-cc", index=2, claim=claim)
    where = Allocation(hosts=(HostAllocation(host="gpu01", slots=1, gpus=(held,)),))
    master.views = [JobView(job_id=7, spec=spec(), state="RUN", submitted_at=1.0, allocation=where)]
    assert f"2       {shown_as}      7          -           -\n" in shown(call, "bhosts", "-gpu", "-l")
