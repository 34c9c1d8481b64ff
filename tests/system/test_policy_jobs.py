"""What users do with jobs that wait or run: arrays, dependencies, times, order, other queues, requeueing, rerunning.

Each rule through the real commands on a real cluster with simulated GPUs.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from live_cluster import Cluster, printed

QUEUES = """
Begin Queue
QUEUE_NAME = later
PRIORITY = 20
DESCRIPTION = for gswitch
End Queue

Begin Queue
QUEUE_NAME = tries
PRIORITY = 25
REQUEUE_EXIT_VALUES = 30 EXCLUDE(31)
MAX_JOB_REQUEUE = 2
RERUNNABLE = yes
EXCLUSIVE = Y
End Queue
"""


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", "one,two")
    cluster.configure(lsb_queues=QUEUES, lsb_params="Begin Parameters\nMAX_USER_PRIORITY = 100\nEnd Parameters")
    return cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster; whatever a test leaves behind is killed."""
    yield shared
    shared.run("gkill", "-u", "all", "0", check=False)
    shared.run("ghosts")


def held(cluster: Cluster) -> list[int]:
    """Jobs that take all slots of both hosts."""
    jobs = [cluster.submit("-m", host, "-n", "16", "-R", "span[hosts=1]", "sleep", "600") for host in ("one", "two")]
    for job in jobs:
        cluster.starts(job)
    return jobs


# -- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_an_array_runs_each_element_with_its_index(cluster: Cluster) -> None:
    array = cluster.submit(
        "-J", "sweep[1-3,7]", "-o", "out.%J.%I", "echo $LSB_JOBID $LSB_JOBINDEX $LSB_JOBINDEX_END $LSB_JOBNAME"
    )
    cluster.until(lambda: (cluster.folder / f"out.{array}.7").exists(), "element 7 wrote nothing")
    text = cluster.run("gjobs", "-a", f"{array}[7]").stdout
    assert re.search(rf"^{array} .* sweep\[7\]", text, re.MULTILINE), text
    cluster.until(lambda: "DONE" in cluster.run("gjobs", "-a", f"{array}[7]").stdout, "element 7 is not done")
    assert printed(cluster.folder / f"out.{array}.7").split() == [str(array), "7", "7", "sweep[7]"]
    summary = cluster.run("gjobs", "-A", str(array)).stdout.splitlines()
    assert summary[0].split() == [
        "JOBID",
        "ARRAY_SPEC",
        "OWNER",
        "NJOBS",
        "PEND",
        "DONE",
        "RUN",
        "EXIT",
        "SSUSP",
        "USUSP",
        "PSUSP",
    ]
    assert summary[1].split()[3] == "4"


def test_a_slot_limit_and_ranges_of_elements(cluster: Cluster) -> None:
    array = cluster.submit("-J", "slow[1-50]%3", "sleep", "600")
    cluster.until(
        lambda: cluster.run("gjobs", "-r", str(array), check=False).stdout.count(" RUN ") == 3, "not 3 elements run"
    )
    assert "The job array has reached its job slot limit" in cluster.run("gjobs", "-p", f"{array}[40]").stdout
    assert f"Job <{array}[40]> is being stopped" in cluster.run("gstop", f"{array}[40-42]").stdout
    assert cluster.run("gjobs", "-noheader", "-o", "stat", f"{array}[41]").stdout.split() == ["PSUSP"]
    cluster.run("gkill", f"{array}[4-39]")
    counts = cluster.run("gjobs", "-A", str(array)).stdout.splitlines()[1].split()
    assert counts[3:] == ["50", "8", "0", "3", "36", "0", "0", "3"]
    cluster.run("gkill", str(array))
    cluster.until(lambda: cluster.run("gjobs", "-A", str(array)).stdout.split()[-4] == "50", "not all have ended")


