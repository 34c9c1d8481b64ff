"""Notices through real daemons: what of a job its user hears, once, whoever is killed meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fault_tools import fork_server, kill_and_wait
from live_cluster import Cluster

from tests.support.hook_server import HookServer, hook_server


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def program(cluster: Cluster, name: str) -> Path:
    """A program that adds what it is given to NAME.out, a line each time."""
    path = cluster.folder / name
    path.write_text(f'#!/bin/sh\ncat >> "{path}.out"\necho >> "{path}.out"\n')
    path.chmod(0o700)
    return path


def history(cluster: Cluster, job: int) -> str:
    return cluster.run("ghist", "-UF", "-l", str(job)).stdout


def settled(cluster: Cluster, job: int, count: int) -> str:
    """The job's history when so many of its notices are over."""
    cluster.until(lambda: history(cluster, job).count("otice of the ") >= count, f"{count} notices are not over")
    return history(cluster, job)


def test_a_webhook_hears_of_the_start_and_the_end(cluster: Cluster, hook: HookServer) -> None:
    name = 'quo"te <!channel> 한글'
    job = cluster.submit("--notify", f"{hook.url()},all", "-J", name, "-gpu", "num=1", "sleep 0.1; exit 3")
    told: dict[str, dict[str, Any]] = {}
    while len(told) < 2:  # where the machine keeps a sender waiting, a try is made again after the next notice
        found = hook.wait().told
        told[found["event"]] = found
    start, end = told["start"], told["fail"]
    assert (start["job"]["id"], start["job"]["state"]) == (str(job), "RUN")
    assert (end["event"], end["job"]["exit_code"], end["job"]["name"]) == ("fail", 3, name)
    assert end["job"]["gpus"] == 1 and end["text"].endswith(": it exited with 3")
    text = settled(cluster, job, 2)
    assert ": Notice of the start sent by webhook;" in text and ": Notice of the failure sent by webhook;" in text
    assert "Notices <webhook: start, end, fail, warning>" in cluster.run("gjobs", "-l", "-UF", str(job)).stdout


def test_where_notices_go_is_nowhere_to_be_seen(cluster: Cluster, hook: HookServer) -> None:
    file = cluster.folder / "notify"
    file.write_text(f"webhook {hook.url()} events=end\n")
    file.chmod(0o600)
    job = cluster.submit("sleep 0.1", GSCHED_NOTIFY_FILE=str(file))
    hook.wait()
    shown = settled(cluster, job, 1)
    for words in (["gjobs", "-l", str(job)], ["gjobs", "-json", "-o", "all", str(job)], ["ghist", "-l", str(job)]):
        shown += cluster.run(*words, check=False).stdout
    shown += cluster.run("gadmin", "metrics", check=False).stdout + cluster.logs()
    for path in (cluster.folder / "log").iterdir():
        shown += path.read_text(errors="replace")
    assert "S3CR3T" not in shown and str(hook.port) not in shown
    kept = [path for path in cluster.folder.rglob("*") if path.is_file() and b"S3CR3T" in path.read_bytes()]
    assert {path.parent.name for path in kept} <= {"state", cluster.folder.name}
    assert all(path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0 for path in kept)


def test_a_file_that_is_wrong_is_told_with_its_line_and_nothing_is_submitted(cluster: Cluster) -> None:
    file = cluster.folder / "wrong"
    file.write_text("mail\nwebhook https://h/S3CR3T events=ende\n")
    file.chmod(0o600)
    done = cluster.run("gsub", "true", check=False, GSCHED_NOTIFY_FILE=str(file))
    assert done.returncode == 255 and done.stdout == ""
    assert done.stderr == (
        f"{file}:2: 'ende' is none of the events start, end, fail, warning and all. Job not submitted.\n"
    )
    file.write_text("webhook https://h/S3CR3T\n")
    file.chmod(0o644)
    done = cluster.run("gsub", "true", check=False, GSCHED_NOTIFY_FILE=str(file))
    assert done.returncode == 255 and "others can read it (mode 644)" in done.stderr
    done = cluster.run("gsub", "-J", b"\xff".decode("utf-8", "surrogateescape"), "true", check=False)
    assert done.returncode == 255 and "is not UTF-8" in done.stderr


