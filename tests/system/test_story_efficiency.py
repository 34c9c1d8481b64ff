"""What is said of how well a job used what it asked for, through real daemons; and the smaller request, replayed."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster

from gsched.model.efficiency.verdicts import SPARE_CORES
from gsched.model.views.view import JobView

MIB = 1 << 20
WATTS = 300
HELD_MIB = 3000
ASKED = ("-n", "4", "-gpu", "num=4:mode=shared:j_exclusive=yes:gmem=20G", "-R", "rusage[mem=2000]", "-W", "120")


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Path:
    """The state of a machine with four GPUs, which nobody uses."""
    lines = ["count=4", "driver=570.86.10", f"since={time.time() - 1000}"]
    for index in range(4):
        lines += [f"gpu.{index}.uuid=GPU-{os.getpid():08x}-4444-4000-8000-{index:012d}", f"gpu.{index}.mem_mib=40960"]
        lines += [f"gpu.{index}.power_mw={WATTS * 1000}", f"gpu.{index}.energy_mj=ramp:{WATTS * 1000}:7"]
    (driver_folder / "state").write_text("\n".join(lines) + "\n")
    return driver_folder / "state"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Path) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.parent), GSCHED_FAKE_NVML=str(machine))
    params = (
        "Begin Parameters\nSBD_SLEEP_TIME = 0.2\nCPU_PEAK_SAMPLE_DURATION = 1\nEFFICIENCY_MIN_RUN = 1\n"
        "GPU_HOUR_PRICE = 36 EUR\nKWH_PRICE = 0.5 EUR\nEnd Parameters\n"
    )
    hosts = "Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n"
    cluster.configure(lsf_conf="GSCHED_GPU_USE_INTERVAL=0.2\n", lsb_params="=" + params, lsb_hosts="=" + hosts)
    cluster.run("gadmin", "reconfig", "-f")
    return cluster


def judged(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(cluster.run("geff", "-json", *words).stdout)["RECORDS"]
    return records


def codes(record: dict[str, Any]) -> list[str]:
    return [verdict["CODE"] for verdict in record["VERDICTS"]]


def is_well_seen(cluster: Cluster, job: int) -> bool:
    """The first moments, in which nobody looked, are by now a small part."""
    view = cluster.job(job)
    uses = view.usage.gpus if view.usage is not None else ()
    ran_s = time.time() - (view.dispatched_at or 0.0)
    return len(uses) == 4 and all(use.covered_s > 0.97 * ran_s and ran_s > 3.0 for use in uses)


def played(cluster: Cluster, machine: Path, *words: str) -> JobView:
    """A job that computes on the first two of its GPUs and holds some memory there, until it was looked at for long."""
    (cluster.folder / "stop").unlink(missing_ok=True)
    code = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.05)"
    job = cluster.submit(*words, "-o", "out", "python", "-c", code)
    view = cluster.starts(job)
    with machine.open("a") as state:
        for index in (0, 1):
            state.write(f"gpu.{index}.util=90\ngpu.{index}.used_mib={HELD_MIB}\n")
            state.write(f"gpu.{index}.procs={view.pid}:{HELD_MIB * MIB}\n")
    cluster.until(lambda: is_well_seen(cluster, job), "nobody looks at its GPUs")
    so_far = judged(cluster, str(job))[0]
    assert "efficiency.gpus_unused" in codes(so_far) and not so_far["IS_OVER"] and so_far["ENOUGH"] is None
    assert "so far 2 of 4 GPUs were never used" in cluster.run("geff", "-r", "-w").stdout
    (cluster.folder / "stop").touch()
    with machine.open("a") as state:
        state.writelines(f"gpu.{index}.util=0\ngpu.{index}.used_mib=0\ngpu.{index}.procs=\n" for index in (0, 1))
    (view,) = cluster.wait(job)
    assert view.state == "DONE"
    return view


@pytest.mark.nightly
def test_two_of_four_gpus_were_never_used(cluster: Cluster, machine: Path) -> None:
    view = played(cluster, machine, *ASKED)
    job = str(view.job_id)
    (record,) = judged(cluster, job)
    assert codes(record) == [
        *("efficiency.gpus_unused", "efficiency.cores", "efficiency.run_limit"),
        *("efficiency.gpu_memory", "efficiency.memory"),
    ]
    first = record["VERDICTS"][0]
    assert (first["WEIGHT"], first["VALUES"], first["TEXT"]) == ("grave", [2, 4], "2 of 4 GPUs were never used")
    assert [gpu["NEVER_USED"] for gpu in record["GPUS"]] == [False, False, True, True]
    assert 80 < record["GPUS"][0]["SM_UTILIZATION"] <= 90 and record["GPUS"][2]["SM_UTILIZATION"] == 0
    told_of(cluster, record)
    replayed(cluster, record, view)


def told_of(cluster: Cluster, record: dict[str, Any]) -> None:
    """The same in every layout, and what it cost."""
    hours, joules = record["GPU_TIME"] / 3600, record["GPU_ENERGY_CONSUMED"]
    assert joules == pytest.approx(4 * WATTS * record["RUN_TIME"], rel=0.5)
    assert record["COST"]["TOTAL"] == pytest.approx(36 * hours + 0.5 * joules / 3.6e6, abs=1e-5)
    text = cluster.run("geff", record["JOBID"]).stdout
    assert "\n VERDICT 2 of 4 GPUs were never used\n" in text and f"\n ENOUGH  {record['ENOUGH']}\n" in text
    assert f" GPU {cluster.host}:0 " in text and " EUR (GPU time " in text
    (row,) = [row for row in cluster.run("geff", "-u", "me", "-since", "1h").stdout.splitlines() if "never used" in row]
    assert row.split()[0] == record["JOBID"]
    report = (cluster.folder / "out").read_text()
    assert f"\nEfficiency: 2 of 4 GPUs were never used (geff {record['JOBID']}).\n" in report
    cluster.kill("master")
    cluster.up()
    assert judged(cluster, record["JOBID"]) == [record]
    (week,) = json.loads(cluster.run("geff", "-sum", "user", "-weeks", "2", "-json").stdout)["RECORDS"][-1:]
    assert week["GPU_TIME"] == pytest.approx(record["GPU_TIME"], abs=0.01) and week["GPU_JOBS"] == 1
    assert week["GPU_TIME_WASTED"] >= 2 * record["GPUS"][2]["SEEN_TIME"] - 0.01
    assert week["GPU_ENERGY_CONSUMED"] == joules and week["COST"] == record["COST"]


def replayed(cluster: Cluster, record: dict[str, Any], used: JobView) -> None:
    """What is said to be enough is accepted, and holds what was really used."""
    words = shlex.split(record["ENOUGH"])
    assert words[words.index("-gpu") + 1] == "num=2:mode=shared:j_exclusive=yes:gmem=3840M"
    assert used.result is not None
    job = cluster.submit(*words, "sleep", "300")
    view = cluster.starts(job)
    assert view.allocation is not None
    (part,) = view.allocation.hosts
    assert len(part.gpus) == 2 and all(gpu.gmem_mib >= HELD_MIB for gpu in part.gpus)
    assert part.amounts["mem"] >= (used.result.usage.max_mem_mib or 0.0) > 0.0
    assert 4 > part.slots >= (used.result.usage.cpu_peak or 0.0) - SPARE_CORES
    assert 7200 > (view.spec.run_limit_s or 0) >= used.result.run_s
    cluster.run("gkill", "-r", str(job))
    cluster.wait(job)


def test_of_what_is_unknown_nothing_is_said(cluster: Cluster) -> None:
    job = cluster.submit("-o", "short", "true")
    cluster.wait(job)
    (record,) = judged(cluster, str(job))
    assert codes(record) == ["efficiency.short"] and record["ENOUGH"] is None and record["GPUS"] == []
    assert "Efficiency" not in (cluster.folder / "short").read_text()
    missing = cluster.run("geff", str(job), "4711", check=False)
    assert (missing.returncode, missing.stderr) == (255, "Job <4711> is not found\n")
    held = cluster.submit("-H", "true")
    assert codes(judged(cluster, str(held))[0]) == ["efficiency.not_started"]
    cluster.run("gkill", str(held))
    cluster.wait(held)
    assert codes(judged(cluster, str(held))[0]) == ["efficiency.never_ran"]