def test_a_hundred_thousand_elements_are_one_submission(cluster: Cluster) -> None:
    held(cluster)
    array = cluster.submit("-J", "many[1-100000]%50", "true")
    assert cluster.run("gjobs", "-A", str(array)).stdout.split()[-8:-6] == ["100000", "100000"]
    cluster.run("gkill", str(array))


# -- dependencies and times ---------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_job_starts_when_its_condition_holds(cluster: Cluster) -> None:
    first = cluster.submit("-J", "prepare", "until [ -e prepared ]; do sleep 0.05; done")
    second = cluster.submit("-w", 'done("prepare")', "true")
    assert cluster.why_pending(second).startswith("Job dependency condition not satisfied (done(")
    assert f"Dependency Condition <done({first})>" in cluster.run("gjobs", "-UF", str(second)).stdout or (
        'Dependency Condition <done("prepare")>' in cluster.run("gjobs", "-UF", str(second)).stdout
    )
    (cluster.folder / "prepared").touch()
    assert [view.state for view in cluster.wait(first, second)] == ["DONE", "DONE"]


def test_a_job_waits_for_a_message_of_another(cluster: Cluster) -> None:
    first = cluster.submit("-H", "true")
    second = cluster.submit("-w", f'external({first}, "ready")', "true")
    assert f"no message of job {first} begins so" in cluster.why_pending(second)
    cluster.run("gpost", "-i", "7", "-d", "ready for you", str(first))
    assert cluster.wait(second)[0].state == "DONE"
    assert cluster.run("gwait", "-w", f"external({first}, ready)").returncode == 0


def test_a_job_whose_condition_can_never_hold_ends_and_says_why(cluster: Cluster) -> None:
    first = cluster.submit("until [ -e bad ]; do sleep 0.05; done; exit 3")
    second = cluster.submit("-w", f"done({first})", "true")
    third = cluster.submit("-w", f"done({second})", "true")
    (cluster.folder / "bad").touch()
    assert [view.state for view in cluster.wait(first, second, third)] == ["EXIT", "EXIT", "EXIT"]
    text = cluster.run("ghist", "-l", str(second)).stdout
    assert "TERM_ORPHAN_SYSTEM" in text and "exit code 3" in re.sub(r"\n {21}", "", text)
    done = cluster.run("gsub", "-w", f"done({first})", "true", check=False)
    assert done.returncode == 255 and "Dependency condition invalid or never satisfied" in done.stderr
    done = cluster.run("gsub", "-w", "done(", "true", check=False)
    assert done.returncode == 255 and "Dependency condition syntax error" in done.stderr


def test_a_begin_time_holds_the_job_back(cluster: Cluster) -> None:
    later = time.strftime("%H:%M", time.gmtime(time.time() + 3600))
    job = cluster.submit("-b", later, "true")
    assert cluster.why_pending(job) == "The job has a specified start time"
    cluster.run("gmod", "-bn", str(job))
    assert cluster.wait(job)[0].state == "DONE"


# -- order --------------------------------------------------------------------------------------------------------


def test_gtop_gbot_and_priority_decide_who_is_served_first(cluster: Cluster) -> None:
    blockers = held(cluster)
    words = ("-n", "16", "-R", "span[hosts=1]", "-m", "one", "-o", "order", "echo $LSB_JOBNAME")
    names = {name: cluster.submit("-J", name, *words) for name in "abcd"}
    urgent = cluster.submit("-J", "e", "-sp", "90", *words)
    moved = cluster.run("gtop", str(names["c"])).stdout
    assert moved == f"Job <{names['c']}> has been moved to position 1 from top.\n"
    cluster.run("gbot", str(names["a"]))
    cluster.run("gkill", str(blockers[0]))
    cluster.wait(*names.values(), urgent)
    written = [line for line in (cluster.folder / "order").read_text().splitlines() if line in "abcde" and line]
    assert written == ["e", "c", "b", "d", "a"]


