"""Submission on a real cluster: every option does what it says, and what is wrong is said and changes nothing."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import BIN, PATIENCE_S, Cluster, printed

QUEUES = """
Begin Queue
QUEUE_NAME = tasks
PRIORITY = 20
TASKLIMIT = 4 8
End Queue

Begin Queue
QUEUE_NAME = steps
PRIORITY = 20
PRE_EXEC = echo queue $LSB_QUEUE >> {log}
POST_EXEC = echo after $LSB_JOBEXIT_STAT >> {log}
JOB_STARTER = env STARTER=queue
End Queue
"""
APPLICATIONS = """
Begin Application
NAME = care
DESCRIPTION = with steps of its own
PRE_EXEC = echo profile >> {log}
POST_EXEC = echo clean >> {log}
JOB_STARTER = env STARTER=profile sh -c "%USRCMD"
RUNLIMIT = 30
MEMLIMIT = 500
RES_REQ = rusage[mem=10]
REQUEUE_EXIT_VALUES = 98
TASKLIMIT = 1 2 3
End Application
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--sim-gpus", "2:exclusive_process")
    log = made.folder / "log.txt"
    made.configure(
        lsb_queues=QUEUES.format(log=log), lsb_applications=APPLICATIONS.format(log=log), lsb_hosts="=" + HOSTS
    )
    return made


HOSTS = "Begin Host\nHOST_NAME MXJ\ndefault 16\nEnd Host\n"


def log_of(cluster: Cluster) -> list[str]:
    path = cluster.folder / "log.txt"
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return text.splitlines()


def output(cluster: Cluster, *words: str, stdin: str = "", **env: str) -> str:
    """What a job with these words writes, without the report."""
    done = cluster.run("gsub", "-o", "out.%J", *words, stdin=stdin, **env)
    job = int(re.findall(r"<(\d+)>", done.stdout)[0])
    cluster.wait(job)
    return printed(cluster.folder / f"out.{job}")


# -- scripts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_a_script_is_copied_before_the_command_returns(cluster: Cluster, mode: int) -> None:
    script = cluster.folder / "job.sh"
    script.write_text(
        "#!/bin/sh\n#BSUB-J copied\n#BSUB -o copied.%J  # where to\n #BSUB -q nosuch\necho ran $LSB_JOBNAME\n"
    )
    script.chmod(mode)
    job = cluster.submit("-H", "./job.sh")
    script.unlink()
    cluster.run("gresume", str(job))
    cluster.wait(job)
    assert printed(cluster.folder / f"copied.{job}") == "ran copied\n"


