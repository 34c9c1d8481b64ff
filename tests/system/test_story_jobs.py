"""The walk-through: options of gsub, and what gjobs, gkill and gpeek make of jobs."""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster, printed

USER = getpass.getuser()
HEADER = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"
STAMP = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


def unfolded(text: str) -> str:
    return re.sub(r"\n {21}", "", text)


def long(cluster: Cluster, job: int) -> str:
    return unfolded(cluster.run("gjobs", "-l", str(job)).stdout)


def output(cluster: Cluster, *words: str, stdin: str = "") -> str:
    """What a job with these words writes (without -o)."""
    done = cluster.run("gsub", "-o", "out.%J", *words, stdin=stdin)
    job = int(re.findall(r"<(\d+)>", done.stdout)[0])
    cluster.wait(job)
    return printed(cluster.folder / f"out.{job}")


# -- gsub ---------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_line_after_submission(cluster: Cluster) -> None:
    done = cluster.run("gsub", "true")
    assert re.fullmatch(r"Job <\d+> is submitted to default queue <normal>\.\n", done.stdout)
    done = cluster.run("gsub", "-q", "short", "true")
    assert re.fullmatch(r"Job <\d+> is submitted to queue <short>\.\n", done.stdout)
    assert done.stderr == ""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["echo", "hello"], "hello\n"),
        (["sh", "-c", "echo a; echo b"], "a\nb\n"),
        (["echo one; echo two > /dev/null; echo three"], "one\nthree\n"),
        (["sh", "-c", 'echo "$0|$1"', "x y", "it's"], "x y|it's\n"),
        (["echo", "a", ";", "echo", "b"], "a\nb\n"),
        (["printf", "%s,", "a b", '"', "(", "\\", "$HOME"], 'a b,",(,\\,$HOME,\n'),
    ],
)
def test_command_words(cluster: Cluster, words: list[str], wanted: str) -> None:
    assert output(cluster, *words) == wanted


def test_a_script_on_standard_input(cluster: Cluster) -> None:
    script = (
        "#!/bin/bash\n#BSUB -J from_script\n#BSUB -n 2   # two slots\nx=(a b)\necho $LSB_JOBNAME ${x[1]} $LSB_HOSTS\n"
    )
    assert output(cluster, stdin=script) == f"from_script b {cluster.host} {cluster.host}\n"


@pytest.mark.smoke
def test_options_reach_the_job(cluster: Cluster) -> None:
    work = cluster.folder / "work"
    work.mkdir()
    (work / "numbers").write_text("3\n1\n2\n")
    words = ["-J", "sorted", "-q", "short", "-n", "3", "-m", cluster.host, "-P", "thesis", "-cwd", str(work)]
    words += ["-i", "numbers", "-o", "o.%J", "-e", "e.%J", "-W", "0:10"]
    job = cluster.submit(*words, "sh", "-c", "sort; echo $LSB_JOBNAME $LSB_QUEUE $LSB_DJOB_NUMPROC $PWD; echo oops >&2")
    view = cluster.wait(job)[0]
    assert view.state == "DONE"
    assert printed(work / f"o.{job}") == f"1\n2\n3\nsorted short 3 {work}\n"
    assert (work / f"e.{job}").read_text() == "oops\n"
    assert view.spec.run_limit_s == 600
    text = long(cluster, job)
    assert re.search(
        rf"\nJob <{job}>, Job Name <sorted>, User <{USER}>, Project <thesis>, Status <DONE>, Queue <short>, Command <",
        text,
    )
    for part in (
        f"Specified CWD <{work}>",
        "Input File <numbers>",
        f"Output File <o.{job}>" if f"Output File <o.{job}>" in text else "Output File <o.%J>",
        f"Error File <e.{job}>" if f"Error File <e.{job}>" in text else "Error File <e.%J>",
        "3 Task(s)",
        f"Specified Hosts <{cluster.host}>",
        "\n RUNLIMIT                \n 10.0 min",
    ):
        assert part in text, (part, text)