def test_gswitch_and_gmod_change_what_waits(cluster: Cluster) -> None:
    held(cluster)
    job = cluster.submit("-n", "4", "-J", "before", "true")
    assert f"Job <{job}> is switched to queue <later>" in cluster.run("gswitch", "later", str(job)).stdout
    done = cluster.run("gmod", "-J", "after", "-n", "2", "-W", "10", str(job))
    assert done.stdout == f"Parameters of job <{job}> are being changed\n"
    view = cluster.job(job)
    assert (view.spec.queue, view.spec.name, view.spec.slots, view.spec.run_limit_s) == ("later", "after", 2, 600)
    done = cluster.run("gmod", "-q", "nowhere", str(job), check=False)
    assert done.returncode == 255 and "No such queue" in done.stderr
    assert "Switched to Queue <later>" in cluster.run("ghist", "-l", str(job)).stdout


def test_grun_starts_a_job_at_once_where_it_is_told(cluster: Cluster) -> None:
    held(cluster)
    job = cluster.submit("-o", "forced.%J", "echo $LSB_HOSTS")
    cluster.why_pending(job)
    assert f"Job <{job}> is being forced to run" in cluster.run("grun", "-m", "two", str(job)).stdout
    cluster.wait(job)
    assert printed(cluster.folder / f"forced.{job}") == "two\n"


def test_an_array_is_switched_with_its_started_elements(cluster: Cluster) -> None:
    array = cluster.submit("-J", "wide[1-4]", "-n", "12", "-R", "span[hosts=1]", "sleep", "600")
    cluster.until(lambda: cluster.run("gjobs", "-A", str(array)).stdout.split()[-5:].count("2"), "not two elements run")
    assert f"Job <{array}> is switched to queue <later>" in cluster.run("gswitch", "later", str(array)).stdout
    listed = cluster.run("gjobs", "-o", "queue", "-noheader", str(array)).stdout.split()
    assert listed == ["later"] * 4


# -- again --------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_requeued_job_runs_again_and_keeps_its_output(cluster: Cluster) -> None:
    job = cluster.submit("-o", "again", "echo attempt $GSCHED_ATTEMPT; sleep 600")
    cluster.starts(job)
    cluster.until(lambda: "attempt 1" in (cluster.folder / "again").read_text(), "nothing was written")
    assert f"Job <{job}> is being requeued" in cluster.run("grequeue", str(job)).stdout
    cluster.until(lambda: cluster.job(job).attempt == 2, "it does not run again")
    cluster.until(lambda: "attempt 2" in (cluster.folder / "again").read_text(), "the second attempt wrote nothing")
    assert "attempt 1" in (cluster.folder / "again").read_text()
    cluster.run("grequeue", "-H", str(job))
    cluster.becomes(job, "PSUSP")
    assert "Pending: Job has been requeued" in cluster.run("ghist", "-l", str(job)).stdout


def test_elements_killed_before_they_started_are_requeued(cluster: Cluster) -> None:
    holders = held(cluster)
    array = cluster.submit("-J", "late[1-3]", "true")
    cluster.run("gkill", str(array))
    cluster.until(lambda: "EXIT" in cluster.run("gjobs", "-a", str(array)).stdout, "the elements were not killed")
    assert cluster.run("grequeue", "-e", str(array)).stdout.startswith(f"Job <{array}> is being requeued")
    assert cluster.run("gjobs", str(array)).stdout.count("PEND") == 3
    cluster.kill("master")
    cluster.up()
    cluster.run("gkill", str(holders[0]))
    cluster.until(lambda: cluster.run("gjobs", "-a", str(array)).stdout.count("DONE") == 3, "they did not run")
    assert "requeued" in cluster.run("ghist", "-l", f"{array}[2]").stdout.lower()


def test_requeue_exit_values(cluster: Cluster) -> None:
    job = cluster.submit("-q", "tries", "-o", "/dev/null", "exit 30")
    assert cluster.wait(job)[0].state == "EXIT"
    assert cluster.job(job).attempt == 3  # twice again, MAX_JOB_REQUEUE
    other = cluster.submit("-q", "tries", "-m", "one two", "echo $LSB_HOSTS >> where; exit 31")
    cluster.until(lambda: cluster.job(other).attempt >= 2, "it was not tried elsewhere")
    cluster.until(lambda: len((cluster.folder / "where").read_text().split()) >= 2, "it wrote once")
    assert {"one", "two"} <= set((cluster.folder / "where").read_text().split())


