"""The report below a job's output: LSF's lines, byte for byte, and where it is written."""

from __future__ import annotations

import os
import time

import msgspec
import pytest

from gsched.model.job import AttemptResult, Usage
from gsched.run.jobreport import Facts, append_report, report_text

START = 1499420042.0
FACTS = Facts(
    job="1153",
    name="./examples/cifar10/train_full.sh",
    command="./examples/cifar10/train_full.sh",
    sender="test@ubuntu02",
    cluster="firestone",
    submit_host="ubuntu02",
    user="test",
    hosts=(("ubuntu02", 1),),
    queue="normal",
    submitted_at=START,
    dispatched_at=START,
)
USAGE = Usage(cpu_s=117.0, max_mem_mib=277.2, avg_mem_mib=274.0, max_processes=3, max_threads=78, max_swap_mib=0.0)
DONE = AttemptResult(exit_code=0, ended_at=START + 118, run_s=117.8, usage=USAGE)
WANTED = """\
Sender: LSF System <test@ubuntu02>
Subject: Job 1153: <./examples/cifar10/train_full.sh> in cluster <firestone> Done

Job <./examples/cifar10/train_full.sh> was submitted from host <ubuntu02> by user <test> in cluster <firestone> at Fri Jul  7 09:34:02 2017
Job was executed on host(s) <ubuntu02>, in queue <normal>, as user <test> in cluster <firestone> at Fri Jul  7 09:34:02 2017
</home/test> was used as the home directory.
</srv/dir> was used as the working directory.
Started at Fri Jul  7 09:34:02 2017
Terminated at Fri Jul  7 09:36:00 2017
Results reported at Fri Jul  7 09:36:00 2017

Your job looked like:

------------------------------------------------------------
# LSBATCH: User input
./examples/cifar10/train_full.sh
------------------------------------------------------------

Successfully completed.

Resource usage summary:

    CPU time :                                   117.00 sec.
    Max Memory :                                 277 MB
    Average Memory :                             274.00 MB
    Total Requested Memory :                     -
    Delta Memory :                               -
    Max Swap :                                   -
    Max Processes :                              3
    Max Threads :                                78
    Run time :                                   118 sec.
    Turnaround time :                            118 sec.

The output (if any) is above this job summary.

"""  # noqa: E501


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def text(facts=FACTS, result=DONE, **more):
    return report_text(facts, result, home="/home/test", cwd="/srv/dir", started_at=START, now=START + 118.4, **more)


def test_the_report_is_lsfs_line_by_line():
    assert text() == WANTED


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (AttemptResult(exit_code=3), ["Exited with exit code 3."]),
        (
            AttemptResult(exit_code=140, term_reason="TERM_RUNLIMIT"),
            ["TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "Exited with exit code 140."],
        ),
        (
            AttemptResult(signal=9, term_reason="TERM_MEMLIMIT"),
            [
                "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
                "Exited with signal termination: 9.",
            ],
        ),
        (AttemptResult(signal=11, core_dumped=True), ["Exited with signal termination: 11, and core dumped."]),
        (
            AttemptResult(signal=2, term_reason="TERM_REQUEUE_OWNER"),
            [
                "TERM_REQUEUE_OWNER: job killed and requeued by owner.",
                "Job was killed by user or admin, and will be re-queued with the same jobid.",
            ],
        ),
        (AttemptResult(problem="the host restarted"), ["Exited; the exit status is not known."]),
    ],
)
def test_every_end_has_its_lines(result, lines):
    told = text(result=msgspec.structs.replace(result, ended_at=START + 1))
    assert "in cluster <firestone> Exited\n" in told
    # Programs look for the outcome two lines above the heading of the summary.
    assert f"\n{os.linesep.join(lines)}\n\nResource usage summary:\n" in told
    assert "    Max Memory :                                 -\n" in told


def test_hosts_memory_and_the_file_of_errors():
    facts = msgspec.structs.replace(
        FACTS,
        hosts=(("a", 4), ("b", 1)),
        requested_mem_mib=10240.0,
        output_file="/o/1153.out",
        error_file="/o/1153.err",
    )
    told = text(facts)
    assert "on host(s) <4*a>, in queue <normal>, as user <test>" in told
    assert "\n                            <b>\n" in told
    assert "    Total Requested Memory :                     10240.00 MB\n" in told
    assert "    Delta Memory :                               9962.80 MB\n" in told
    assert told.endswith("\n\n\n\nPS:\n\nRead file </o/1153.err> for stderr output of this job.\n\n")
    merged = msgspec.structs.replace(facts, error_file="/o/1153.out")
    assert "PS:" not in text(merged)


def test_a_script_is_shown_as_it_was_and_cut_when_long():
    told = text(script="#!/bin/bash\n#BSUB -n 1\npython 학습.py\n")
    assert "User input\n#!/bin/bash\n#BSUB -n 1\npython 학습.py\n\n-----" in told
    told = text(script="".join(f"line {number}\n" for number in range(80)))
    assert "\nline 49\n(... more ...)\n\n-----" in told and "line 50\n" not in told


@pytest.mark.parametrize(("before", "gap"), [("", "\n"), ("out\n", "\n"), ("no end", "\n\n")])
def test_it_stands_below_the_output_after_a_line_of_dashes(tmp_path, before, gap):
    path = tmp_path / "출력"
    path.write_text(before)
    appended(path, "Sender: x\udcff\n")
    assert path.read_bytes() == before.encode() + gap.encode() + b"-" * 60 + b"\nSender: x\xff\n"


def test_it_writes_to_plain_files_only(tmp_path):
    appended("/dev/null", "x")
    os.mkfifo(tmp_path / "pipe")
    fd = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    append_report(fd, "x")
    with pytest.raises(BlockingIOError):
        os.read(fd, 1)
    os.close(fd)


def appended(path, told):
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    append_report(fd, told)
    os.close(fd)