def test_a_program_hears_of_it_with_the_job_s_limits_or_without(cluster: Cluster) -> None:
    path = program(cluster, "page")
    job = cluster.submit("--notify", f"{path},end", "-F", "1K", "true")
    settled(cluster, job, 1)
    told = json.loads(Path(f"{path}.out").read_text())
    assert (told["event"], told["job"]["id"], told["job"]["state"]) == ("end", str(job), "DONE")


def test_mail_goes_by_the_site_s_program(cluster: Cluster) -> None:
    path = program(cluster, "mailer")
    with cluster.files_as_they_are():
        done = cluster.run("gsub", "-H", "--notify", "mail", "true")
        assert done.stderr == ("Warning: no mail will be sent: lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER\n")
        cluster.configure(lsf_conf=f'LSB_MAILPROG="{path}"\nLSB_MAILTO=!U@site\n')
        job = cluster.submit("--notify", "mail,end", "true")
        settled(cluster, job, 1)
    text = Path(f"{path}.out").read_text()
    assert f"Subject: Job {job} (true) of cluster" in text and "To: " in text and "@site" in text


def test_what_the_site_does_not_allow_is_said(cluster: Cluster, hook: HookServer) -> None:
    with cluster.files_as_they_are():
        cluster.configure(lsf_conf='GSCHED_NOTIFY="mail"\n')
        done = cluster.run("gsub", "--notify", hook.url(), "true")
        assert done.stderr == "Warning: no notices by webhook: GSCHED_NOTIFY of lsf.conf does not allow them\n"
        job = cluster.submit("true")
        cluster.wait(job - 1, job)
    assert not hook.received


def test_an_array_is_told_of_as_one(cluster: Cluster, hook: HookServer) -> None:
    job = cluster.submit("--notify", f"{hook.url()},end", "-J", "a[1-5]", "exit $((LSB_JOBINDEX == 3))")
    told = hook.wait().told
    assert (told["job"]["id"], told["job"]["elements"]) == (str(job), {"DONE": 4, "EXIT": 1})
    assert told["text"].endswith("is over: 4 DONE, 1 EXIT")


def test_a_job_that_runs_gets_other_notices_and_a_pending_one_tells_of_its_end(
    cluster: Cluster, hook: HookServer
) -> None:
    job = cluster.submit("-o", "x", "sleep 1000")
    cluster.starts(job)
    cluster.run("gmod", "--notify", f"{hook.url()},end", str(job))
    cluster.run("gkill", str(job))
    assert hook.wait().told["job"]["term_reason"] == "TERM_OWNER"
    held = cluster.submit("-H", "--notify", f"{hook.url()},end", "true")
    cluster.run("gkill", str(held))
    told = hook.wait().told
    assert (told["job"]["id"], told["job"]["started_at"]) == (str(held), None)
    assert told["text"].split(" has ended ")[1].startswith("without having run")


def test_what_is_wrong_at_the_other_end_is_tried_again_and_then_said(cluster: Cluster, hook: HookServer) -> None:
    hook.answers += ["500", "429 Retry-After: 1"]
    job = cluster.submit("--notify", f"{hook.url()},end", "true")
    tries = [hook.wait() for _ in range(3)]
    assert len({each.headers["Idempotency-Key"] for each in tries}) == 1
    settled(cluster, job, 1)
    hook.answers.append("404")
    job = cluster.submit("--notify", f"{hook.url()},end", "true")
    text = settled(cluster, job, 1)
    assert ": The notice of the end was not sent by webhook: HTTP status 404;" in text
    assert "by webhook: HTTP status 404" in cluster.run("gjobs", "-l", "-UF", "-a", str(job)).stdout


