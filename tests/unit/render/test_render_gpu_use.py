"""What a job has made of its GPUs, line by line as LSF prints it."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.cli.render.gpu_use.use_lines import gpu_use_block
from gsched.model.gpus.gpu_use import GpuUsage, ProcessShare

USE = GpuUsage(
    host="kilenc",
    index=0,
    uuid="GPU-a",
    samples=12,
    covered_s=122.0,
    sm_mean=99.4,
    sm_median=100.0,
    sm_p95=100.0,
    sm_min=64.0,
    sm_max=100.0,
    mem_mean_mib=20000.0,
    mem_max_mib=30714888192 / 2**20,
    traffic_mean=28.0,
    traffic_min=9.0,
    traffic_max=39.0,
    power_mean_w=210.9,
    energy_j=25733.0,
    energy_counted=True,
    idle_s=0.0,
    no_process_s=3.0,
    throttled_s=40.0,
    throttled_power_s=30.0,
    throttled_heat_s=10.0,
    ecc_errors=0.0,
    ecc_corrected=2.0,
    nvlink_tx_mib=1.0,
    nvlink_rx_mib=0.5,
    pcie_rx_mib=0.0,
    tensor_mean=12.0,
)
LSF = """\
                     HOST: kilenc; CPU_TIME: 153 seconds
                        GPU ID: 0
                            Total Execution Time: 122 seconds
                            Energy Consumed: 25733 Joules
                            SM Utilization (%): Avg 99, Max 100, Min 64
                            Memory Utilization (%): Avg 28, Max 39, Min 9
                            Max GPU Memory Used: 30714888192 bytes
"""
OWN = """\
                            Avg GPU Memory Used: 20971520000 bytes
                            Median SM Utilization (%): 100
                            P95 SM Utilization (%): 100
                            Avg Power: 211 Watts
                            Energy Source: counter of the device
                            Idle Time: 0 seconds
                            Time Without Process: 3 seconds
                            Throttled Time: 40 seconds; Power 30, Heat 10
                            ECC Errors: Uncorrected 0, Corrected 2
                            NVLink Traffic: Sent 1048576 bytes, Received 524288 bytes
                            PCIe Traffic: Sent -, Received 0 bytes
                            Tensor Active (%): Avg 12
"""


def test_lsfs_lines_and_then_gscheds_own() -> None:
    assert gpu_use_block([USE], 153.2) == f"{LSF}{OWN}\n\nGPU Energy Consumed: 25733.000000 Joules\n\n\n"


def test_several_gpus_and_hosts() -> None:
    told = gpu_use_block([USE, replace(USE, index=1), replace(USE, host="b")], 153.0)
    assert told.count("HOST: ") == 2 and told.count("GPU ID: ") == 3
    assert "12\n\n                        GPU ID: 1\n" in told  # an empty line between two of a host
    assert told.count("CPU_TIME: -") == 2 and told.endswith("\n\n\nGPU Energy Consumed: 77199.000000 Joules\n\n\n")


def test_what_is_unknown_is_a_dash() -> None:
    told = gpu_use_block([USE, GpuUsage(host="kilenc", index=1)], None)
    assert "CPU_TIME: -\n" in told and "\nGPU Energy Consumed: -\n" in told
    unknown = told.partition("GPU ID: 1\n")[2].partition("\n\n")[0]
    assert [line.partition(": ")[2] for line in unknown.splitlines()] == [
        *("-", "-", "Avg -, Max -, Min -", "Avg -, Max -, Min -", "-", "-", "-", "-", "-", "-", "-", "-"),
        *("-; Power -, Heat -", "Uncorrected -, Corrected -", "Sent -, Received -", "Sent -, Received -"),
    ]
    assert gpu_use_block([GpuUsage(host="kilenc")], 1.0) == "" == gpu_use_block([], 1.0)


def test_the_processes_of_a_job_that_used_a_gpu_most() -> None:
    first = ProcessShare(pid=11, name="a\x1b/python3", seconds=90.4, sm_mean=40.0, sm_max=90.0, mem_max_mib=300.0)
    second = ProcessShare(pid=12, seconds=0.4, is_accounted=True)
    told = gpu_use_block([replace(USE, processes=(first, second), more_processes=3)], 153.2)
    *_, one, two, others = told.partition("\n\n\nGPU Energy")[0].splitlines()
    indent = " " * 28
    assert one.startswith(f"{indent}Process 11 a") and "\x1b" not in one
    assert one.endswith(
        "python3: 90 seconds; SM Utilization (%): Avg 40, Max 90; Max GPU Memory Used: 314572800 bytes; by samples"
    )
    assert two == (
        f"{indent}Process 12 -: 0 seconds; SM Utilization (%): Avg -, Max -; Max GPU Memory Used: -; by accounting"
    )
    assert others == f"{indent}Other Processes: 3"