def test_several_requirements_add_up(cluster: Cluster) -> None:
    job = cluster.submit("-R", "select[ngpus>0]", "-R", "rusage[ngpus_excl_p=1]", "-R", "select[mem>1]", "true")
    assert cluster.wait(job)[0].state == "DONE"
    requirement = re.search(r"\n Effective: (.*)\n", long(cluster, job))
    assert requirement is not None
    for part in ("ngpus>0", "mem>1", "rusage[ngpus_excl_p=1.00]"):
        assert part in requirement[1]


def test_output_is_appended_or_overwritten(cluster: Cluster) -> None:
    for option, wanted in (("-o", "old\nnew\n"), ("-oo", "new\n")):
        (cluster.folder / "both").write_text("old\n")
        cluster.wait(cluster.submit(option, "both", "echo", "new"))
        assert printed(cluster.folder / "both") == wanted
    for option, wanted in (("-e", "old\nnew\n"), ("-eo", "new\n")):
        (cluster.folder / "errors").write_text("old\n")
        cluster.wait(cluster.submit(option, "errors", "echo new >&2"))
        assert (cluster.folder / "errors").read_text() == wanted


def test_output_without_an_error_file_holds_both(cluster: Cluster) -> None:
    assert output(cluster, "echo out; echo err >&2") == "out\nerr\n"


