"""The walk-through: jobs that ask for GPUs get GPUs of their own, and everything shows it."""

from __future__ import annotations

import getpass
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

pytestmark = pytest.mark.smoke

USER = getpass.getuser()
STAMP = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d"
PAIR = "select[ngpus>0] rusage[ngpus_excl_p=2]"
SINGLE = "select[ngpus>0] rusage[ngpus_excl_p=1]"
SUDO_WARNING = "Warning: sudo does not pass on CUDA_VISIBLE_DEVICES, so the program sees every GPU of the host"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture(autouse=True)
def all_free(cluster: Cluster) -> Iterator[None]:
    """Each test begins and ends with an idle cluster."""
    yield
    cluster.end_jobs()
    assert counts(cluster) == ("4.0", "0.0")


def held(cluster: Cluster, requirement: str, name: str) -> int:
    """Submit a job that writes its environment to `env.JOB` and runs until the file `name` is there."""
    script = f'env > "env.$LSB_JOBID"; while [ ! -e {name} ]; do sleep 0.02; done'
    return cluster.submit("-R", requirement, "sh", "-c", script)


def environment(cluster: Cluster, job: int) -> dict[str, str]:
    cluster.starts(job)
    path = cluster.folder / f"env.{job}"
    cluster.until(lambda: path.exists() and "LSB_JOBID" in path.read_text(), f"no {path}")
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def table(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Total and Reserved of every column of `ghosts -l`."""
    lines = cluster.run("ghosts", "-l").stdout.splitlines()
    found: dict[str, tuple[str, str]] = {}
    for number in range(len(lines) - 1):
        if lines[number + 1].startswith(" Total"):
            names, totals, reserved = (lines[number + below].split() for below in range(3))
            found.update(zip(names, zip(totals[1:], reserved[1:], strict=True), strict=True))
    return found


def counts(cluster: Cluster) -> tuple[str, str]:
    return table(cluster)["ngpus_excl_p"]


def unfolded(text: str) -> str:
    """LSF's records without their folds; none may be wider than 79 columns."""
    assert [line for line in text.splitlines() if len(line) > 80] == []
    return re.sub(r"\n {21}", "", text)


def message_row(cluster: Cluster, job: int) -> str:
    lines = cluster.run("gjobs", "-l", str(job)).stdout.splitlines()
    start = lines.index(" EXTERNAL MESSAGES:")
    assert lines[start + 1] == " MSG_ID FROM       POST_TIME      MESSAGE                             ATTACHMENT"
    return lines[start + 2]


def test_ghosts_l_shows_load_and_gpus(cluster: Cluster) -> None:
    text = cluster.run("ghosts", "-l").stdout
    lines = text.splitlines()
    assert lines[0] == f"HOST  {cluster.host}"
    assert lines[1] == "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW"
    assert lines[2] == "ok               1.00     -     16      0      0      0      0      0      -"
    assert lines[3:5] == ["", " CURRENT LOAD USED FOR SCHEDULING:"]
    assert lines[5] == ("                r15s   r1m  r15m    ut    pg    io   ls    it   tmp   swp   mem  slots  ngpus")
    assert lines[6].startswith(" Total      ")
    assert lines[6].endswith("     16    4.0")
    assert lines[7] == (" Reserved        0.0   0.0   0.0    0%   0.0     0    0     0    0M    0M    0M      -    0.0")
    assert lines[8:12] == [
        "",
        "               ngpus_shared ngpus_excl_t ngpuprohibited ngpus_excl_p",
        " Total                  0.0          0.0            0.0          4.0",
        " Reserved               0.0          0.0            0.0          0.0",
    ]
    assert " LOAD THRESHOLD USED FOR SCHEDULING:" in lines
    assert " CONFIGURED AFFINITY CPU LIST: all" in lines
    cluster.until(lambda: table(cluster)["mem"][0].endswith(("G", "M")), "no load")


def test_the_short_listings(cluster: Cluster) -> None:
    host = cluster.host
    hosts = cluster.run("ghosts").stdout.splitlines()
    assert hosts == [
        "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV ",
        f"{host:<18.18} ok              -     16      0      0      0      0      0 ",
    ]
    load = cluster.run("gload").stdout.splitlines()
    assert load[0] == "HOST_NAME       status  r15s   r1m  r15m   ut    pg  ls    it   tmp   swp   mem"
    assert load[1].startswith(f"{host:<15.15}     ok ")
    queues = cluster.run("gqueues").stdout.splitlines()
    assert queues[0] == "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP"
    assert [line.split()[0] for line in queues[1:]] == ["short", "normal", "night"]
    assert queues[2].split() == ["normal", "30", "Open:Active", "-", "-", "-", "-", "0", "0", "0", "0"]
    names = cluster.run("gid").stdout
    assert "\nMy cluster name is private\n" in names
    assert f"\nMy master name is {host}\n" in names


def test_a_job_without_a_gpu_runs_and_its_history_says_how_to_get_one(cluster: Cluster) -> None:
    job = cluster.submit("true")
    assert [view.state for view in cluster.wait(job)] == ["DONE"]
    history = unfolded(cluster.run("ghist", "-l", str(job)).stdout)
    assert (
        ': No GPU was requested, so the job sees none; to get one: -R "select[ngpus>0] rusage[ngpus_excl_p=1]"'
        in history
    )
    assert "Effective RES_REQ <select[type == local] order[r15s:pg] >;\n" in history
    assert "External Message" not in history


def test_two_jobs_of_one_gpu_each(cluster: Cluster) -> None:
    assert counts(cluster) == ("4.0", "0.0")
    first = held(cluster, SINGLE, "go1")
    cluster.starts(first)
    assert counts(cluster) == ("3.0", "1.0")
    second = held(cluster, SINGLE, "go1")
    cluster.starts(second)
    assert counts(cluster) == ("2.0", "2.0")
    assert table(cluster)["ngpus"] == ("4.0", "0.0")
    gpus = []
    for job in (first, second):
        seen = environment(cluster, job)
        assert re.fullmatch(r"[0-3]", cluster.granted(seen))
        assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        gpus.append(cluster.granted(seen))
        row = message_row(cluster, job)
        assert (row[1:8], row[8:19]) == ("0      ", f"{USER:<10.10} ")
        assert re.fullmatch(r"[A-Z][a-z]{2} [ 123]\d \d\d:\d\d", row[19:31])
        message = f"{cluster.host}:gpus={cluster.granted(seen)};"
        assert row[31:] == f"   {message:<35}     N"
    assert len(set(gpus)) == 2
    (cluster.folder / "go1").touch()
    assert [view.state for view in cluster.wait(first, second)] == ["DONE", "DONE"]
    assert counts(cluster) == ("4.0", "0.0")


def test_gjobs_l_of_a_gpu_job(cluster: Cluster) -> None:
    job = held(cluster, SINGLE, "go2")
    cluster.starts(job)
    text = cluster.run("gjobs", "-l", str(job)).stdout
    host, home, cwd = cluster.host, os.path.expanduser("~"), cluster.folder
    flat = unfolded(text)
    assert re.search(
        rf"^\nJob <{job}>, User <{USER}>, Project <default>, Status <RUN>, Queue <normal>, Command <sh -c .*>\n"
        rf"{STAMP}: Submitted from host <{host}>, CWD <{cwd}>, "
        rf"Requested Resources <{re.escape(SINGLE)}>;\n"
        rf"{STAMP}: Started 1 Task\(s\) on Host\(s\) <{host}>, Allocated 1 Slot\(s\) on Host\(s\) <{host}>, "
        rf"Execution Home <{home}>, Execution CWD <{cwd}>;\n",
        flat,
    ), flat
    requirement = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=1.00]"
    assert f"\n RESOURCE REQUIREMENT DETAILS:\n Combined: {requirement}\n Effective: {requirement}\n" in flat
    assert "WARNINGS" not in flat
    (cluster.folder / "go2").touch()
    cluster.wait(job)


