"""The report in a job's output file: LSF's lines, byte for byte, and where it is written."""

from __future__ import annotations

import os
import time

import msgspec
import pytest

from gsched.model.efficiency.job_use import AskedGpu, AskedOf
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import RESIZING, TERM_TEXTS, AttemptResult, LeftProcess, Usage
from gsched.run.report import report_room
from gsched.run.report.job_report import (
    ReportedRun,
    ReportFacts,
    beginning_of,
    report_text,
    room_for,
    write_instead,
    write_report,
)

START = 1499420042.0
FACTS = ReportFacts(
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


def text(facts=FACTS, result=DONE, script=None, **more):
    run = ReportedRun("/home/test", "/srv/dir", START, script)
    return report_text(facts, run, result, now=START + 118.4, **more)


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
        (
            AttemptResult(exit_code=99, term_reason="TERM_RESIZE"),
            [
                "TERM_RESIZE: job ended to go on with another number of GPUs.",
                "Job has not failed, and goes on with the same jobid.",
            ],
        ),
        (
            AttemptResult(signal=15, term_reason="TERM_PREEMPT"),
            [
                "TERM_PREEMPT: job killed after preemption.",
                "Job has not failed, and goes on with the same jobid.",
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


def test_a_job_that_is_done_by_its_exit_code_is_told_as_done():
    told = text(result=msgspec.structs.replace(DONE, exit_code=3, counts_as_done=True))
    outcome = "Exit code 3 is one of SUCCESS_EXIT_VALUES.\nSuccessfully completed.\n"
    assert told == WANTED.replace("Successfully completed.\n", outcome)


def test_a_job_that_is_over_when_it_is_preempted_does_not_go_on():
    facts = msgspec.structs.replace(FACTS, preemption_ends=True)
    told = text(facts, AttemptResult(signal=15, term_reason="TERM_PREEMPT", ended_at=START + 1))
    assert "\nTERM_PREEMPT: job killed after preemption.\nExited with signal termination: 15.\n\n" in told
    resized = text(facts, AttemptResult(signal=15, term_reason=RESIZING, ended_at=START + 1))
    assert "\nJob has not failed, and goes on with the same jobid.\n\n" in resized


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


ABOVE = WANTED.replace("The output (if any) is above this job summary.\n", "The output (if any) follows:\n")


class File:
    """An output file, from the moment before the job begins to the report."""

    def __init__(self, path, before="", facts=FACTS):
        self.path, self.facts = path, facts
        if not path.exists():
            path.write_text(before)
        self.job = os.open(path, os.O_RDWR | os.O_APPEND)
        self.room = (0, 0)
        self.start = self.size

    @property
    def size(self):
        return os.fstat(self.job).st_size

    def leave_room(self):
        size = room_for(self.facts, home="/home/test", cwd="/srv/dir", script=None)
        ends_a_line = self.path.read_bytes().endswith(b"\n")
        self.room = report_room.leave(self.job, self.facts.job, size, ends_a_line=ends_a_line)
        return self

    def prints(self, told):
        os.write(self.job, told)
        return self

    def report(self, result=DONE, is_below=False):
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND)
        texts = lambda is_above: text(self.facts, result, is_above=is_above)  # noqa: E731
        write_report(fd, self.facts, self.room, texts, is_below=is_below)
        os.close(fd)
        return self.path.read_bytes()


def without_padding(told: bytes) -> str:
    return "\n".join(line.rstrip(" ") for line in told.decode().split("\n"))


def test_the_report_stands_above_the_output_which_is_there_while_the_job_runs(tmp_path):
    file = File(tmp_path / "출력").leave_room()
    first, *rest = file.path.read_text().splitlines()
    assert first == "The report on job <1153> stands here when the job has ended." and not "".join(rest).strip()
    file.prints(b"one\n\xfftwo\n")
    assert file.path.read_bytes()[sum(file.room) :] == b"one\n\xfftwo\n"
    told = file.report()
    assert told[sum(file.room) :] == b"one\n\xfftwo\n\n"
    assert without_padding(told[: sum(file.room)]) == ABOVE
    # Programs skip the heading and the empty line below it.
    lines = told.split(b"\n")
    at = lines.index(b"The output (if any) follows:")
    assert not lines[at + 1].strip() and lines[at + 2] == b"one"


@pytest.mark.parametrize("script", [None, "#!/bin/sh\n\n\ntrue\n", "true\n" * 49])
def test_what_the_room_is_too_large_shows_nowhere(tmp_path, script):
    file = File(tmp_path / "o").leave_room().prints(b"one\n")
    room = room_for(FACTS, home="/home/test", cwd="/srv/dir", script=script)
    file.room = report_room.leave(file.job, FACTS.job, room, ends_a_line=True)
    fd = os.open(file.path, os.O_RDWR | os.O_APPEND)
    write_report(fd, FACTS, file.room, lambda above: text(script=script, is_above=above), is_below=False)
    os.close(fd)
    told = file.path.read_bytes()[file.room[0] : sum(file.room)].decode()
    lines = told.split("\n")
    assert len(told) == room and [line.rstrip(" ") for line in lines] == text(script=script, is_above=True).split("\n")
    assert max(len(line) for line in lines if not line.strip()) < 80
    # Patterns of programs that search for these lines have empty lines in them.
    assert "\nSuccessfully completed.\n\nResource usage summary:\n\n    CPU time : " in told
    assert told.endswith("\n\nThe output (if any) follows:\n\n")
    assert all(line == line.rstrip(" ") for line in lines if line.strip())
    rules = [number for number, line in enumerate(lines) if line == report_room.RULE]
    assert " " not in "".join(line for line in lines[rules[0] : rules[1]] if not line.strip())


@pytest.mark.parametrize("script", [None, "학습\n" * 40_000, "x" * 200_000, "line\n" * 100_000])
@pytest.mark.parametrize("result", [DONE, AttemptResult(exit_code=0)])
@pytest.mark.parametrize("facts", [FACTS, msgspec.structs.replace(FACTS, gpus=4)])
def test_the_room_is_never_so_large_that_the_line_above_the_output_is_needed(tmp_path, script, result, facts):
    room = room_for(facts, home="/home/test", cwd="/srv/dir", script=script)
    shown = script and beginning_of(script.encode())
    fd = os.open(tmp_path / "o", os.O_RDWR | os.O_CREAT)
    assert report_room.fill(fd, 0, room, text(facts, result=result, script=shown, is_above=True))
    os.close(fd)
    assert (tmp_path / "o").read_text().endswith("\n\nThe output (if any) follows:\n\n")


def test_a_room_that_is_much_too_large_has_lines_that_a_terminal_shows(tmp_path):
    path = tmp_path / "o"
    path.write_bytes(b"x" * 1000)
    fd = os.open(path, os.O_RDWR)
    assert report_room.fill(fd, 0, 1000, "Sender: \n\nend\n")
    told = path.read_text()
    assert len(told) == 1000 and told.endswith("\n") and told.split() == ["Sender:", "end"]
    assert max(len(line) for line in told.split("\n")) < 100


LEFT = (
    LeftProcess(pid=71, name="sleep"),
    LeftProcess(pid=72, name="학습\n", killed=True),
    LeftProcess(pid=73, name="c"),
)


def test_what_was_left_running_is_told_below_the_lines_that_programs_search():
    told = text(result=msgspec.structs.replace(DONE, left_running=LEFT, left_running_count=12))
    sentence = "Left running by the job, and ended with it: sleep (Pid 71), ??? (Pid 72, SIGKILL), 10 more."
    assert f" 118 sec.\n\n{sentence}\n\nThe output (if any) is above" in told
    assert "\nSuccessfully completed.\n\nResource usage summary:\n" in told


def test_of_a_job_that_was_ended_nothing_is_told_to_be_left():
    result = msgspec.structs.replace(DONE, left_running=LEFT, left_running_count=3, term_reason="TERM_OWNER")
    assert "Left running" not in text(result=result)


def test_the_room_holds_the_longest_end_with_what_it_left(tmp_path):
    long = tuple(LeftProcess(pid=4_000_000, name="e" * 15, killed=True) for _ in range(10))
    worst = msgspec.structs.replace(
        DONE, exit_code=None, signal=64, core_dumped=True, left_running=long, left_running_count=99_999
    )
    told = File(tmp_path / "o").leave_room().prints(b"out\n").report(worst).decode()
    assert told.startswith("Sender: LSF System") and ", 99997 more.\n" in told


def test_where_standard_error_is_stands_below_the_output(tmp_path):
    facts = msgspec.structs.replace(FACTS, output_file="/o", error_file="/e")
    told = File(tmp_path / "o", facts=facts).leave_room().prints(b"no end").report()
    assert told.endswith(b"\nno end\n\n\nPS:\n\nRead file </e> for stderr output of this job.\n\n")


def test_jobs_that_append_to_one_file_have_a_report_each(tmp_path):
    files = []
    for number in range(3):
        facts = msgspec.structs.replace(FACTS, job=str(number), name=f"job {number}")
        files.append(File(tmp_path / "o", "earlier", facts).leave_room())
    for number in (2, 0, 1):
        files[number].prints(b"by %d\n" % number)
    for number in (1, 2, 0):
        files[number].report()
    told = without_padding((tmp_path / "o").read_bytes())
    assert told.startswith("earlier\n\n" + "-" * 60 + "\nSender: LSF System <")
    assert [told.count(f"Subject: Job {number}: <job {number}> in") for number in range(3)] == [1, 1, 1]
    assert told.count("\nSender: LSF System <") == 3 and told.count("The output (if any) follows:\n") == 3
    assert told.endswith("by 2\nby 0\nby 1\n\n\n\n") and "stands here" not in told


@pytest.mark.parametrize("died_after", ["nothing", "the end of the file", "everything"])
def test_a_report_that_was_begun_is_finished_and_never_written_twice(tmp_path, died_after):
    file = File(tmp_path / "o").leave_room().prints(b"out\n")
    if died_after == "the end of the file":
        file.prints(b"\n")
    if died_after == "everything":
        file.report()
    told = file.report(is_below=died_after != "nothing")
    assert without_padding(told) == ABOVE + "out\n\n"


@pytest.mark.parametrize("emptied", [0, 100])
def test_a_job_that_empties_its_file_has_its_report_below(tmp_path, emptied):
    file = File(tmp_path / "o").leave_room()
    os.ftruncate(file.job, emptied)
    kept = file.path.read_text()
    told = file.prints(b"mine\n").report().decode()
    assert told == f"{kept}mine\n\n{'-' * 60}\n{WANTED}"


def test_a_report_that_is_longer_than_foreseen_stands_below(tmp_path):
    file = File(tmp_path / "o").leave_room()
    file.facts = msgspec.structs.replace(FACTS, name="x" * 5000)
    told = file.prints(b"out\n").report().decode()
    assert told.startswith("The report on job <1153> stands below its output.\n")
    assert told[sum(file.room) :].startswith(f"out\n\n{'-' * 60}\nSender: LSF System <")
    assert "is above this job summary" in told


def test_the_room_is_enough_for_every_end():
    for reason in TERM_TEXTS:
        for end in (AttemptResult(exit_code=255), AttemptResult(signal=64, core_dumped=True)):
            result = msgspec.structs.replace(end, term_reason=reason, ended_at=START, run_s=1e9, usage=USAGE)
            facts = msgspec.structs.replace(FACTS, name="긴 이름" * 100, requested_mem_mib=1e9)
            told = text(facts, result, is_above=True, script="echo 안녕\n" * 90)
            room = room_for(facts, home="/home/test", cwd="/srv/dir", script="echo 안녕\n" * 90)
            assert len(told.encode()) <= room < 2 * len(told.encode())


def test_why_there_is_no_report_is_said_in_its_place(tmp_path):
    file = File(tmp_path / "o").leave_room()
    fd = os.open(file.path, os.O_RDWR)
    write_instead(fd, FACTS, file.room, "Job <1153> was not started here: the disk\nis full")
    os.close(fd)
    assert file.path.read_text().splitlines()[0] == "Job <1153> was not started here: the disk is full"
    assert file.size == sum(file.room)


@pytest.mark.parametrize(("before", "gap"), [("", "\n"), ("out\n", "\n"), ("no end", "\n\n")])
def test_it_stands_below_the_output_after_a_line_of_dashes(tmp_path, before, gap):
    path = tmp_path / "출력"
    path.write_text(before)
    assert File(path).report() == before.encode() + gap.encode() + b"-" * 60 + b"\n" + WANTED.encode()


def test_it_writes_to_plain_files_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", tmp_path / "pipe"):
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        assert report_room.leave(fd, "1", 100, ends_a_line=True) == (0, 0)
        write_report(fd, FACTS, (0, 0), lambda is_above: "x", is_below=False)
    with pytest.raises(BlockingIOError):
        os.read(fd, 1)


USED = GpuUsage(samples=9, sm_mean=97.4, mem_max_mib=30000.4, energy_j=25733.0, idle_s=12.0)


def gpu_line(*uses: GpuUsage, gpus: int = 2) -> str:
    result = msgspec.structs.replace(DONE, usage=msgspec.structs.replace(DONE.usage, gpus=uses))
    told = text(msgspec.structs.replace(FACTS, gpus=gpus), result=result)
    line = told.partition("Turnaround time")[2].partition("\n")[2].partition("\nThe output (if any)")[0]
    return " ".join(line.split())


def test_what_the_job_made_of_its_gpus_is_told_after_lsfs_lines():
    assert gpu_line(USED, USED) == "GPU use : 97 % of 2, Max Memory 30000 MB, Energy 51466 J, Idle 24 sec."
    # What is known of one alone would pass for the whole.
    assert gpu_line(USED) == gpu_line() == "GPU use : - of 2, Max Memory -, Energy -, Idle -"
    assert gpu_line(USED, gpus=0) == ""


ASKED = AskedOf(
    slots=12345, gpus=tuple(AskedGpu(host="h", index=n, uuid=f"G{n}") for n in range(1000)), run_limit_s=10**9
)


def test_the_gravest_about_its_efficiency_stands_at_the_end():
    facts = msgspec.structs.replace(FACTS, asked=ASKED, min_run_s=100.0)
    told = text(facts)
    assert told.partition("Turnaround time")[2].partition("\n")[2] == (
        "\nEfficiency: of 12345 slots it kept 1.0 busy (geff 1153).\n\n"
        "The output (if any) is above this job summary.\n\n"
    )
    assert "Efficiency" not in text(msgspec.structs.replace(facts, min_run_s=118.0))
    assert "Efficiency" not in text(facts, result=msgspec.structs.replace(DONE, started=False))
    nothing = msgspec.structs.replace(facts, asked=AskedOf(slots=1))
    assert "Efficiency" not in text(nothing)


def test_there_is_room_for_what_is_said_of_its_efficiency():
    uses = tuple(
        GpuUsage(host="h", uuid=f"G{n}", samples=9, covered_s=1e9, sm_mean=0.0, sm_max=0.0) for n in range(999)
    )
    facts = msgspec.structs.replace(FACTS, asked=ASKED, job="2147483646[2147483647]")
    room = room_for(facts, home="/home/test", cwd="/srv/dir", script=None)
    left = tuple(LeftProcess(pid=4_194_304, name="x" * 15, killed=True) for _ in range(9))
    ends = [AttemptResult(exit_code=0, left_running=left, left_running_count=10**6)]
    ends += [AttemptResult(signal=64, core_dumped=True, term_reason=reason) for reason in TERM_TEXTS]
    for usage in (USAGE, Usage(gpus=uses), Usage(cpu_s=1e11)):
        for end in ends:
            told = text(facts, result=msgspec.structs.replace(end, usage=usage, run_s=1e9), is_above=True)
            assert len(told) <= room
            assert ("\nEfficiency: " in told) == ("\nWhy it failed: " not in told)


def test_there_is_room_for_what_the_job_made_of_its_gpus():
    many = (msgspec.structs.replace(USED, energy_j=6e7, idle_s=6e6),) * 16
    result = msgspec.structs.replace(DONE, usage=msgspec.structs.replace(DONE.usage, gpus=many))
    facts = msgspec.structs.replace(FACTS, gpus=16)
    room = room_for(facts, home="/home/test", cwd="/srv/dir", script=None)
    assert len(text(facts, result=result, is_above=True)) <= room