@pytest.mark.smoke
def test_k_waits_and_gives_the_exit_code(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-K", "exit 7", check=False)
    assert done.returncode == 7
    assert done.stderr == f"<<Waiting for dispatch ...>>\n<<Starting on {cluster.host}>>\n<<Job is finished>>\n"
    assert cluster.run("gsub", "-K", "true").returncode == 0


def test_a_held_job_runs_when_it_is_resumed(cluster: Cluster) -> None:
    job = cluster.submit("-H", "true")
    assert cluster.job(job).state == "PSUSP"
    assert cluster.run("gresume", str(job)).stdout == f"Job <{job}> is being resumed\n"
    assert cluster.wait(job)[0].state == "DONE"


@pytest.mark.smoke
def test_the_run_limit_ends_a_job(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-q", "short", "-W", "20", "true", check=False)
    assert done.returncode == 255
    assert done.stderr.startswith("Cannot exceed queue's hard limit(s)")
    assert done.stderr.endswith(". Job not submitted.\n")


# -- gjobs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture(cluster: Cluster) -> dict[str, int]:
    """One job of each kind: done, exit, run, pend."""
    jobs = {"done": cluster.submit("-J", "fine", "-P", "p1", "true")}
    cluster.wait(jobs["done"])  # what has finished is listed in that order
    jobs["exit"] = cluster.submit("-J", "broken", "-q", "short", "exit 3")
    jobs["run"] = cluster.submit("-J", "running_for_long", "-R", "rusage[ngpus_excl_p=4]", "sleep", "600")
    cluster.wait(jobs["exit"])
    cluster.starts(jobs["run"])
    jobs["pend"] = cluster.submit("-J", "waiting", "-P", "p1", "-R", "rusage[ngpus_excl_p=1]", "sleep", "600")
    cluster.why_pending(jobs["pend"])
    return jobs


def ids(cluster: Cluster, *words: str) -> set[int]:
    """Numbers of the jobs that `gjobs WORDS` lists."""
    done = cluster.run("gjobs", *words, check=False)
    lines = done.stdout.splitlines()
    return {int(line.split()[0]) for line in lines if line[:1].isdigit()}


@pytest.mark.smoke
def test_gjobs_lists_what_has_not_finished(cluster: Cluster, mixture: dict[str, int]) -> None:
    lines = cluster.run("gjobs").stdout.splitlines()
    assert lines[0] == HEADER
    host = f"{cluster.host:<11.11}"
    run, pend = mixture["run"], mixture["pend"]
    assert re.fullmatch(
        rf"{run:<7} {USER:<7.7} RUN   normal     {host} {host} \*_for_long [A-Z][a-z]{{2}} [ 123]\d \d\d:\d\d", lines[1]
    )
    assert re.fullmatch(
        rf"{pend:<7} {USER:<7.7} PEND  normal     {host}             waiting    [A-Z][a-z]{{2}} [ 123]\d \d\d:\d\d",
        lines[2],
    )
    assert len(lines) == 3


def test_gjobs_filters(cluster: Cluster, mixture: dict[str, int]) -> None:
    done, ended, run, pend = mixture.values()
    assert {done, ended, run, pend} <= ids(cluster, "-a")
    assert ids(cluster, "-u", "all") == {run, pend}
    assert ids(cluster, "-u", USER) == {run, pend}
    assert ids(cluster, "-q", "short") == set()
    assert ended in ids(cluster, "-a", "-q", "short")
    assert done not in ids(cluster, "-a", "-q", "short")
    assert ids(cluster, "-m", cluster.host) == {run}
    assert ids(cluster, "-J", "wait*") == {pend}
    assert ids(cluster, "-P", "p1") == {pend}
    assert ids(cluster, "-p") == {pend}
    assert ids(cluster, "-r") == {run}
    assert ids(cluster, str(done), str(pend)) == {done, pend}


def test_gjobs_wide(cluster: Cluster, mixture: dict[str, int]) -> None:
    lines = cluster.run("gjobs", "-w").stdout.splitlines()
    assert lines[0] == HEADER
    assert " running_for_long " in lines[1]
    assert f" {cluster.host:<11}    -        waiting " in lines[2]
    lines = cluster.run("gjobs", "-W", str(mixture["done"])).stdout.splitlines()
    more = "PROJ_NAME  CPU_USED     MEM     SWAP    PIDS         START_TIME     FINISH_TIME"
    assert lines[0].startswith(f"{HEADER}    {more}")
    assert re.search(r" p1 +000:00:00\.\d\d .* \d\d/\d\d-\d\d:\d\d:\d\d \d\d/\d\d-\d\d:\d\d:\d\d 1$", lines[1])


def test_gjobs_fields(cluster: Cluster, mixture: dict[str, int]) -> None:
    wanted = "".join(f"{mixture[name]} {stat}\n" for name, stat in (("done", "DONE"), ("exit", "EXIT")))
    words = ("-noheader", "-o", "jobid stat", str(mixture["done"]), str(mixture["exit"]))
    assert cluster.run("gjobs", *words).stdout == wanted
    text = cluster.run("gjobs", "-o", "jobid:8 stat exit_code job_name delimiter='|'", str(mixture["exit"])).stdout
    assert [cell.strip() for cell in text.splitlines()[0].split("|")] == ["JOBID", "STAT", "EXIT_CODE", "JOB_NAME"]
    assert [cell.strip() for cell in text.splitlines()[1].split("|")] == [str(mixture["exit"]), "EXIT", "3", "broken"]
    assert cluster.run("gjobs", "-noheader", "-J", "waiting").stdout.startswith(f"{mixture['pend']:<7} ")


def test_gjobs_l_separates_jobs(cluster: Cluster, mixture: dict[str, int]) -> None:
    text = cluster.run("gjobs", "-l", str(mixture["done"]), str(mixture["exit"])).stdout
    first, second = text.split("-" * 78 + "\n")
    assert first.startswith(f"\nJob <{mixture['done']}>, Job Name <fine>, ")
    assert second.startswith(f"\nJob <{mixture['exit']}>, Job Name <broken>, ")
    assert re.search(rf"\n{STAMP}: Done successfully. The CPU time used is \d+\.\d seconds.\n", unfolded(first))
    assert re.search(rf"\n{STAMP}: Exited with exit code 3. The CPU time used is \d+\.\d seconds.\n", unfolded(second))


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["999999"], "Job <999999> is not found\n", 255),
        (["-q", "night"], "No unfinished job found in queue <night>\n", 0),
        (["-q", "nosuch"], "nosuch: No such queue\n", 255),
        (["-m", "nosuch"], "nosuch: Bad host name, host group name or cluster name\n", 255),
        (["abc"], "abc: Illegal job ID.\n", 255),
        (["-s"], "No suspended job found\n", 0),
    ],
)
def test_gjobs_messages(cluster: Cluster, mixture: dict[str, int], words: list[str], text: str, code: int) -> None:
    for door in ("on", "off"):
        done = cluster.run("gjobs", *words, check=False, GSCHED_DOOR=door)
        assert (done.stdout, done.stderr, done.returncode) == ("", text, code)


