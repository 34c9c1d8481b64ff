"""A walk through LSF on one GPU server, under LSF's names: each line typed there, with the shape of its answer.

The story: two training jobs that ask for no GPU, then jobs that ask for one GPU, for two, and for more than is free.
The shapes are those of LSF 10.1's answers: what stands in which line and column, where a line is folded.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system

LIBRARIES = "LD_LIBRARY_PATH=/opt/DL/openblas/lib:/opt/DL/nccl/lib:/opt/DL/caffe-nv/lib"
TRAIN = f"sudo {LIBRARIES} time ./examples/cifar10/train_quick.sh"
TRAIN_TWO = TRAIN.replace("train_quick.sh", "train_01.sh")
ONE_GPU = 'bsub -R "select[ngpus>0] rusage[ngpus_excl_p=1]" ' + TRAIN
TWO_GPUS = 'bsub -R "select[ngpus>0] rusage[ngpus_excl_p=2]" ' + TRAIN_TWO
HEADING = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"
DAY = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
INDENT = " " * 21
# Each job waits until the test lets it end, and then ends with the code that the test names.
SCRIPT = """#!/usr/bin/env sh
until [ -e {told} ]; do sleep 0.05; done
read code < {told}
exit $code
"""


class Server:
    """The machine of the story: the user's shell in the folder that the training scripts are called from."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.user = cluster.run("whoami").stdout.strip()
        self.host = cluster.run("gid").stdout.split()[-1]
        self.folder = cluster.folder / "caffe-nv"
        scripts = self.folder / "examples" / "cifar10"
        scripts.mkdir(parents=True)
        tools = cluster.folder / "tools"
        tools.mkdir()
        for name in ("train_quick.sh", "train_01.sh"):
            self._program(scripts / name, SCRIPT.format(told=f"{cluster.folder}/end.$LSB_JOBID"))
        self._program(tools / "sudo", '#!/bin/sh\nexec env "$@"\n')
        self._program(tools / "time", '#!/bin/sh\nexec "$@"\n')
        cluster.run("gsched", "names", "lsf", str(cluster.folder / "bin"))
        self.env = {
            "PATH": f"{cluster.folder}/bin:{tools}:/usr/bin:/bin",
            "HOME": str(tools),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def types(self, line: str, answers: str = "") -> str:
        """A line as the user types it; returns all that the terminal shows."""
        done = subprocess.run(
            ["bash", "-c", line],
            input=answers,
            env=self.env,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def submits(self, line: str) -> int:
        """A bsub; a line of its answer is LSF's sentence (another warns of sudo)."""
        told = self.types(line)
        found = re.search(r"^Job <(\d+)> is submitted to default queue <normal>\.$", told, re.MULTILINE)
        assert found is not None, told
        return int(found[1])

    def runs(self, *jobs: int) -> None:
        for job in jobs:
            self._cluster.starts(job)

    def ends(self, job: int, code: int = 0) -> None:
        """Let the job's script exit."""
        told = self._cluster.folder / "told"
        told.write_text(f"{code}\n")
        told.rename(self._cluster.folder / f"end.{job}")
        self._cluster.wait(job)


@pytest.fixture
def server(module_cluster: Callable[..., Cluster]) -> Server:
    return Server(module_cluster("--sim-gpus", "4:exclusive_process"))


def unfolded(text: str) -> str:
    """A record of bjobs -l or bhist -l without its folds."""
    return text.replace("\n" + INDENT, "")


def counts(text: str) -> dict[str, list[str]]:
    """bhosts -l: name of a GPU resource -> Total and Reserved."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == ["ngpus_shared"])
    assert re.fullmatch(r" +r15s +r1m +r15m +ut +pg +io +ls +it +tmp +swp +mem +slots +ngpus", lines[at - 4])
    total, reserved = (line.split() for line in lines[at + 1 : at + 3])
    assert (total[0], reserved[0]) == ("Total", "Reserved")
    ngpus = [line.split()[-1] for line in lines[at - 3 : at - 1]]
    return dict(zip(lines[at].split(), zip(total[1:], reserved[1:], strict=True), strict=True)) | {"ngpus": ngpus}


def test_the_commands_of_the_walk_through_answer_as_lsf_does(server: Server) -> None:
    a_server_is_looked_at(server)
    jobs_that_ask_for_no_gpu(server)
    jobs_that_ask_for_one(server)
    jobs_that_ask_for_two(server)


def a_server_is_looked_at(server: Server) -> None:
    told = server.types("timeout 60 elim.gpu | head -1")
    assert told == "4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4\n"
    assert server.types(". $(dirname $(command -v bsub))/profile.lsf; cd $LSF_ENVDIR; ls lsf.shared lsf.cluster.*")
    told = server.types("lsadmin reconfig", "n\ny\n")
    assert "Checking configuration files ...\n" in told and "No errors found.\n" in told
    assert f"Restart LIM on <{server.host}> ...... done\n" in told
    told = server.types("badmin reconfig")
    assert "\nChecking configuration files ...\n" in told and "No errors found.\n" in told
    assert told.endswith("Reconfiguration initiated\n")
    told = server.types("bhosts -l")
    lines = told.splitlines()
    assert lines[0] == f"HOST  {server.host}"
    assert lines[1] == "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW"
    assert re.fullmatch(r"ok +\d+\.\d\d +- +\d+ +0 +0 +0 +0 +0 +-", lines[2])
    assert " CURRENT LOAD USED FOR SCHEDULING:" in lines and " LOAD THRESHOLD USED FOR SCHEDULING:" in lines
    assert " CONFIGURED AFFINITY CPU LIST: all" in lines
    found = counts(told)
    assert list(found["ngpus"]) == ["4.0", "0.0"] and found["ngpus_excl_p"] == ("4.0", "0.0")


def jobs_that_ask_for_no_gpu(server: Server) -> None:
    first, second = server.submits(f"bsub {TRAIN}"), server.submits(f"bsub {TRAIN}")
    server.runs(first, second)
    heading, *rows = server.types("bjobs").splitlines()
    assert heading == HEADING
    row = f"{{:<7d}} {server.user:<7.7s} RUN   normal     {server.host:<11.11s} {server.host:<11.11s} *_quick.sh "
    assert [each[:-12] for each in rows] == [row.format(first), row.format(second)]
    assert all(re.fullmatch(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d", each[-12:]) for each in rows)
    assert counts(server.types("bhosts -l"))["ngpus_excl_p"] == ("4.0", "0.0"), "nobody asked for one"
    server.ends(first)
    server.ends(second, 134)
    assert server.types("bjobs") == "No unfinished job found\n"
    told = server.types(f"bhist -l {first}")
    assert told.startswith(f"\nJob <{first}>, User <{server.user}>, Project <default>, Command <sudo LD_LIBRARY_PATH=")
    assert all(len(line) <= 79 for line in told.splitlines()[:20])
    record = unfolded(told)
    host = server.host
    for sentence in (
        f"Submitted from host <{host}>, to Queue <normal>, CWD <{server.folder}>;",
        f"Dispatched 1 Task(s) on Host(s) <{host}>, Allocated 1 Slot(s) on Host(s) <{host}>, "
        "Effective RES_REQ <select[type == local] order[r15s:pg] >;",
        r"Starting (Pid ",
    ):
        assert re.search(f"^{DAY}: {re.escape(sentence)}", record, re.MULTILINE), (sentence, record)
    assert re.search(rf"^{DAY}: Done successfully\. The CPU time used is [\d.]+ seconds;$", record, re.MULTILINE)
    assert re.search(rf"^{DAY}: Post job process done successfully;$", record, re.MULTILINE)
    check_summary(told)
    record = unfolded(server.types(f"bhist -l {second}"))
    assert re.search(
        rf"^{DAY}: Exited with exit code 134\. The CPU time used is [\d.]+ seconds;$", record, re.MULTILINE
    )
    assert re.search(rf"^{DAY}: Completed <exit>;$", record, re.MULTILINE)


def check_summary(told: str) -> None:
    """The end of bhist -l: seconds by state, and their sum."""
    head, names, row = told.splitlines()[-3:]
    assert re.fullmatch(f"Summary of time in seconds spent in various states by  {DAY}", head)
    assert names == "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL"
    *parts, total = (int(word) for word in row.split())
    assert len(parts) == 6 and sum(parts) == total


def jobs_that_ask_for_one(server: Server) -> None:
    jobs = []
    for left in ("3.0", "2.0"):
        jobs.append(server.submits(ONE_GPU))
        server.runs(jobs[-1])
        found = counts(server.types("bhosts -l"))
        assert found["ngpus_excl_p"] == (left, f"{4 - float(left):.1f}") and list(found["ngpus"]) == ["4.0", "0.0"]
    gpus = set()
    for job in jobs:
        told = server.types(f"bjobs -l {job}")
        assert told.startswith(
            f"\nJob <{job}>, User <{server.user}>, Project <default>, Status <RUN>, Queue <normal>, "
        )
        record = unfolded(told)
        assert "Requested Resources <select[ngpus>0] rusage[ngpus_excl_p=1]>;\n" in record
        told_where = f"Started 1 Task(s) on Host(s) <{server.host}>, Allocated 1 Slot(s) on Host(s) <{server.host}>, "
        assert told_where + "Execution Home <" in record
        combined = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=1.00]"
        assert f" RESOURCE REQUIREMENT DETAILS:\n Combined: {combined}\n Effective: {combined}\n" in record
        table = " MSG_ID FROM       POST_TIME      MESSAGE                             ATTACHMENT\n"
        message = record.split(" EXTERNAL MESSAGES:\n" + table)[1].splitlines()[0]
        start = rf" 0      {server.user:<10.10s} [A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d   "
        found_gpu = re.fullmatch(rf"{start}{server.host}:gpus=(\d); +N", message.rstrip())
        assert found_gpu is not None, message
        gpus.add(found_gpu[1])
    assert len(gpus) == 2
    for job in jobs:
        server.ends(job)


def jobs_that_ask_for_two(server: Server) -> None:
    jobs = [server.submits(TWO_GPUS) for _ in range(3)]
    server.runs(*jobs[:2])
    assert counts(server.types("bhosts -l"))["ngpus_excl_p"] == ("0.0", "4.0")
    pairs = [re.findall(r":gpus=([\d,]+);", server.types(f"bjobs -l {job} | grep gpu")) for job in jobs[:2]]
    assert sorted(pairs) == [["0,1"], ["2,3"]]
    rows = server.types("bjobs").splitlines()[1:]
    host = f"{server.host:<11.11s}"
    assert [row[:-13] for row in rows] == [
        f"{job:<7d} {server.user:<7.7s} {stat:<5s} normal     {host} {where} *ain_01.sh"
        for job, stat, where in zip(jobs, ("RUN", "RUN", "PEND"), (host, host, " " * 11), strict=True)
    ]
    server.ends(jobs[0])
    server.runs(jobs[2])
    server.ends(jobs[1])
    server.ends(jobs[2])
    for job, pair in ((jobs[1], pairs[1][0]), (jobs[2], pairs[0][0])):
        told = server.types(f"bhist -l {job}")
        record = unfolded(told)
        effective = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=2.00]"
        assert f"Effective RES_REQ <{effective} >;" in record
        posted = f'External Message "{server.host}:gpus={pair};" was posted from "{server.user}" to message box 0;'
        assert re.search(f"^{DAY}: {re.escape(posted)}$", record, re.MULTILINE)
        check_summary(told)