def test_a_script_with_the_line_ends_of_windows_runs(cluster: Cluster) -> None:
    text = "#!/bin/sh\r\n#BSUB -J win\r\necho $LSB_JOBNAME | od -c\r\n"
    assert "\\r" not in output(cluster, stdin=text)


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("#BSUB -J 'open\nls\n", "line 1 of the script: the quote ' in '-J 'open' is not closed. Job not submitted.\n"),
        ("\x7fELF\0\0", "The script is a binary file, not text. Job not submitted.\n"),
        ("#!/bin/sh\n#BSUB -n 2\n", "No command is specified. Job not submitted.\n"),
        ("", "No command is specified. Job not submitted.\n"),
        ("#BSUB -IX\nls\n", "line 1 of the script: option -IX is not supported: -I, -Ip and -Is are the kinds"),
    ],
)
def test_what_is_wrong_with_a_script_is_said(cluster: Cluster, stdin: str, message: str) -> None:
    done = cluster.run("gsub", stdin=stdin, check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.startswith(message) and done.stderr.endswith(". Job not submitted.\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-q nosuch", "nosuch: No such queue"),
        ("-R 'select[nosuch>1]'", "Bad resource name: "),
        ("-R 'rusage[mem=1000000T]'", "No host can ever provide mem="),
        ("-w 'done(99999)'", "Dependency condition invalid or never satisfied: "),
        ("-m nosuch", "nosuch: Bad host name, host group name or cluster name"),
        ("-app nosuch", "nosuch: No such application profile"),
        ("-U nosuch", "nosuch: there is no such advance reservation"),
        ("-G nosuch", "nosuch: Bad user group name"),
        ("-x", "normal: Queue does not accept EXCLUSIVE jobs"),
        ("-sp 5", "Job priority control undefined"),
        ("-n 5000", "Too many processors requested: 5000"),
        ('-gpu "num=1000"', "No host can ever provide "),
    ],
)
def test_what_the_master_finds_wrong_in_a_script_names_its_line(cluster: Cluster, line: str, message: str) -> None:
    done = cluster.run("gsub", stdin=f"#!/bin/sh\n#BSUB -J fine\n#BSUB {line}\nls\n", check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.startswith(f"line 3 of the script: {message}"), done.stderr
    assert done.stderr.endswith(". Job not submitted.\n") and done.stderr.count("\n") == 1


def test_what_the_master_finds_wrong_on_the_command_line_names_no_line(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-q", "nosuch", stdin="#BSUB -q other\nls\n", check=False)
    assert done.stderr == "nosuch: No such queue. Job not submitted.\n"


def test_what_a_job_was_submitted_with_is_shown(cluster: Cluster) -> None:
    script = "#!/bin/sh\n#BSUB -H\necho 안녕\n"
    told = cluster.run("gsub", stdin=script, SPECIAL="one\ntwo").stdout
    job = told.split("<")[1].split(">")[0]
    assert cluster.run("gjobs", "-script", job).stdout == script
    assert "\nSPECIAL=one\ntwo\n" in "\n" + cluster.run("gjobs", "-env", job).stdout
    plain = str(cluster.submit("-H", "-J", "a[1-2]", "true"))
    refused = cluster.run("gjobs", "-script", f"{plain}[2]", check=False)
    assert (refused.returncode, refused.stdout) == (255, "") and "has no script" in refused.stderr
    assert cluster.run("gjobs", "-env", plain).stdout
    for words in (("-script",), ("-env", job, plain), ("-l", "-env", job), ("-env", "0")):
        wrong = cluster.run("gjobs", *words, check=False)
        assert wrong.returncode == 255 and "stands alone and is given one job" in wrong.stderr
    assert cluster.run("gjobs", "-env", "99999", check=False).stderr == "Job <99999> is not found\n"
    cluster.run("gkill", job, plain)


def test_a_script_of_10_mb_runs(cluster: Cluster) -> None:
    text = "#!/bin/sh\n" + "# filling\n" * 1_050_000 + "echo end\n"
    assert output(cluster, stdin=text) == "end\n"


def test_100_kb_of_arguments_and_a_hostile_environment_survive(cluster: Cluster) -> None:
    words = [f"단어{number:04d}" for number in range(10_000)]
    weird = "한글\nline \udcff"
    told = output(cluster, "printenv WEIRD | od -An -v -tx1 | tr -d ' \\n'", WEIRD=weird)
    assert bytes.fromhex(told) == weird.encode("utf-8", "surrogateescape") + b"\n"
    count = output(cluster, "sh", "-c", 'echo $# "$1"', "name", *words)
    assert count == f"10000 {words[0]}\n"


def test_a_person_at_a_terminal_is_asked(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["gsub"], stdin=theirs, stdout=subprocess.PIPE, env=cluster.env, cwd=cluster.folder, text=True
    ) as process:
        os.close(theirs)
        os.write(ours, b"echo typed\n\x04")
        out, _ = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert re.fullmatch(r"gsub> Job <\d+> is submitted to default queue <normal>\.\n", out)


# -- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["6", "6,10", "1,6"])
def test_ranges_that_meet_the_task_limit(cluster: Cluster, asked: str) -> None:
    assert cluster.run("gsub", "-q", "tasks", "-H", "-n", asked, "true").returncode == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [("9", "Too many"), ("1", "Too few"), ("10,16", "Too many"), ("1,3", "Too few")],
)
def test_ranges_that_do_not(cluster: Cluster, asked: str, message: str) -> None:
    done = cluster.run("gsub", "-q", "tasks", "-n", asked, "true", check=False)
    assert done.returncode == 255
    assert re.fullmatch(rf"{message} processors requested: .*\. Job not submitted\.\n", done.stderr)


def test_steps_of_queue_profile_and_job(cluster: Cluster) -> None:
    log = cluster.folder / "log.txt"
    log_of(cluster)
    assert output(cluster, "-q", "steps", "printenv STARTER") == "queue\n"
    assert log_of(cluster) == ["queue steps", "after 0"]
    assert output(cluster, "-q", "steps", "-app", "care", "printenv STARTER LSB_DJOB_NUMPROC") == "profile\n2\n"
    assert log_of(cluster) == ["queue steps", "profile", "clean", "after 0"]
    own = ("-E", f"echo mine >> {log}", "-Ep", f"echo done >> {log}")
    output(cluster, "-q", "steps", "-app", "care", *own, "exit 3")
    assert log_of(cluster) == ["queue steps", "mine", "done", "after 768"]


def test_a_profile_counts_before_the_queue_and_after_the_job(cluster: Cluster) -> None:
    plain = cluster.job(cluster.submit("-H", "-app", "care", "true")).spec
    assert (plain.run_limit_s, plain.limits["MEMLIMIT"], plain.slots) == (1800, 500.0, 2)
    assert (plain.requeue_exit_values, plain.application) == ("98", "care")
    assert "rusage[mem=10.00" in plain.combined_req
    own = cluster.job(
        cluster.submit("-H", "-app", "care", "-W", "5", "-M", "900", "-n", "1", "-R", "rusage[mem=20]", "true")
    ).spec
    assert (own.run_limit_s, own.limits["MEMLIMIT"], own.slots) == (300, 900.0, 1)
    assert "rusage[mem=20.00" in own.combined_req
    done = cluster.run("gsub", "-app", "nosuch", "true", check=False)
    assert (done.returncode, done.stderr) == (255, "nosuch: No such application profile. Job not submitted.\n")


def test_a_step_that_fails_lets_the_job_wait_and_try_again(cluster: Cluster) -> None:
    flag = cluster.folder / "ready"
    job = cluster.submit("-E", f"test -e {flag}", "true")
    text = "The job's pre-exec command exited with non-zero status (1)"
    cluster.until(
        lambda: text in cluster.run("ghist", "-l", str(job)).stdout.replace("\n                     ", ""), "no reason"
    )
    flag.touch()
    assert cluster.wait(job)[0].state == "DONE"
    aborted = cluster.wait(cluster.submit("-E", "exit 99", "true"))[0]
    assert (aborted.state, aborted.result and aborted.result.exit_code) == ("EXIT", 99)


def test_post_err_is_told_apart(cluster: Cluster) -> None:
    bad, good = cluster.submit("-Ep", "false", "true"), cluster.submit("-Ep", "true", "false")
    after = cluster.submit("-w", f"post_err({bad}) && post_done({good})", "true")
    assert [view.state for view in cluster.wait(bad, good, after)] == ["DONE", "EXIT", "DONE"]


def test_login_shell_outdir_input_and_copies(cluster: Cluster) -> None:
    home = cluster.folder / "home"
    home.mkdir()
    (home / ".profile").write_text("export FROM_PROFILE=yes\n")
    (cluster.folder / "in.txt").write_text("input\n")
    script = "cat - carried; echo $FROM_PROFILE; echo $LSB_OUTDIR; echo back > result"
    words = ("-L", "/bin/sh", "-outdir", "dir.%J", "-is", "in.txt", "-o", "out", "-H")
    copies = ("-f", "in.txt > carried", "-f", "returned < result")
    job = cluster.submit(*words, *copies, script, HOME=str(home), GSCHED_ENVDIR=str(cluster.conf))
    (cluster.folder / "in.txt").write_text("later\n")
    cluster.run("gresume", str(job))
    cluster.wait(job)
    folder = cluster.folder / f"dir.{job}"
    assert printed(folder / "out") == f"input\nlater\nyes\n{folder}\n"
    assert (cluster.folder / "returned").read_text() == "back\n"


def test_a_snapshot_is_kept_with_the_job(cluster: Cluster) -> None:
    git = shutil.which("git") or pytest.skip("there is no git")
    folder = cluster.folder / "code"
    folder.mkdir()

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=folder, env=cluster.env | env, capture_output=True, text=True, timeout=300)

    run(git, "init", "--quiet", "--initial-branch", "trunk")
    (folder / "train.py").write_text("rate = 1\n")
    run(git, "add", "train.py")
    made = run(git, "-c", "user.name=ann", "-c", "user.email=ann@host", "commit", "--quiet", "-m", "first")
    assert made.returncode == 0, made.stderr
    (folder / "train.py").write_text("rate = 2\n")
    (folder / "notes").touch()
    told = run("gsub", "--snapshot", "true", PATH=f"{BIN}:{os.environ['PATH']}")
    assert told.returncode == 0, told.stderr
    job = int(told.stdout.split("<")[1].split(">")[0])
    commit = run(git, "rev-parse", "HEAD").stdout.strip()
    line = run("gread", "-w", "-i", "128", str(job)).stdout
    assert f"commit {commit[:10]}, 2 files changed, branch trunk; Python " in line, line
    assert f"commit {commit[:10]}" in cluster.run("gjobs", "-l", str(job)).stdout
    cluster.wait(job)
    cluster.run("gread", "-i", "128", "-a", "kept", str(job))
    kept = (cluster.folder / "kept").read_text()
    for text in (f"commit {commit} of trunk\n", "?? notes\n", "-rate = 1\n+rate = 2\n", "\ngsched=="):
        assert text in kept
    nothing = run(str(BIN / "gsub"), "--snapshot", "true", PATH=str(folder))
    assert (nothing.returncode, nothing.stdout) == (255, "")
    assert nothing.stderr.endswith("there is no python3 in PATH: nothing can be kept. Job not submitted.\n")
    (folder / "jobs").write_text("--snapshot true\n")
    packed = run("gsub", "-pack", "jobs")
    assert packed.returncode == 255 and "--snapshot" in packed.stderr