def test_two_pairs_are_disjoint_and_a_third_waits_for_the_first(cluster: Cluster) -> None:
    first, second = held(cluster, PAIR, "go3"), held(cluster, PAIR, "go4")
    seen = [cluster.granted(environment(cluster, job)) for job in (first, second)]
    assert all(re.fullmatch(r"[0-3],[0-3]", gpus) for gpus in seen)
    assert sorted(",".join(seen).split(",")) == ["0", "1", "2", "3"]
    assert counts(cluster) == ("0.0", "4.0")

    third = held(cluster, PAIR, "go4")
    reason = (
        "Job's requirements for reserving resource (ngpus_excl_p) not satisfied: 1 host "
        f"(2 wanted, 0 of 4 free on {cluster.host})"
    )
    assert cluster.why_pending(third) == reason
    rows = cluster.run("gjobs").stdout.splitlines()
    assert rows[0] == "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"
    host = f"{cluster.host:<11.11}"
    for row, job, state, where in zip(
        rows[1:], (first, second, third), ("RUN", "RUN", "PEND"), (host, host, " " * 11), strict=True
    ):
        assert row.startswith(f"{job:<7} {USER:<7.7} {state:<5} normal     {host} {where} ")
    *told, found_at = cluster.run("gjobs", "-p").stdout.splitlines()[1:]
    assert told == [rows[3], f" {reason};"] and re.fullmatch(r" \(as of [0-9:]{8}\)", found_at)
    long = unfolded(cluster.run("gjobs", "-l", str(third)).stdout)
    assert re.search(rf"\n PENDING REASONS \(as of [0-9:]{{8}}\):\n {re.escape(reason)};\n", long)

    (cluster.folder / "go3").touch()
    took_over = cluster.starts(third)
    ended = cluster.wait(first)[0]
    assert took_over.dispatched_at is not None
    assert ended.finished_at is not None
    assert took_over.dispatched_at >= ended.finished_at
    assert cluster.granted(environment(cluster, third)) == seen[0]
    (cluster.folder / "go4").touch()
    assert {view.state for view in cluster.wait(second, third)} == {"DONE"}