def test_a_rerunnable_job_runs_again_when_its_host_is_lost(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--sim-gpus", "1:exclusive_process", "--hosts", "one,two")
    conf = cluster.conf / "lsf.conf"
    conf.write_text(re.sub(r"GSCHED_HOST_LOST=\S+", "GSCHED_HOST_LOST=6", conf.read_text()))
    cluster.run("gadmin", "reconfig")
    job = cluster.submit("-r", "-m", "one+2 two", "-R", "rusage[ngpus_excl_p=1]", "sleep", "600")
    plain = cluster.submit("-m", "one", "sleep", "600")
    assert cluster.starts(job).allocation.first_host == "one"  # type: ignore[union-attr]
    cluster.starts(plain)
    pid = cluster.pid("agent-one")
    os.kill(pid, signal.SIGSTOP)
    try:
        cluster.until(lambda: cluster.job(job).attempt == 2 and cluster.state(job) == "RUN", "it does not run again")
        assert cluster.job(job).allocation.first_host == "two"  # type: ignore[union-attr]
        cluster.becomes(plain, "UNKWN")
    finally:
        os.kill(pid, signal.SIGCONT)
    cluster.becomes(plain, "RUN")
    cluster.until(lambda: "GPU 0" not in cluster.run("ghosts", "-l", "one").stdout, "")


def test_an_exclusive_job_is_alone_on_its_host(cluster: Cluster) -> None:
    beside = cluster.submit("-m", "one", "sleep", "600")
    cluster.starts(beside)
    alone = cluster.submit("-x", "-q", "tries", "-m", "one", "sleep", "600")
    assert cluster.why_pending(alone).startswith("Job's requirement for exclusive execution not satisfied")
    cluster.run("gkill", str(beside))
    cluster.starts(alone)
    other = cluster.submit("-m", "one", "true")
    assert cluster.why_pending(other).startswith("Running an exclusive job")
    assert "closed_Excl" in cluster.run("ghosts", "-w").stdout
    done = cluster.run("gsub", "-x", "-q", "normal", "true", check=False)
    assert "Queue does not accept EXCLUSIVE jobs" in done.stderr and done.returncode == 255


def test_a_host_on_which_jobs_fail_is_closed_before_it_has_eaten_the_queue(cluster: Cluster) -> None:
    with cluster.files_as_they_are():
        cluster.configure(lsb_params="Begin Parameters\nGLOBAL_EXIT_RATE = 2\nEnd Parameters")
        assert cluster.run("ghosts", "-x").stdout == "There is no exceptional host found\n"
        failed = [cluster.submit("-m", "one", "-o", "/dev/null", "exit 7") for _ in range(3)]
        cluster.wait(*failed)
        waiting = cluster.submit("-m", "one two", "-o", "/dev/null", "true")
        allocation = cluster.wait(waiting)[0].allocation
        assert allocation is not None and allocation.first_host == "two"
        assert [line.split()[0] for line in cluster.run("ghosts", "-x").stdout.splitlines()[1:]] == ["one"]
        long = cluster.run("ghosts", "-l", "one").stdout
        assert "JOB_EXIT_RATE\n Threshold    2.00\n Load         3.00\n" in long
        comment = "eadmin: JOB EXIT THRESHOLD EXCEEDED (3 within 5 min)"
        assert f'ADMIN ACTION COMMENT: "{comment}"' in long
        cluster.run("gadmin", "hopen", "one")
        assert f"Host <one> closed by administrator <eadmin> {comment}." in cluster.run("gadmin", "hhist").stdout
        assert cluster.run("ghosts", "-x").stdout == "There is no exceptional host found\n"