def test_a_job_is_submitted_again(cluster: Cluster) -> None:
    script = "#BSUB -J train -W 5 -o out.%J\necho $SEED $PWD\n"
    first = int(cluster.run("gsub", stdin=script, SEED="1").stdout.split("<")[1].split(">")[0])
    array = cluster.submit("-J", "a[1-3]", "-o", "out.%J.%I", "-w", f"done({first})", "--notify", "mail", "true")
    cluster.run("gwait", "-w", f"done({array})")
    told = subprocess.run(
        ["gsub", "--resubmit", str(first), "-W", "9"], cwd="/", env=cluster.env, capture_output=True, text=True
    )
    second = int(told.stdout.split("<")[1].split(">")[0])
    cluster.wait(second)
    assert printed(cluster.folder / f"out.{second}") == f"1 {cluster.folder}\n"
    spec = cluster.job(second).spec
    assert (spec.name, spec.run_limit_s, spec.script) == ("train", 540, cluster.job(first).spec.script)
    told = cluster.run("gsub", "--resubmit", f"{array}[2]")
    assert f"the notices of job {array}[2] are not taken over" in told.stderr
    third = int(told.stdout.split("<")[1].split(">")[0])
    cluster.run("gwait", "-w", f"done({third})")
    assert [path.name for path in cluster.folder.glob(f"out.{third}.*")] == [f"out.{third}.2"]
    for word, complaint in (("4711", "Job <4711> is not found"), ("x", "x: Illegal job ID. Job not submitted.")):
        refused = cluster.run("gsub", "--resubmit", word, check=False)
        assert (refused.returncode, refused.stderr, refused.stdout) == (255, f"{complaint}\n", "")