def test_one_unknown_job_does_not_hide_the_others(cluster: Cluster, mixture: dict[str, int]) -> None:
    done = cluster.run("gjobs", str(mixture["done"]), "999999", check=False)
    assert done.stdout.splitlines()[1].startswith(f"{mixture['done']:<7} ")
    assert (done.stderr, done.returncode) == ("Job <999999> is not found\n", 255)


READERS = [
    ["gjobs", "-a"],
    ["gjobs", "-l"],
    ["gjobs", "-a", "-w"],
    ["gjobs", "-p"],
    ["ghosts"],
    ["gqueues"],
    ["gid"],
    ["gjobs", "-o", "jobid stat", "-json"],
    ["gjobs", "-h"],
    ["gsub", "-V"],
    ["gjobs", "-nosuch"],
    ["ghist", "999999"],
    ["gpeek", "999999"],
    ["gkill", "999999"],
    ["gsub", "-q", "nosuch", "true"],
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_without_the_door_everything_is_the_same(cluster: Cluster, mixture: dict[str, int], words: list[str]) -> None:
    def said(door: str) -> tuple[int, str, str]:
        done = cluster.run(*words, check=False, GSCHED_DOOR=door)
        # Usage of the running job is sampled every second.
        return (
            done.returncode,
            re.sub(r"\d+ seconds\.|(?:MEM|SWAP|NTHREAD): \d+|\d\d:\d\d:\d\d", "", done.stdout),
            done.stderr,
        )

    assert said("on") == said("off")


# -- gkill and gpeek ------------------------------------------------------------------------------------------------


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize(("words", "trap"), [((), ":"), (("-r",), "trap : INT TERM")])
def test_gkill_ends_a_job_with_all_its_processes(cluster: Cluster, words: tuple[str, ...], trap: str) -> None:
    script = (
        "echo $$ >> family; sleep 600 & echo $! >> family; "
        "setsid sh -c 'echo $$ >> family; sleep 600 & echo $! >> family; "
        "(setsid sleep 600 & echo $! >> family) & exit' & "
        f"{trap}; while :; do sleep 600; done"
    )
    family = cluster.folder / "family"
    family.unlink(missing_ok=True)
    job = cluster.submit("sh", "-c", script)
    cluster.until(lambda: family.exists() and len(family.read_text().split()) == 5, "no family")
    pids = [int(pid) for pid in family.read_text().split()]
    assert sum(map(alive, pids)) >= 4
    assert cluster.run("gkill", *words, str(job)).stdout == f"Job <{job}> is being terminated\n"
    assert cluster.wait(job)[0].state == "EXIT"
    assert [pid for pid in pids if alive(pid)] == []
    history = unfolded(cluster.run("ghist", "-l", str(job)).stdout)
    assert f": Signal <KILL> requested by user or administrator <{USER}>;\n" in history
    assert ": Completed <exit>" in history


def test_gkill_lets_a_program_clean_up(cluster: Cluster) -> None:
    flag = cluster.folder / "trapping"
    script = f"trap 'echo cleaned; exit 5' INT TERM; touch {flag.name}; while :; do sleep 0.05; done"
    job = cluster.submit("-o", "cleanup", "sh", "-c", script)
    cluster.until(flag.exists, "not started")
    assert cluster.run("gkill", str(job)).stdout == f"Job <{job}> is being terminated\n"
    view = cluster.wait(job)[0]
    assert (view.state, view.result and view.result.exit_code) == ("EXIT", 5)
    assert printed(cluster.folder / "cleanup") == "cleaned\n"


def test_gkill_of_a_pending_and_of_a_finished_job(cluster: Cluster) -> None:
    job = cluster.submit("-H", "true")
    assert cluster.run("gkill", str(job)).stdout == f"Job <{job}> is being terminated\n"
    assert cluster.wait(job)[0].state == "EXIT"
    again = cluster.run("gkill", str(job), check=False)
    assert (again.stdout, again.stderr) == ("", f"Job <{job}>: Job has already finished\n")
    assert again.returncode == 255
    unknown = cluster.run("gkill", "999999", check=False)
    assert (unknown.stderr, unknown.returncode) == ("Job <999999>: No matching job found\n", 255)


def test_gpeek_shows_the_output_so_far(cluster: Cluster) -> None:
    job = cluster.submit("sh", "-c", "echo first; echo trouble >&2; sleep 600")
    cluster.until(lambda: "first" in cluster.run("gpeek", str(job), check=False).stdout, "no output")
    cluster.until(lambda: "trouble" in cluster.run("gpeek", str(job)).stdout, "no error output")
    assert cluster.run("gpeek", str(job)).stdout.startswith("<< output from stdout >>\nfirst\n")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert "first\n" in cluster.run("gpeek", str(job)).stdout
    job = cluster.submit("-o", "peeked", "sh", "-c", "echo to the file; sleep 600")
    cluster.until(lambda: "to the file\n" in cluster.run("gpeek", str(job), check=False).stdout, "no output")
    cluster.run("gkill", str(job))
    pending = cluster.submit("-H", "true")
    done = cluster.run("gpeek", str(pending), check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"Job <{pending}> : Not yet started.\n", 255)
    cluster.run("gkill", str(pending))


def test_gpeek_shows_what_could_not_be_written_to_its_file(cluster: Cluster) -> None:
    says = ("sh", "-c", "echo printed; echo trouble >&2")
    ways = {
        ("-o", "/nowhere/out"): "<< output from stdout >>\nprinted\ntrouble\n",
        ("-o", "/nowhere/out", "-e", "/nowhere/err"): (
            "<< output from stdout >>\nprinted\n\n<< output from stderr >>\ntrouble\n"
        ),
        ("-o", "fine.%J", "-e", "/nowhere/err"): "<< output from stderr >>\ntrouble\n",
    }
    for options, shown in ways.items():
        job = cluster.submit(*options, *says)
        cluster.wait(job)
        for _ in range(2):  # at once, and when the agent has been told to forget it
            assert cluster.run("gpeek", str(job)).stdout == shown
            cluster.until(lambda job=job: any(cluster.folder.glob(f"spool/*/outputs/{job}.1.*")), "it is not kept")  # type: ignore[misc]
        told = "".join(cluster.run("ghist", "-l", str(job)).stdout.split())
        assert "theoutputiskeptontheexecutionhost,wheregpeekfindsit" in told
    job = cluster.submit("-o", "fine.%J", *says)
    cluster.wait(job)
    done = cluster.run("gpeek", str(job), check=False)
    assert done.stdout == "" and done.stderr.endswith(f"already finished; its output is in fine.{job}\n")


def test_ctrl_c_on_a_waiting_gsub_leaves_the_job(cluster: Cluster) -> None:
    waiting = subprocess.Popen(
        ["gsub", "-K", "sleep", "600"],
        env=cluster.env,
        cwd=cluster.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    assert waiting.stderr is not None
    job = int(re.findall(r"<(\d+)>", waiting.stdout.readline())[0])
    while "Starting" not in waiting.stderr.readline():
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 130
    assert f"job <{job}> stays in the cluster (gkill {job})" in said
    assert "Traceback" not in said
    assert cluster.job(job).state == "RUN"
    cluster.run("gkill", str(job))


def test_jobs_inherit_the_environment_and_the_umask(cluster: Cluster) -> None:
    before = os.umask(0o037)
    try:
        job = cluster.submit("-o", "masked", "sh", "-c", "umask; echo $MY_SETTING", MY_SETTING="두 단어")
    finally:
        os.umask(before)
    cluster.wait(job)
    assert printed(cluster.folder / "masked") == "0037\n두 단어\n"
    assert (cluster.folder / "masked").stat().st_mode & 0o777 == 0o640
