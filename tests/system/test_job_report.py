"""The report below the output of real jobs: it says what gjobs and ghist say, and is there when they say it."""

from __future__ import annotations

import re

import pytest
from live_cluster import Cluster, printed


@pytest.fixture(scope="module")
def cluster(module_cluster) -> Cluster:
    return module_cluster("--sim-gpus", "1")


def report(cluster: Cluster, name: str) -> str:
    """The report above the output; blanks at the ends of lines are no part of it."""
    told, follows, _ = (cluster.folder / name).read_text().partition("\nThe output (if any) follows:\n")
    assert follows and told.startswith("Sender: LSF System <"), told
    return told


@pytest.mark.parametrize(
    ("words", "ending", "reason", "told"),
    [
        (("true",), None, "", "Successfully completed."),
        (("exit 3",), None, "", "Exited with exit code 3."),
        (("exec sleep 600",), "gkill", "TERM_OWNER: job killed by owner", r"Exited with signal termination: \d+."),
        (
            ("-M", "20", "python3 -c 'import time; held = bytearray(90 << 20); time.sleep(600)'"),
            None,
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
            "Exited with .*",
        ),
    ],
)
def test_the_end_is_told_alike_everywhere(cluster: Cluster, words, ending, reason, told) -> None:
    job = cluster.submit("-J", "보고", "-o", "r.%J", *words)
    if ending:
        cluster.starts(job)
        cluster.run(ending, str(job))
    cluster.wait(job)
    text = report(cluster, f"r.{job}")
    lines = (f"{reason}.\n" if reason else "") + told
    assert re.search(rf"\n{lines}\n\nResource usage summary:\n\n    CPU time : ", text), text
    assert f"\nSubject: Job {job}: <보고> in cluster <" in "\n" + text
    if reason:
        assert f"Completed <exit>; {reason}." in cluster.run("gjobs", "-UF", str(job)).stdout
        assert f"Completed <exit>; {reason};" in cluster.run("ghist", "-UF", str(job)).stdout
        assert cluster.run("gjobs", "-noheader", "-o", "exit_reason", str(job)).stdout == reason + "\n"


def test_a_requeued_job_says_so_and_reports_each_run(cluster: Cluster) -> None:
    job = cluster.submit("-o", "again", "echo run; mkdir once && exec sleep 600; true")
    cluster.until((cluster.folder / "once").exists, "it does not run")
    cluster.run("grequeue", str(job))
    cluster.wait(job)
    text = (cluster.folder / "again").read_text()
    assert printed(cluster.folder / "again").startswith("run\n")
    assert "Job was killed by user or admin, and will be re-queued with the same jobid.\n" in text
    assert text.count("Sender: LSF System <") == 2 and text.count("\nSuccessfully completed.\n") == 1


def test_the_report_is_no_output(cluster: Cluster) -> None:
    job = cluster.submit("-o", "peek", "echo first; sleep 1; echo last")
    followed = cluster.run("gpeek", "-f", str(job), check=False)
    while "Not yet started" in followed.stderr:
        followed = cluster.run("gpeek", "-f", str(job), check=False)
    assert "Sender" not in followed.stdout
    cluster.wait(job)
    assert printed(cluster.folder / "peek") == "first\nlast\n"


def test_with_lsb_stdout_direct_the_report_stands_below_the_output(cluster: Cluster) -> None:
    job = cluster.submit("-o", "direct", "-e", "direct.e", "echo out", LSB_STDOUT_DIRECT="Y")
    cluster.wait(job)
    text = (cluster.folder / "direct").read_text()
    assert text.startswith("out\n\n" + "-" * 60 + "\nSender: LSF System <")
    assert "\nThe output (if any) is above this job summary.\n\n\n\nPS:\n\nRead file <" in text


def test_a_large_output_is_there_while_the_job_runs_and_stays_where_it_is(cluster: Cluster) -> None:
    """Nothing of it is copied: the file keeps its inode, and its blocks."""
    path = cluster.folder / "large"
    job = cluster.submit(
        "-o", "large", "-e", "large.e", "yes | head -c 20000000; echo; until [ -e over ]; do sleep 0.05; done"
    )
    cluster.until(lambda: path.exists() and path.stat().st_size > 20_000_000, "nothing is printed")
    assert path.read_text().startswith(f"The report on job <{job}> stands here when the job has ended.\n")
    before = path.stat().st_ino
    followed = cluster.run("gpeek", str(job)).stdout
    (cluster.folder / "over").touch()
    cluster.wait(job)
    assert path.stat().st_ino == before
    assert printed(path) == "y\n" * 10_000_000 + "\n"
    assert "Sender" not in followed and "stands here" not in followed and followed.endswith("y\n\n")
    assert "\nSuccessfully completed.\n" in report(cluster, "large")


def test_what_a_pre_execution_command_keeps_from_running_says_so(cluster: Cluster) -> None:
    job = cluster.submit("-o", "kept", "-E", "test -e let || { touch let; exit 3; }", "echo ran")
    cluster.wait(job)
    text = (cluster.folder / "kept").read_text()
    assert text.startswith(
        f"Job <{job}> was not started here: The job's pre-exec command exited with non-zero status (3)"
    )
    assert text.count("Sender: LSF System <") == 1 and text.rstrip().endswith("ran")


def test_the_agent_that_died_before_the_report_leaves_it_to_the_next(cluster: Cluster) -> None:
    job = cluster.submit("-o", "later", "echo out; until [ -e end ]; do sleep 0.05; done")
    cluster.starts(job)
    cluster.kill(f"agent-{cluster.host}")
    (cluster.folder / "end").touch()
    cluster.until(lambda: not _lives(cluster.job(job).pid), "the job does not end")
    cluster.up()
    cluster.wait(job)
    assert printed(cluster.folder / "later") == "out\n"
    assert (cluster.folder / "later").read_text().count("Sender: LSF System <") == 1


