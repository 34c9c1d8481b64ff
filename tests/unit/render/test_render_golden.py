"""Transcripts of LSF 10.1, reproduced byte for byte (blanks at line ends aside, which the transcripts have lost)."""

from __future__ import annotations

from datetime import UTC

import pytest
from seed_jobs import HERE, at, golden, gpu_job, histories, host, job, stripped

from gsched.cli.render.hosts import host_tables
from gsched.cli.render.jobs import job_table, jobs_long
from gsched.cli.render.jobs.history import render_history
from gsched.model.jobs.job import AttemptResult, Usage


@pytest.mark.parametrize("job_id", sorted(histories()))
def test_bhist_long(job_id: int) -> None:
    record, now = histories()[job_id]
    assert stripped(render_history([record], UTC, now)) == golden(f"bhist_{job_id}.txt")


def test_bjobs_long_of_a_running_gpu_job() -> None:
    usage = Usage(
        cpu_s=117.0,
        mem_mib=277,
        swap_mib=0,
        max_mem_mib=277,
        avg_mem_mib=274,
        threads=78,
        pgid=12981,
        pids=(12981, 12985, 12987, 12988, 12989, 12990),
        sampled_at=at(7, "17:35:01"),
    )
    record = gpu_job(1153, at(7, "17:34:02"), "2", "train_quick.sh", 1, usage=usage)
    assert stripped(jobs_long.render_long([record], UTC)) == golden("bjobs_1153.txt")


def test_bjobs_long_of_a_failed_gpu_job() -> None:
    """The transcript leaves the middle out with `...`; what stands before and after it must agree."""
    record = gpu_job(
        1154,
        at(7, "17:34:04"),
        "3",
        "train_quick.sh",
        1,
        state="EXIT",
        finished_at=at(7, "17:34:05"),
        end=AttemptResult(exit_code=134),
    )
    text = stripped(jobs_long.render_long([record], UTC))
    before, after = golden("bjobs_1154.txt").split("...\n")
    assert text.startswith(before)
    assert text.endswith(after)
    between = text.removeprefix(before).removesuffix(after)
    assert between.startswith("Fri Jul  7 17:34:05: Exited with exit code 134. The CPU time used is 0.0 second\n")


@pytest.mark.parametrize(("job_id", "gpus"), [(1155, "2,3"), (1156, "0,1")])
def test_bjobs_long_through_grep(job_id: int, gpus: str) -> None:
    record = gpu_job(job_id, at(7, "17:39:00"), gpus, "train_01.sh", 2)
    lines = jobs_long.render_long([record], UTC).splitlines(keepends=True)
    assert stripped("".join(line for line in lines if "gpu" in line)) == golden(f"bjobs_{job_id}_grep.txt")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_bhosts_long(number: int) -> None:
    """Transcripts 3 to 5 end after the load table."""
    text, expected = stripped(host_tables.render_long([host(number)])), golden(f"bhosts_l_{number}.txt")
    assert text == expected if number <= 2 else text.startswith(expected)


def test_bjobs_list() -> None:
    running = job(1033, at(7, "10:27:55"), placed=HERE)
    assert stripped(job_table.render_short([running], UTC)) == golden("bjobs_list_1.txt") == golden("bjobs_list_2.txt")
    three = [
        job(1269, at(7, "18:02:07"), "train_01.sh", placed=HERE),
        job(1270, at(7, "18:02:11"), "train_01.sh", placed=HERE),
        job(1271, at(7, "18:02:15"), "train_01.sh", state="PEND"),
    ]
    assert job_table.render_short(three, UTC) == golden("bjobs_list_3.txt")
