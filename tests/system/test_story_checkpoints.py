"""Jobs that save their state, through real daemons: they ask for another run and get it, under the same number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from counting_job import BY_REQUEUE, PREEMPTING, counted, counting
from live_cluster import BIN, Cluster


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "1:default", "--hosts", "one,two")


def lines(cluster: Cluster, name: str) -> list[str]:
    return (cluster.folder / name).read_text().splitlines()


def test_exit_code_99_runs_a_job_again_with_its_attempt_counted_and_its_output_appended(cluster: Cluster) -> None:
    script = "echo attempt $GSCHED_ATTEMPT $LSB_RESTART; [ $GSCHED_ATTEMPT = 3 ] || exit 99"
    job = cluster.submit("--max-restarts", "5", "-gpu", "num=1", "-o", "all.out", "-e", "err.%J.%t", script)
    (view,) = cluster.wait(job)
    assert view.state == "DONE"
    told = [line.split(" on ")[0] for line in lines(cluster, "all.out") if line.startswith(("attempt", "---- "))]
    assert told == [
        *("attempt 1", f"---- attempt 2 of job {job}", "attempt 2 Y", f"---- attempt 3 of job {job}", "attempt 3 Y")
    ]
    assert all((cluster.folder / f"err.{job}.{attempt}").exists() for attempt in (1, 2, 3))
    shown = cluster.run("gjobs", "-l", str(job)).stdout
    assert "Maximum Restarts <5>" in shown and "Restarted 2 of at most 5 times" in shown
    history = cluster.run("ghist", "-UF", str(job)).stdout
    assert "Pending: it has saved its state (exit code 99): restart 2 of at most 5;" in history


def test_a_job_asks_from_inside_and_a_killed_agent_and_master_forget_nothing_of_it(cluster: Cluster) -> None:
    wait = "touch asked; while [ ! -e ask.go ]; do sleep 0.1; done"
    script = f"echo $GSCHED_ATTEMPT >> ask.starts; [ -e asked ] && exit 0; gsched requeue-me || exit 3; {wait}; exit 7"
    job = cluster.submit("-o", "ask.out", script)
    cluster.until(lambda: (cluster.folder / "asked").exists(), "it does not ask")
    for daemon in ("agent-one", "agent-two", "master"):
        cluster.kill(daemon)
    (cluster.folder / "ask.go").touch()
    cluster.up()
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and lines(cluster, "ask.starts") == ["1", "2"]
    assert cluster.run("gjobs", "-noheader", "-o", "restarts", str(job)).stdout.split() == ["1"]


def test_the_example_of_its_help_works_whatever_the_path_of_the_job(cluster: Cluster) -> None:
    shown = cluster.run("gsched", "requeue-me", "--help").stdout.splitlines()
    (example,) = [line.strip() for line in shown if "trap" in line]
    script = f"[ $GSCHED_ATTEMPT = 2 ] && exit 0\nsave() {{ echo saved; }}\n{example}\nkill -TERM $$\nsleep 600\n"
    done = cluster.run(f"{BIN}/gsub", "-o", "example.%J", "-K", stdin=script, PATH="/usr/bin:/bin")
    job = int(done.stdout.split("<")[1].split(">")[0])
    assert "saved" in lines(cluster, f"example.{job}")
    assert cluster.run("gjobs", "-noheader", "-o", "restarts", str(job)).stdout.split() == ["1"]


def test_requeue_me_says_where_it_works(cluster: Cluster) -> None:
    outside = cluster.run("gsched", "requeue-me", check=False)
    assert outside.returncode == 255
    assert outside.stderr == "gsched: requeue-me works only inside a job (GSCHED_AGENT_SOCKET is not set)\n"
    words = ("-o", "part.out", "-n", "2", "-R", "span[ptile=1]", "-m", "one! two")
    job = cluster.submit(*words, "glaunch -z two gsched requeue-me; true")
    (view,) = cluster.wait(job)
    said = "requeue-me: it works on the first host of the job, one: this is two"
    hosts = [part.host for part in view.allocation.hosts] if view.allocation else []
    assert hosts == ["one", "two"] and said in (cluster.folder / "part.out").read_text()
    assert view.state == "DONE"


@pytest.mark.parametrize("wrong", ["-1", "x", "10000", ""])
def test_a_wrong_number_of_restarts_is_refused(cluster: Cluster, wrong: str) -> None:
    refused = cluster.run("gsub", "--max-restarts", wrong, "true", check=False)
    assert refused.returncode == 255 and "--max-restarts" in refused.stderr


def test_a_preempted_job_saves_its_state_and_goes_on_from_there(cluster: Cluster) -> None:
    folder = cluster.folder / "preempted"
    with cluster.files_as_they_are():
        cluster.configure(lsb_queues=PREEMPTING, lsb_params=BY_REQUEUE.format(""))
        command = counting(folder)
        options = ("-cwd", str(folder), "-m", "one", "-gpu", "num=1", "--restart-on", "preempt", "--signal", "TERM@60")
        low = cluster.submit(*options, command, "15")
        cluster.until(lambda: (folder / "counted").exists(), "it does not begin")
        high = cluster.submit("-q", "urgent", "-m", "one", "-gpu", "num=1", "true")
        views = cluster.wait(low, high)
    assert [view.state for view in views] == ["DONE", "DONE"]
    told = counted(folder)
    assert told.begins == [0, *told.saves] and told.ends == [15] and len(told.saves) == 1
    assert told.deadlines[0] >= views[0].submitted_at + 59
    shown = cluster.run("gjobs", "-l", str(low)).stdout
    assert "Restart On <preempt>" in shown and "Restarted 1 times" in shown


def test_a_job_that_takes_longer_than_its_run_limit_goes_on_in_a_chain_of_runs(cluster: Cluster) -> None:
    folder = cluster.folder / "chain"
    command = counting(folder)
    options = (
        "-cwd",
        str(folder),
        "-W",
        "1",
        "--signal",
        "TERM@57",
        "--restart-on",
        "timelimit",
        "--max-restarts",
        "50",
    )
    job = cluster.submit(*options, command, "25")
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and view.restarts >= 1
    told = counted(folder)
    assert told.begins == [0, *told.saves] and told.ends == [25] and len(told.saves) == view.restarts


def test_a_job_that_its_signal_kills_is_over_unless_it_is_to_go_on_after_its_run_limit(cluster: Cluster) -> None:
    """USR2 ends a program that does not hear it, a second or two after it began."""
    words = ("-W", "1", "--signal", "USR2@58")
    over = cluster.submit(*words, "exec sleep 600")
    again = cluster.submit(*words, "--restart-on", "timelimit", "[ $GSCHED_ATTEMPT = 2 ] || exec sleep 600")
    ends = {view.job_id: view for view in cluster.wait(over, again)}
    assert [ends[over].state, ends[again].state, ends[again].restarts] == ["EXIT", "DONE", 1]
    assert "Exited by signal 12" in cluster.run("ghist", "-l", "-UF", str(over)).stdout
    told = cluster.run("gjobs", "-l", "-UF", str(over)).stdout
    assert "It died of the signal that asks it to save its state (USR2)" in told


def test_a_signal_with_b_is_for_the_script_alone(cluster: Cluster) -> None:
    script = "trap 'touch b.script' URG; perl -e '$SIG{URG} = sub { open F, q(>b.child) }; sleep 1; sleep 30' & "
    script += "while [ ! -e b.script ]; do sleep 0.2; done; sleep 0.5; kill %1; exit 0"
    job = cluster.submit("-W", "1", "--signal", "B:URG@58", script)
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and (cluster.folder / "b.script").exists()
    assert not (cluster.folder / "b.child").exists()


def test_a_signal_before_the_run_limit_reaches_tasks_on_other_hosts_that_glaunch_does_not_pass_it_on_to(
    cluster: Cluster,
) -> None:
    task = cluster.folder / "task"
    task.write_text("trap 'cat $GSCHED_DEADLINE > heard' URG; while [ ! -e heard ]; do sleep 0.2; done; true")
    words = ("-n", "2", "-R", "span[ptile=1]", "-m", "one! two", "-W", "1", "--signal", "URG@57")
    job = cluster.submit(*words, f"trap : URG; glaunch -z two sh {task}")
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and view.started_at is not None
    assert int(lines(cluster, "heard")[0]) > view.started_at
    assert "Warned of its end; it has" in cluster.run("ghist", "-UF", str(job)).stdout


def test_a_job_goes_on_when_nobody_needs_its_place_any_more(cluster: Cluster) -> None:
    with cluster.files_as_they_are():
        cluster.configure(lsb_queues=PREEMPTING, lsb_params=BY_REQUEUE.format("JOB_TERMINATE_INTERVAL = 1\n"))
        script = "trap 'echo x >> spared' TERM; touch spared.began; while [ -s $GSCHED_DEADLINE -o ! -e spared ]; "
        script += "do sleep 0.2; done; sleep 7"  # what ends with its time to save has done as it was asked
        low = cluster.submit(
            *("-m", "one", "-gpu", "num=1", "--restart-on", "preempt", "--signal", "B:TERM@20", script)
        )
        cluster.until(lambda: (cluster.folder / "spared.began").exists(), "it does not begin")
        high = cluster.submit("-q", "urgent", "-m", "one", "-gpu", "num=1", "true")
        cluster.until(lambda: (cluster.folder / "spared").exists(), "it is not asked")
        why = cluster.run("gjobs", "-p", str(high)).stdout
        assert f"Job <{low}>, which makes room for it, saves its state until" in why
        cluster.run("gkill", str(high))
        (view,) = cluster.wait(low)
    assert view.state == "DONE" and view.attempt == 1 and lines(cluster, "spared") == ["x"]
    assert f"Job <{high}> needs its place no more" in cluster.run("ghist", "-UF", str(low)).stdout


def test_who_does_not_answer_in_time_is_ended(cluster: Cluster) -> None:
    with cluster.files_as_they_are():
        cluster.configure(lsb_queues=PREEMPTING, lsb_params=BY_REQUEUE.format("JOB_TERMINATE_INTERVAL = 1\n"))
        script = "trap 'echo x >> deaf' TERM; touch deaf.began; [ $GSCHED_ATTEMPT -gt 1 ] && exit 0; "
        script += "while true; do sleep 0.2; done"
        low = cluster.submit(*("-m", "one", "-gpu", "num=1", "--restart-on", "preempt", "--signal", "B:TERM@2", script))
        cluster.until(lambda: (cluster.folder / "deaf.began").exists(), "it does not begin")
        high = cluster.submit("-q", "urgent", "-m", "one", "-gpu", "num=1", "true")
        views = cluster.wait(low, high)
    assert [view.state for view in views] == ["DONE", "DONE"]
    assert lines(cluster, "deaf")[0] == "x"


@pytest.mark.parametrize(
    "words",
    [
        ("--signal", "KILL"),
        ("--signal", "TERM@0"),
        ("--signal", "X:TERM@5"),
        ("--signal", "TERM@5", "-wa", "URG", "-wt", "1"),
        ("--restart-on", "preempt,flood"),
        ("--restart-on", ""),
        ("--restart-on", "host", "-I"),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Cluster, words: tuple[str, ...]) -> None:
    refused = cluster.run("gsub", *words, "true", check=False)
    assert refused.returncode == 255 and len(refused.stderr.strip().splitlines()) == 1, refused.stderr
