"""What is kept of jobs without -o is cut where it becomes too much, however it was written."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gsched.agent.output import output_quota
from gsched.agent.output.output_quota import OutputQuota, cut_line

MIB = 1 << 20


def folder(path: Path, **streams: int) -> Path:
    path.mkdir(exist_ok=True)
    for name, size in streams.items():
        (path / name).write_bytes(b"x" * size)
    return path


def test_what_is_too_much_is_cut_and_a_line_says_so(tmp_path: Path) -> None:
    quota, attempt = OutputQuota(1), folder(tmp_path / "7.1", stdout=MIB + 5000)
    assert quota.cut(attempt) is True
    data = (attempt / "stdout").read_bytes()
    assert data == b"x" * MIB + cut_line(MIB)
    assert cut_line(MIB).endswith(b"no more than 1 MiB of it are kept (GSCHED_KEPT_OUTPUT_MIB)]\n")
    assert quota.cut(attempt) is False and (attempt / "stdout").read_bytes() == data
    with (attempt / "stdout").open("ab") as job:  # it goes on
        job.write(b"more" * 1000)
    assert quota.cut(attempt) is True and (attempt / "stdout").read_bytes() == data


def test_what_is_not_too_much_is_left_alone(tmp_path: Path) -> None:
    attempt = folder(tmp_path / "7.1", stdout=MIB)
    assert OutputQuota(1).cut(attempt) is False and (attempt / "stdout").stat().st_size == MIB
    assert OutputQuota(1).cut(tmp_path / "gone") is False


def test_both_streams_together_have_what_a_job_has(tmp_path: Path) -> None:
    attempt = folder(tmp_path / "7.1", stdout=3 * MIB, stderr=100)
    OutputQuota(2).cut(attempt)
    assert (attempt / "stdout").read_bytes() == b"x" * MIB + cut_line(MIB)
    assert (attempt / "stderr").stat().st_size == 100
    (attempt / "stderr").write_bytes(b"e" * 3 * MIB)
    OutputQuota(3).cut(attempt)
    assert (attempt / "stderr").read_bytes() == b"e" * (3 * MIB // 2) + cut_line(3 * MIB // 2)
    assert b"1.5 MiB" in cut_line(3 * MIB // 2)


def test_a_job_that_writes_where_it_likes_is_cut_too(tmp_path: Path) -> None:
    attempt = folder(tmp_path / "7.1", stdout=10)
    with (attempt / "stdout").open("r+b") as job:
        job.seek(1 << 40)
        job.write(b"far")
    assert OutputQuota(1).cut(attempt) is True
    assert (attempt / "stdout").stat().st_size == MIB + len(cut_line(MIB))


def test_room_that_is_taken_beyond_the_end_is_given_back(tmp_path: Path) -> None:
    """fallocate(2) takes room without making the file longer."""
    attempt = folder(tmp_path / "7.1", stdout=10)
    words = ["fallocate", "--keep-size", "--length", str(8 * MIB), str(attempt / "stdout")]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no fallocate here")
    if done.returncode or (attempt / "stdout").stat().st_blocks * 512 < 8 * MIB:
        pytest.skip(f"this file system does not take room in advance: {done.stderr.strip()}")
    assert OutputQuota(1).cut(attempt) is True
    status = (attempt / "stdout").stat()
    assert (attempt / "stdout").read_bytes() == b"x" * 10 and status.st_blocks * 512 <= MIB
    assert OutputQuota(1).cut(attempt) is False


def test_no_link_leads_it_elsewhere(tmp_path: Path) -> None:
    attempt, other = folder(tmp_path / "7.1"), tmp_path / "other"
    other.write_bytes(b"x" * 3 * MIB)
    (attempt / "stdout").symlink_to(other)
    assert OutputQuota(1).cut(attempt) is False and other.stat().st_size == 3 * MIB
    os.mkfifo(attempt / "stderr")
    assert OutputQuota(1).cut(attempt) is False


LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.read()
"""


def test_a_job_that_has_a_lease_on_its_output_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The kernel takes it away after a while; until then nothing waits, and the log is not filled."""
    quota, attempt = OutputQuota(1), folder(tmp_path / "7.1", stdout=3 * MIB)
    words = [sys.executable, "-c", LEASE, str(attempt / "stdout")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        assert job.stdin is not None and job.stdout is not None
        if job.stdout.readline() != b"leased\n":
            pytest.skip("this file system has no leases")
        assert [quota.cut(attempt) for _ in range(5)] == [False] * 5
        assert caplog.text.count("cannot be cut") == 1
        job.stdin.close()
    assert quota.cut(attempt) is True
    assert (attempt / "stdout").stat().st_size == MIB + len(cut_line(MIB))


def test_jobs_that_run_are_looked_at_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_quota, "LOOK_S", 0.01)
    first, second = folder(tmp_path / "7.1", stdout=3 * MIB), folder(tmp_path / "8.1", stdout=10)

    async def story() -> None:
        watching = asyncio.create_task(OutputQuota(1).watch(lambda: [first, tmp_path / "gone", second]))
        for attempt in (first, second, first):
            with (attempt / "stdout").open("ab") as job:
                job.write(b"y" * 3 * MIB)
            async with asyncio.timeout(60):
                while (attempt / "stdout").stat().st_size != MIB + len(cut_line(MIB)):
                    await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(story())