def test_a_server_that_does_not_answer_holds_up_no_job(cluster: Cluster, hook: HookServer) -> None:
    hook.answers += ["wait"] * 20
    waiting = cluster.submit("--notify", f"{hook.url()},start", "true")
    hook.wait()
    (view,) = cluster.wait(waiting)
    assert view.state == "DONE"
    job = cluster.submit("true")
    assert cluster.wait(job)[0].state == "DONE"
    hook.answers.clear()
    hook.go_on.set()
    settled(cluster, waiting, 1)


def senders(cluster: Cluster) -> list[int]:
    """Processes that send notices of this cluster. Only root sees more of them than their command lines."""
    found = []
    for process in psutil.Process(fork_server(cluster)).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("notices.sender" in word for word in process.cmdline()):
                found.append(process.pid)
    return found


def kill(cluster: Cluster, what: str) -> None:
    if what == "fork server":
        kill_and_wait(fork_server(cluster))
        return
    cluster.kill(f"agent-{cluster.host}" if what == "agent" else what)


@pytest.mark.fault
@pytest.mark.parametrize("what", ["agent", "master", "fork server"])
def test_who_is_killed_while_the_server_has_the_request_neither_loses_nor_repeats_it(
    cluster: Cluster, hook: HookServer, what: str
) -> None:
    hook.answers.append("wait")
    job = cluster.submit("--notify", f"{hook.url()},end", "true")
    first = hook.wait()
    kill(cluster, what)
    hook.go_on.set()  # at once: who sends gives up after 20 seconds, and a start of daemons may take longer
    cluster.up()
    settled(cluster, job, 1)
    assert [each.headers["Idempotency-Key"] for each in hook.received] == [first.headers["Idempotency-Key"]]
    assert history(cluster, job).count("Notice of the end sent") == 1


@pytest.mark.fault
def test_a_sender_that_is_killed_after_its_request_sends_it_again_under_the_same_id(
    cluster: Cluster, hook: HookServer
) -> None:
    """Whether the request arrived nobody here can know."""
    hook.answers.append("wait")
    job = cluster.submit("--notify", f"{hook.url()},end", "true")
    hook.wait()
    cluster.until(lambda: senders(cluster), "there is no sender")
    for pid in senders(cluster):
        os.kill(pid, signal.SIGKILL)
    hook.wait()
    settled(cluster, job, 1)
    assert len(hook.received) == 2
    assert len({each.headers["Idempotency-Key"] for each in hook.received}) == 1


@pytest.mark.fault
def test_what_nobody_could_be_told_while_all_was_down_is_told_afterwards(cluster: Cluster, hook: HookServer) -> None:
    job = cluster.submit("--notify", f"{hook.url()},end", "until [ -e go.on ]; do sleep 0.1; done")
    cluster.starts(job)
    cluster.kill("master")
    cluster.kill(f"agent-{cluster.host}")
    (cluster.folder / "go.on").touch()
    cluster.up()
    assert hook.wait().told["job"]["state"] == "DONE"
    settled(cluster, job, 1)
    assert len(hook.received) == 1


@pytest.mark.slow
def test_a_job_is_told_before_its_run_limit(cluster: Cluster, hook: HookServer) -> None:
    job = cluster.submit("--notify", f"{hook.url()},warning", "-W", "1", "-o", "x", "sleep 1000")
    told = hook.wait().told
    assert told["warning"]["code"] == "notice.run_limit_near" and "run limit of 1 minutes" in told["text"]
    cluster.run("gkill", str(job))


@pytest.mark.slow
def test_a_server_that_never_answers_is_asked_again_under_the_same_id(cluster: Cluster, hook: HookServer) -> None:
    hook.answers.append("wait")
    job = cluster.submit("--notify", f"{hook.url()},end", "true")
    first, second = hook.wait(), hook.wait()
    assert not hook.go_on.is_set() and cluster.state(job) == "DONE"
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert settled(cluster, job, 1).count("Notice of the end sent") == 1