def test_a_job_is_warned_of_its_end(cluster: Cluster) -> None:
    script = "trap 'echo warned; exit 7' USR1; while :; do sleep 0.1; done"
    job = cluster.submit("-W", "2", "-wa", "USR1", "-wt", "2", "-H", script)
    cluster.run("gmod", "-W", "3", str(job))
    cluster.run("gmod", "-wt", "3", str(job))
    cluster.run("gresume", str(job))
    assert cluster.wait(job)[0].result is not None


def test_what_was_asked_for_can_be_changed_and_taken_back(cluster: Cluster) -> None:
    job = cluster.submit("-H", "true")
    cluster.run(
        "gmod", "-E", "a", "-Ep", "b", "-app", "care", "-L", "/bin/sh", "-u", "ann", "-B", "-N", "-ti", str(job)
    )
    spec = cluster.job(job).spec
    assert (spec.pre_exec, spec.post_exec, spec.application, spec.login_shell) == ("a", "b", "care", "/bin/sh")
    assert (spec.mail_user, spec.notify_begin, spec.notify_end, spec.end_orphan) == ("ann", True, True, True)
    cluster.run("gmod", "-En", "-Epn", "-appn", "-Ln", "-un", "-Bn", "-Nn", "-tin", str(job))
    spec = cluster.job(job).spec
    assert (spec.pre_exec, spec.post_exec, spec.application, spec.login_shell, spec.run_limit_s) == (
        "",
        "",
        "",
        "",
        None,
    )
    assert (spec.mail_user, spec.notify_begin, spec.notify_end, spec.end_orphan) == ("", False, False, False)
    cluster.run("gmod", "--signal", "B:TERM@30", str(job))
    spec = cluster.job(job).spec
    assert (spec.warning_signal, spec.warning_s, spec.warns_main, spec.saves_on_signal) == ("TERM", 30, True, True)
    cluster.run("gmod", "--signaln", str(job))
    spec = cluster.job(job).spec
    assert (spec.warning_signal, spec.warning_s, spec.warns_main, spec.saves_on_signal) == ("", None, False, False)


