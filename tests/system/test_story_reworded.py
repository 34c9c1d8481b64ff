"""A day through the installed commands, and the same day again where every sentence of the cluster is worded otherwise:
exit codes, keys and codes of JSON, states of jobs and what is known of GPUs are the same.

The daemons are started with a sitecustomize that changes the table of sentences before they read it. Commands are laid
out by the door, so what people see is in other words as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import AnyText, CodedText, coded, has_code, sentence
from gsched.model.views.view import HostView, JobView

REWORD = """
import re
from gsched.base.sentences import SENTENCES
BLANK = re.compile(r"(\\{[^}]*\\})")
for code, words in list(SENTENCES.items()):
    SENTENCES[code] = "~" + "".join(w if BLANK.fullmatch(w) else w[::-1] for w in BLANK.split(words)) + "~"
"""
ONE_GPU = ("-R", "rusage[ngpus_excl_p=1]")
WORDED = frozenset({"PEND_REASON"})
"""Values of JSON that are sentences for people."""
NUMBERED = frozenset({"JOBID", "DEPENDENCY"})
"""Values of JSON that name jobs by their numbers."""


def codes(text: AnyText) -> object:
    """What a text says, without words and numbers."""
    if isinstance(text, str):
        return "words" if text else ""
    return (text.code, *(codes(value) for value in text.values if isinstance(value, CodedText)))


@dataclass
class Day:
    """What happened, as it must be whatever it is called, and what was shown."""

    cluster: Cluster
    happened: list[object] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """Number of a job -> which one of the day it is."""

    def command(self, *words: str, stdin: str = "") -> str:
        """Any command; its exit code counts, and which of its two outputs has anything."""
        done = self.cluster.run(*words, stdin=stdin, check=False)
        told = tuple(word for word in words if not any(map(str.isdigit, word)))
        self.happened.append((told, done.returncode, bool(done.stdout), bool(done.stderr)))
        self.shown.append(done.stdout + done.stderr)
        return done.stdout

    def submit(self, *words: str) -> int:
        number = int(re.findall(r"<(\d+)>", self.command("gsub", *words))[0])
        self.numbers[number] = len(self.numbers)
        return number

    def json_of(self, *words: str) -> None:
        """A command that answers in JSON: all keys, and all values that are no sentences."""
        (answer,) = [json.loads(self.command(*words))]
        for record in answer["RECORDS"]:
            kept = {key: None if key in WORDED else value for key, value in record.items()}
            self.happened.append(kept | {key: self._which(record[key]) for key in NUMBERED & record.keys()})

    def sees(self, job_id: int, is_so: Callable[[JobView], bool], what: str) -> JobView:
        """Wait until it is so; then what is known of the job counts."""
        self.cluster.until(lambda: is_so(self.cluster.job(job_id)), what)
        view = self.cluster.job(job_id)
        result = view.result
        ended = result and (result.exit_code, result.signal, result.term_reason, result.started, codes(result.problem))
        reasons = [(codes(each.text), codes(each.detail)) for each in view.pending_reasons]
        self.happened.append((self.numbers[job_id], view.state, reasons, ended, [*map(codes, view.notes)]))
        return view

    def host(self, is_so: Callable[[HostView], bool], what: str) -> HostView:
        """The same of the only host."""
        found: list[HostView] = []

        def looked() -> bool:
            with self.cluster.client() as client:
                found[:] = client.hosts()
            return is_so(found[0])

        self.cluster.until(looked, what)
        gpus = [(codes(each.gpu.problem), codes(each.gpu.fault)) for each in found[0].gpus]
        self.happened.append((found[0].status, [*map(codes, found[0].notes)], gpus))
        return found[0]

    def _which(self, value: str) -> str:
        return re.sub(r"\d+", lambda number: f"job {self.numbers[int(number[0])]}", value)


def ended(view: JobView) -> bool:
    return view.state in ("DONE", "EXIT")


def waits_for(*wanted: str) -> Callable[[JobView], bool]:
    def is_so(view: JobView) -> bool:
        return view.state == "PEND" and any(has_code(each.text, *wanted) for each in view.pending_reasons)

    return is_so


def refused(day: Day, over: int) -> None:
    """What is refused, of the command line, of admission, by a queue, of a job that is over, and of the files."""
    day.command("gsub", "-q", "nosuch", "true")
    day.command("gsub", "-n", "100000", "true")
    day.command("gsub", "-x", "true")
    day.command("gsub", "-w", f"done({over})", "true")
    day.command("gsub", "-R", "select[", "true")
    day.command("gkill", str(over))
    day.command("gkill", "99999999")
    day.command("gmod", "-n", "2", str(over))
    day.command("gmod", "-q", "nosuch", str(over))
    queues = day.cluster.conf / "lsb.queues"
    before = queues.read_text()
    queues.write_text(before.replace("Begin Queue", "Begin Queue\nPRIORITY = high", 1))
    day.command("gadmin", "ckconfig")
    day.command("gadmin", "reconfig", stdin="y\n")
    queues.write_text(before)
    day.command("gadmin", "reconfig", stdin="y\n")


def depended(day: Day) -> None:
    """On a job that is killed; one that waits is shown, and ends when its condition can never hold."""
    parent = day.submit("sleep", "600")
    child = day.submit("-w", f"done({parent})", "true")
    day.sees(child, waits_for("dependency.not_satisfied"), "the condition is not looked at")
    day.json_of("gjobs", "-json", "-o", "jobid stat queue dependency pend_reason", str(child))
    day.command("gkill", str(parent))
    day.sees(parent, ended, "it is not killed")
    assert day.sees(child, ended, "what can never start goes on").result is not None
    day.command("gjobs", "-l", str(child))


def failed_before_it_began(day: Day) -> None:
    """By its pre-execution command, and without its directory."""
    job = day.submit("-E", "exit 4", "true")
    seen = day.sees(job, waits_for("pending.pre_exec_failed"), "its pre-execution command is not run")
    assert seen.pending_reasons[0].text == coded("pending.pre_exec_failed", "job")
    day.command("gjobs", "-p", str(job))
    day.command("gkill", str(job))
    day.sees(job, ended, "it is not killed")
    lost = day.submit("-cwd", "/proc/nosuch", "true")
    view = day.sees(lost, ended, "it starts somewhere")
    assert view.result is not None and view.result.term_reason == "TERM_CWD_NOTEXIST"
    day.command("ghist", "-l", str(lost))


def gpu_failed(day: Day) -> int:
    """A job loses its GPU; the next one waits, for the host has no other, and says so."""
    cluster = day.cluster
    job = day.submit(*ONE_GPU, "sleep", "600")
    day.sees(job, lambda view: view.state == "RUN" and view.pid is not None, "it does not run")
    waiting = day.submit(*ONE_GPU, "sleep", "600")
    day.sees(waiting, lambda view: waits_for("pending.reserving")(view), "it does not wait for a GPU")
    day.json_of("gjobs", "-json", "-o", "jobid stat gpu_num pend_reason", str(waiting))
    cluster.run("gsched", "sim-gpu", "0", "xid=79", "--dir", str(cluster.folder))
    view = day.sees(job, ended, "it goes on without its GPU")
    assert (
        view.result is not None and view.result.term_reason == "TERM_GPU" and has_code(view.notes[0], "note.gpu_failed")
    )
    host = day.host(lambda view: bool(view.gpus[0].gpu.fault), "the GPU is not closed")
    assert any(has_code(note, "remark.gpu_not_offered", "remark.no_gpu_offered") for note in host.notes)
    day.sees(waiting, lambda view: bool(view.pending_reasons), "nothing is said of the next one")
    day.command("ghosts", "-l", cluster.host)
    day.json_of("ghosts", "-json", "-o", "host_name status max njobs run", cluster.host)
    day.command("gkill", str(waiting))
    day.sees(waiting, ended, "it is not killed")
    return job


def closed_host(day: Day) -> None:
    host = day.cluster.host
    day.command("gadmin", "hclose", "-C", "for a while", host)
    day.host(lambda view: view.status == "closed_Adm", "the host is not closed")
    job = day.submit("true")
    day.sees(job, waits_for("host.closed_by_admin"), "it is started on a closed host")
    day.command("gjobs", "-p3", str(job))
    day.command("gadmin", "hopen", host)
    day.sees(job, ended, "it is not started")


def day_of(cluster: Cluster) -> tuple[Day, int]:
    """The whole day, and the job that lost its GPU."""
    day = Day(cluster)
    first = day.submit("sleep", "600")
    day.sees(first, lambda view: view.state == "RUN" and view.pid is not None, "it does not run")
    day.command("gkill", str(first))
    day.sees(first, ended, "it is not killed")
    refused(day, first)
    depended(day)
    failed_before_it_began(day)
    closed_host(day)
    return day, gpu_failed(day)


@pytest.fixture(scope="module")
def days(module_cluster: Callable[..., Cluster]) -> Iterator[tuple[Day, Day, int]]:
    """The day, the day in other words, and the first day's job that lost its GPU."""
    cluster = module_cluster("--sim-gpus", "1:exclusive_process")
    text = (cluster.conf / "lsf.conf").read_text()
    cluster.configure(lsf_conf="=" + re.sub(r"GSCHED_GPU_INTERVAL=.*", "GSCHED_GPU_INTERVAL=0.3", text))
    section = "DEFAULT_QUEUE = normal\nJOB_TERMINATE_INTERVAL = 0.2\nGPU_CLEAN_PROBES = 1000000"
    cluster.configure(lsb_params=f"=Begin Parameters\n{section}\nEnd Parameters\n")
    first, lost = day_of(cluster)
    cluster.run("gadmin", "gpuopen", f"{cluster.host}:0")
    Day(cluster).host(lambda view: not view.gpus[0].gpu.fault, "the GPU is not opened")
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    words = cluster.folder / "words"
    words.mkdir()
    (words / "sitecustomize.py").write_text(REWORD)
    cluster.env["PYTHONPATH"] = str(words)
    cluster.up()
    second, _ = day_of(cluster)
    yield first, second, lost


@pytest.mark.nightly
def test_the_same_happens_in_other_words(days: tuple[Day, Day, int]) -> None:
    first, second, _ = days
    for before, after in zip(first.happened, second.happened, strict=True):
        assert after == before


def test_all_that_was_shown_is_in_other_words(days: tuple[Day, Day, int]) -> None:
    """Else the other words have not come to where the sentences are made."""
    first, second, _ = days
    assert not any("~" in shown for shown in first.shown)
    told = [before for before, after in zip(first.shown, second.shown, strict=True) if "~" in after]
    for code, *values in (
        ("dependency.invalid",),
        ("pending.pre_exec_failed", "job"),
        ("host.closed_by_admin",),
        ("refusal.exclusive", "normal"),
    ):
        assert any(sentence(coded(code, *values)) in before for before in told), code


def test_what_was_stored_before_is_told_in_the_words_of_today(days: tuple[Day, Day, int]) -> None:
    first, _, lost = days
    shown = first.cluster.run("ghist", "-l", str(lost)).stdout
    assert "~" in shown and "it has fallen off the bus" not in shown and "TERM_GPU" in shown
    assert Path(first.cluster.folder / "words" / "sitecustomize.py").exists()