def test_messages_conditions_and_jobs_that_are_done_by_being_killed(cluster: Cluster) -> None:
    job = cluster.submit("-J", "메시지", "sleep 600")
    waiting = cluster.submit("-w", f"done({job})", "true")
    cluster.starts(job)
    assert cluster.run("gpost", "-i", "3", "-d", "에폭 12", str(job)).stdout == f"Message posted to job <{job}>\n"
    assert re.search(r"^ 3 .* 에폭 12 ", cluster.run("gread", str(job)).stdout, re.MULTILINE)
    assert re.search(r"^ 3 .* 에폭 12 ", cluster.run("gjobs", "-l", str(job)).stdout, re.MULTILINE)
    none = cluster.run("gread", "-a", "copied", str(job), check=False)
    assert (none.returncode, none.stderr) == (66, f"Job <{job}>: No attachment available in message box 0\n")
    content = bytes(range(256)) * 4096
    (cluster.folder / "그림").write_bytes(content)
    cluster.run("gpost", "-i", "5", "-a", "그림", str(job))
    shown = cluster.run("gread", "-i", "5", "-a", "copied", str(job)).stdout
    assert shown.endswith(" Y\n") and (cluster.folder / "copied").read_bytes() == content
    again = cluster.run("gpost", "-i", "5", "-a", "그림", str(job), check=False)
    assert again.returncode == 255 and "which stays there" in again.stderr
    assert 'External Message "에폭 12" was posted' in cluster.run("ghist", "-UF", str(job)).stdout
    assert re.search(
        rf"^{waiting} +{job} +RUN +메시지 +1$", cluster.run("gjdepinfo", str(waiting)).stdout, re.MULTILINE
    )
    cluster.run("gkill", "-d", "-C", "그만", str(job))
    cluster.run("gwait", "-w", f"done({job}) && done({waiting})")
    assert cluster.state(job) == "DONE"
    assert "Job termination reason: 그만;" in cluster.run("ghist", "-UF", str(job)).stdout
    never = cluster.run("gwait", "-w", f"exit({job})", check=False)
    assert never.returncode == 255 and never.stderr.startswith("Wait condition is never satisfied: ")


def _lives(pid: int | None) -> bool:
    from gsched.run.processes import process_tree

    process = process_tree.read_process(pid or 0)
    return process is not None and not process.is_dead


def test_what_is_kept_without_o_is_cut_with_a_line(cluster: Cluster) -> None:
    """While the job runs and at its end; a job with -o has all of it."""
    cluster.down()
    conf = cluster.conf / "lsf.conf"
    conf.write_text(conf.read_text() + "GSCHED_KEPT_OUTPUT_MIB=2\n")
    cluster.up()
    much = "yes | head -c 20000000; echo err >&2; touch printed; while [ ! -e go ]; do sleep 0.1; done; echo end"
    job = cluster.submit(much)
    cluster.until((cluster.folder / "printed").exists, "it does not run")
    (kept,) = cluster.folder.rglob(f"attempts/{job}.1/stdout")
    cluster.until(lambda: kept.stat().st_size < 2 << 20, "it is not cut while it runs")
    (cluster.folder / "go").touch()
    assert cluster.wait(job)[0].state == "DONE"
    shown = cluster.run("gpeek", str(job)).stdout
    line = (
        "[gsched: the output is cut off here; of a job without -o no more than 1 MiB of it are kept "
        "(GSCHED_KEPT_OUTPUT_MIB)]"
    )
    assert shown.count("y\n") == 1 << 19 and f"\n{line}\n" in shown and "end" not in shown and "err\n" in shown
    other = cluster.submit("-o", "all", "yes | head -c 3000000; echo end")
    cluster.wait(other)
    text = (cluster.folder / "all").read_text()
    assert text.count("y\n") == 1_500_000 and "end\n" in text and line not in text


def test_the_oldest_of_what_is_kept_goes_and_the_history_says_so(cluster: Cluster) -> None:
    with cluster.files_as_they_are():
        conf = cluster.conf / "lsf.conf"
        lines = [line for line in conf.read_text().splitlines() if "GSCHED_KEPT_OUTPUT" not in line]
        conf.write_text("\n".join([*lines, "GSCHED_KEPT_OUTPUT_MIB=4", "GSCHED_KEPT_OUTPUT_USER_MIB=4", ""]))
        cluster.down()
        cluster.up()
        old = cluster.submit("yes | head -c 2000000")
        cluster.wait(old)
        assert cluster.run("gpeek", str(old)).stdout.count("y\n") == 1_000_000
        for _ in range(2):
            cluster.wait(cluster.submit("yes | head -c 2000000"))
        told = (
            f"The output of run 1 (2 MiB) was removed on host {cluster.host}: its user's jobs without -o had more than"
        )
        words = "".join(told.split())
        cluster.until(lambda: words in "".join(cluster.run("ghist", "-l", str(old)).stdout.split()), "nothing is told")
        shown = cluster.run("gpeek", str(old)).stdout
        assert "[gsched: the output of this job (2 MiB) was removed on " in shown and "y\n" not in shown
        cluster.kill(f"agent-{cluster.host}")
        cluster.up()
        assert "was removed on " in cluster.run("gpeek", str(old)).stdout
        assert cluster.run("ghist", "-l", str(old)).stdout.count("was removed on host") == 1