def test_sudo_runs_and_is_warned_of(cluster: Cluster, tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nexec env -i PATH="$PATH" "$@"\n')
    train = cluster.folder / "train.sh"
    train.write_text("#!/bin/sh\necho $LD_LIBRARY_PATH ${CUDA_VISIBLE_DEVICES-every GPU}\n")
    for path in (sudo, train):
        path.chmod(0o755)
    words = ("-o", "sudo.out", "-R", SINGLE, "sudo", "LD_LIBRARY_PATH=/opt/DL/lib:/opt/nccl/lib", "./train.sh")
    done = cluster.run("gsub", *words, PATH=f"{tmp_path}:{cluster.env['PATH']}")
    found = re.fullmatch(r"Job <(\d+)> is submitted to default queue <normal>\.\n", done.stdout)
    assert found is not None
    warned = "" if cluster.is_fenced() else SUDO_WARNING  # the fence needs no variable
    assert done.stderr.startswith(warned)
    assert done.stderr.count("\n") == bool(warned)
    job = int(found[1])
    assert [view.state for view in cluster.wait(job)] == ["DONE"]
    assert printed(cluster.folder / "sudo.out") == "/opt/DL/lib:/opt/nccl/lib every GPU\n"
    flat = unfolded(cluster.run("gjobs", "-l", str(job)).stdout)
    assert "Command <sudo LD_LIBRARY_PATH=/opt/DL/lib:/opt/nccl/lib ./train.sh>\n" in flat
    assert (f"\n WARNINGS:\n {SUDO_WARNING.removeprefix('Warning: ')}" in flat) == bool(warned)


def times(history: str) -> dict[str, int]:
    """The table of seconds per state at the end of a history."""
    head, row = history.rstrip("\n").splitlines()[-2:]
    assert head == "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL"
    return dict(zip(head.split(), map(int, row.split()), strict=True))


def test_ghist_l_of_a_gpu_job_that_worked(cluster: Cluster) -> None:
    code = "import time\nend = time.process_time() + 1.3\nwhile time.process_time() < end: pass"
    job = cluster.submit("-R", PAIR, "python", "-c", code)
    began = time.monotonic()
    view = cluster.wait(job)[0]
    took = time.monotonic() - began
    history = cluster.run("ghist", "-l", str(job)).stdout
    flat = unfolded(history)
    host, home, cwd = cluster.host, os.path.expanduser("~"), cluster.folder
    found = re.search(
        rf"^\nJob <{job}>, User <{USER}>, Project <default>, Command <python -c .*>\n"
        rf"{STAMP}: Submitted from host <{host}>, to Queue <normal>, CWD <{cwd}>, "
        rf"Requested Resources <{re.escape(PAIR)}>;\n"
        rf"{STAMP}: Dispatched 1 Task\(s\) on Host\(s\) <{host}>, Allocated 1 Slot\(s\) on Host\(s\) <{host}>, "
        r"Effective RES_REQ <select\[\(ngpus>0\) && \(type == local\)\] order\[r15s:pg\] "
        r"rusage\[ngpus_excl_p=2.00\] >;\n"
        rf"{STAMP}: Starting \(Pid (\d+)\);\n"
        rf"{STAMP}: Running with execution home <{home}>, Execution CWD <{cwd}>, Execution Pid <(\d+)>;\n"
        rf'{STAMP}: External Message "{host}:gpus=[0-3],[0-3];" was posted from "{USER}" to message box 0;\n'
        rf"{STAMP}: Done successfully. The CPU time used is (\d+\.\d) seconds;\n"
        rf"{STAMP}: Post job process done successfully;\n"
        r"\nMEMORY USAGE:\nMAX MEM: \d+ Mbytes;  AVG MEM: \d+ Mbytes\n"
        r"(?:\nCPU USAGE:\nCPU PEAK: [\d.]+ ;  CPU PEAK DURATION: \d+ second\(s\)\n"
        r"CPU AVERAGE EFFICIENCY: [\d.]+% ;  CPU PEAK EFFICIENCY: [\d.]+%\n"
        r"CPU AVERAGE: [\d.]+ ;  CPU TIME: [\d.]+ second\(s\)\n)?"
        r"(?:\nI/O USAGE:\nREAD: [\d.]+ \wbytes;  WRITTEN: [\d.]+ \wbytes\n(?:DISK READ: .*\n)?)?"
        rf"\nSummary of time in seconds spent in various states by  {STAMP}\n",
        flat,
        re.DOTALL,
    )
    assert found is not None, flat
    assert found[1] == found[2] == str(view.pid)
    assert 1.2 < float(found[3]) <= took + 0.1
    spent = times(history)
    assert spent.pop("TOTAL") == sum(spent.values())
    assert 1 <= spent["RUN"] <= took + 1
    assert spent["PEND"] <= took + 1


def test_a_command_that_aborts_under_a_shell_ends_as_134(cluster: Cluster) -> None:
    train = cluster.folder / "abort.sh"
    train.write_text("#!/bin/sh\nulimit -c 0\nsh -c 'kill -ABRT $$'\n")
    train.chmod(0o755)
    job = cluster.submit("./abort.sh")
    view = cluster.wait(job)[0]
    assert (view.state, view.result and view.result.exit_code) == ("EXIT", 134)
    flat = unfolded(cluster.run("ghist", "-l", str(job)).stdout)
    assert re.search(
        rf"{STAMP}: Exited with exit code 134. The CPU time used is \d+\.\d seconds;\n{STAMP}: Completed <exit>;\n",
        flat,
    ), flat
    spent = times(flat)
    assert spent.pop("TOTAL") == sum(spent.values())
    assert re.search(
        rf"{STAMP}: Exited with exit code 134. The CPU time used is \d+\.\d seconds.\n{STAMP}: Completed <exit>.\n",
        unfolded(cluster.run("gjobs", "-l", str(job)).stdout),
    )


@pytest.mark.parametrize("number", [9, 15])
def test_a_command_that_dies_of_a_signal_itself(cluster: Cluster, number: int) -> None:
    job = cluster.submit(f"kill -{number} $$")
    view = cluster.wait(job)[0]
    assert view.state == "EXIT"
    flat = unfolded(cluster.run("ghist", "-l", str(job)).stdout)
    assert re.search(rf"{STAMP}: Exited by signal {number}. The CPU time used is \d+\.\d seconds;\n", flat), flat
    assert f": Exited by signal {number}." in unfolded(cluster.run("gjobs", "-l", str(job)).stdout)


def test_time_spent_waiting_is_counted(cluster: Cluster) -> None:
    first = held(cluster, "rusage[ngpus_excl_p=4]", "go5")
    cluster.starts(first)
    second = cluster.submit("-R", SINGLE, "true")
    cluster.why_pending(second)
    time.sleep(1.1)
    (cluster.folder / "go5").touch()
    cluster.wait(first, second)
    spent = times(cluster.run("ghist", "-l", str(second)).stdout)
    assert spent["PEND"] >= 1
    assert spent.pop("TOTAL") == sum(spent.values())
