"""Parameters of LSF's queues through real daemons: what an exit code counts as, when a job is warned, and how often a
command before it may fail.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from live_cluster import Cluster

QUEUES = """\
Begin Queue
QUEUE_NAME = codes
PRIORITY = 25
SUCCESS_EXIT_VALUES = 7 20-22
LOCAL_MAX_PREEXEC_RETRY = 1
LOCAL_MAX_PREEXEC_RETRY_ACTION = EXIT
JOB_WARNING_ACTION = URG
JOB_ACTION_WARNING_TIME = 60
NO_PREEMPT_RUN_TIME = 50%
RESRSV_LIMIT = [mem=1,64]
End Queue

Begin Queue
QUEUE_NAME = loaded
PRIORITY = 25
mem = /900000000
TERMINATE_WHEN = LOAD
End Queue

Begin Queue
QUEUE_NAME = lost
PRIORITY = 20
TERMINATE_WHEN = PREEMPT
End Queue

Begin Queue
QUEUE_NAME = over
PRIORITY = 90
PREEMPTION = PREEMPTIVE[lost]
End Queue

Begin Queue
QUEUE_NAME = orphans
PRIORITY = 25
ORPHAN_JOB_TERM_GRACE_PERIOD = 1
End Queue

Begin Queue
QUEUE_NAME = controlled
PRIORITY = 25
JOB_CONTROLS = SUSPEND[echo $LSB_JOBID $LSB_SUSP_REASONS > $LS_SUBCWD/stopped; kill -STOP $LSB_JOBPIDS] \\
               RESUME[kill -CONT $LSB_JOBPIDS; echo again > $LS_SUBCWD/resumed] TERMINATE[SIGUSR1]
End Queue
"""


PROFILES = """\
Begin Application
NAME = surrounded
ENV_VARS = SITE='one two', OWN='of the site'
PRE_EXEC = echo first host >> $LS_SUBCWD/before
HOST_PRE_EXEC = echo "each host" >> $LS_SUBCWD/before
POST_EXEC = echo $SITE > $LS_SUBCWD/after
HOST_POST_EXEC = cp $LS_SUBCWD/after $LS_SUBCWD/behind
JOB_CWD = run.%J
OUTDIR = out/%J
End Application
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "1:default")
    cluster.configure(lsb_queues=QUEUES, lsb_applications=PROFILES)
    return cluster


def test_a_job_is_done_with_an_exit_code_of_its_queue_also_after_the_master_was_killed(cluster: Cluster) -> None:
    done = cluster.submit("-q", "codes", "-o", "done.out", "exit 21")
    after = cluster.submit("-q", "codes", "-w", f"done({done})", "-o", "after.out", "exit 23")
    (view,) = cluster.wait(done)
    assert view.state == "DONE"
    (view,) = cluster.wait(after)
    assert view.state == "EXIT"
    assert ": Done successfully." in cluster.run("ghist", "-UF", str(done)).stdout
    report = (cluster.folder / "done.out").read_text()
    assert f"Subject: Job {done}: <exit 21> in cluster" in report and "> Done\n" in report
    assert "\nExit code 21 is one of SUCCESS_EXIT_VALUES.\nSuccessfully completed.\n" in report
    assert "\nExited with exit code 23.\n" in (cluster.folder / "after.out").read_text()
    cluster.kill("master")
    cluster.up()
    stat = cluster.run("gjobs", "-noheader", "-o", "stat exit_code", str(done)).stdout.split()
    assert stat[0] == "DONE"