def test_mail_at_the_start_and_at_the_end(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-N", "true")
    assert done.stderr == "Warning: no mail will be sent: lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER\n"
    box = cluster.folder / "box"
    box.mkdir()
    program = cluster.folder / "mailer"
    program.write_text(f'#!/bin/sh\nto=$2; cat > {box}/new.$$; mv {box}/new.$$ "{box}/$to.$$"\n')
    program.chmod(0o700)
    cluster.configure(lsf_conf=f'LSB_MAILPROG="{program} -oi"\nLSB_MAILTO=!U@site\n')
    job = cluster.submit("-B", "-N", "-u", "ann@other", "-o", "log.%J", "-J", "mailed", "echo printed")
    cluster.wait(job)
    cluster.until(lambda: len(list(box.glob("ann@other.*"))) == 2, "no mail")
    texts = sorted(path.read_text() for path in box.iterdir())
    assert any(f"Subject: Job {job}: <mailed> started." in text for text in texts)
    end = next(text for text in texts if "Done" in text)
    assert (
        "Successfully completed." in end and f"Read file <log.{job}> for stdout and stderr output of this job." in end
    )
    assert (cluster.folder / f"log.{job}").read_text() == "printed\n"
    job = cluster.submit("-Ne", "echo lost; exit 3")
    cluster.wait(job, cluster.submit("-Ne", "true"))
    cluster.until(lambda: list(box.glob("*@site.*")), "no mail about the end")
    mine = [path for path in box.iterdir() if not path.name.startswith("ann@other")]
    assert [path.name.partition("@")[2][:4] for path in mine] == ["site"]
    assert "The output (if any) follows:\n\nlost\n" in mine[0].read_text()
    program.write_text("#!/bin/sh\nexit 5\n")
    job = cluster.submit("-N", "true")
    cluster.wait(job)
    assert "mailer failed with exit code 5" in re.sub("\n {21}", "", cluster.run("ghist", "-l", str(job)).stdout)


def test_a_file_of_submissions_is_submitted_in_few_calls(cluster: Cluster) -> None:
    (cluster.folder / "jobs").write_text("".join(f"-H -J n{number} true\n" for number in range(1, 1201)))
    done = cluster.run("gsub", "-pack", "jobs")
    lines = done.stdout.splitlines()
    assert len(lines) == 1201 and lines[-1] == "1200 lines parsed, 1200 jobs submitted, 0 errors found."
    (cluster.folder / "jobs").write_text("-H true\n-q nosuch true\n-H true\n")
    done = cluster.run("gsub", "-pack", "jobs", check=False)
    assert (done.returncode, done.stderr) == (255, "jobs, line 2: nosuch: No such queue. Job not submitted.\n")
    assert done.stdout.endswith("3 lines parsed, 1 jobs submitted, 1 errors found.\n")


@pytest.mark.parametrize("door", ["on", "off"])
def test_who_cannot_be_shown_the_number_of_the_job_is_told_it_with_the_error(cluster: Cluster, door: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [BIN / "gsub", "true"],
            env=cluster.env | {"GSCHED_DOOR": door},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    told = r"gsub: cannot write to standard output: No space left on device: Job <(\d+)> is submitted to .*\n"
    found = re.fullmatch(told, done.stderr)
    assert found is not None and done.returncode == 255, done.stderr
    cluster.wait(int(found[1]))