def test_the_queue_warns_a_job_that_says_nothing_of_it_itself(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-q", "codes", "-W", "90", "true")
    told = cluster.run("gjobs", "-noheader", "-o", "warning_action", str(job)).stdout.split()
    assert told == ["URG"]
    cluster.run("gkill", str(job))


def test_a_command_before_a_job_may_fail_once_in_that_queue(cluster: Cluster) -> None:
    job = cluster.submit("-q", "codes", "-E", "exit 4", "-o", "pre.out", "true")
    (view,) = cluster.wait(job)
    assert view.state == "EXIT"
    told = cluster.run("gqueues", "-l", "codes").stdout
    for words in ("SUCCESS_EXIT_VALUES", "7 20-22", "NO_PREEMPT_RUN_TIME", "50%", "JOB_WARNING_ACTION"):
        assert words in told


def test_a_job_is_ended_where_the_queue_says_so_instead_of_being_suspended(cluster: Cluster) -> None:
    job = cluster.submit("-q", "loaded", "-o", "loaded.out", "sleep 100000")
    (view,) = cluster.wait(job)
    assert view.state == "EXIT" and view.result is not None and view.result.term_reason == "TERM_LOAD"
    assert "It is ended instead of suspended (TERMINATE_WHEN)" in cluster.run("ghist", "-UF", str(job)).stdout


def test_a_queue_refuses_a_job_that_reserves_more_than_it_allows(cluster: Cluster) -> None:
    refused = cluster.run("gsub", "-q", "codes", "-R", "rusage[mem=65]", "true", check=False)
    assert refused.returncode == 255
    assert "mem=65: the queue codes allows from 1MB to 64MB in rusage (RESRSV_LIMIT)" in refused.stderr


def test_what_a_queue_does_in_place_of_stopping_resuming_and_ending_a_job(cluster: Cluster) -> None:
    assert "kill -STOP $LSB_JOBPIDS" in cluster.run("gqueues", "-l", "controlled").stdout
    script = "trap 'exit 5' USR1; trap 'touch interrupted' INT; touch begun; while :; do sleep 0.05; done"
    job = cluster.submit("-q", "controlled", "-o", "controlled.out", script)
    cluster.until((cluster.folder / "begun").exists, "the job does not begin")
    cluster.run("gstop", str(job))
    told = cluster.folder / "stopped"
    cluster.until(lambda: told.exists() and told.read_text().endswith("\n"), "nothing was done to stop the job")
    assert told.read_text() == f"{job} 2\n"
    cluster.run("gresume", str(job))
    cluster.until((cluster.folder / "resumed").exists, "nothing was done to let the job go on")
    cluster.run("gkill", str(job))
    (view,) = cluster.wait(job)
    assert view.state == "EXIT" and view.result is not None
    assert (view.result.exit_code, view.result.term_reason) == (5, "TERM_OWNER")
    assert not (cluster.folder / "interrupted").exists()


def test_a_profile_gives_variables_to_its_jobs_and_to_what_runs_around_them(cluster: Cluster) -> None:
    job = cluster.submit("-app", "surrounded", "-o", "surrounded.out", "echo $SITE, $OWN, $PWD", OWN="of the job")
    cluster.wait(job)
    output = (cluster.folder / "out" / str(job) / "surrounded.out").read_text()
    assert f"one two, of the job, {cluster.folder}/run.{job}" in output
    assert (cluster.folder / "after").read_text() == "one two\n"
    assert (cluster.folder / "before").read_text() == "each host\nfirst host\n"
    assert (cluster.folder / "behind").read_text() == "one two\n"
    elsewhere = cluster.submit("-app", "surrounded", "pwd > where", LSB_JOB_CWD="own.%J")
    cluster.wait(elsewhere)
    place = cluster.folder / f"own.{elsewhere}"
    assert (place / "where").read_text() == f"{place}\n"
    assert "SITE='one two',OWN='of the site'" in cluster.run("gapp", "-l", "surrounded").stdout


def test_a_preempted_job_ends_for_good_and_gives_its_gpu_where_the_queue_says_so(cluster: Cluster) -> None:
    low = cluster.submit("-q", "lost", "-gpu", "num=1:mode=exclusive_process", "-o", "lost.out", "sleep 100000")
    cluster.starts(low)
    high = cluster.submit("-q", "over", "-gpu", "num=1:mode=exclusive_process", "true")
    ended, done = cluster.wait(low, high)
    assert (ended.state, done.state) == ("EXIT", "DONE")
    assert ended.result is not None and ended.result.term_reason == "TERM_PREEMPT"
    report = (cluster.folder / "lost.out").read_text()
    assert "TERM_PREEMPT: job killed after preemption." in report and "goes on with the same jobid" not in report


def test_a_job_that_waits_for_what_never_comes_ends_when_its_time_is_over(cluster: Cluster) -> None:
    first = cluster.submit("-H", "-q", "orphans", "exit 3")
    orphan = cluster.submit("-q", "orphans", "-w", f"done({first})", "true")
    cluster.run("gresume", str(first))
    (failed, ended) = cluster.wait(first, orphan)
    assert ended.state == "EXIT" and ended.result is not None and ended.result.term_reason == "TERM_ORPHAN_SYSTEM"
    assert failed.finished_at is not None and ended.finished_at is not None
    assert ended.finished_at - failed.finished_at >= 0.99
