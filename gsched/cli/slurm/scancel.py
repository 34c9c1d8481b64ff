"""`scancel`: end jobs and steps, or send them a signal, as Slurm's command of that name does.

A signal is for the steps of a job alone, with --batch for its script alone, with --full for all. Of jobs that Slurm's
commands have not submitted all processes get it: they have no steps. Source: scancel(1) of Slurm 22.05.
"""

from __future__ import annotations

import signal as signals
import sys
from collections.abc import Iterable
from dataclasses import replace

from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, element_id
from gsched.base.node_lists import expand_nodes
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, read_words
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.job_steps import BATCH, STEP_NAME, SlurmStep, steps_of
from gsched.cli.slurm.facts.slurm_clock import SlurmClock
from gsched.cli.slurm.job_columns import shown_id
from gsched.cli.slurm.slurm_call import FAILURE, GENERAL, elements_of, fails_as_slurm
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, GnuWords, refused
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.messages.control_action import ControlAction

TABLE = GnuOptions(
    summary="end jobs and steps, or send them a signal, as Slurm's scancel does",
    operands="[JOB[_INDEX][.STEP] ...]",
    options=(
        GnuOption("signal", "s", "SIGNAL", "send this signal to their steps instead of ending them"),
        GnuOption("user", "u", "USER", "all jobs of this user"),
        GnuOption("me", "", help="all your own jobs"),
        GnuOption("name", "n", "NAME", "only jobs of this name"),
        GnuOption("jobname", "", "NAME", "the same"),
        GnuOption("partition", "p", "QUEUE", "only jobs of this queue"),
        GnuOption("account", "A", "PROJECT", "only jobs of this project"),
        GnuOption("state", "t", "STATE", "only jobs that are PENDING, RUNNING or SUSPENDED"),
        GnuOption("quiet", "Q", help="say nothing of jobs that are not there"),
        GnuOption("full", "f", help="with --signal: to all processes, those of the batch script too"),
        GnuOption("batch", "b", help="with --signal: to the shell of the batch script alone"),
        GnuOption("nodelist", "w", "NODES", "only jobs that have one of these nodes"),
        GnuOption("interactive", "i", help="ask before each"),
        GnuOption("hurry", "H", help="taken: there are no burst buffers"),
        VERBOSE,
        *GENERAL,
        GnuOption("clusters", "M", "all", "taken: there is one cluster"),
        *refused("sibling", because="there is one cluster"),
        *refused("ctld", "cron", "qos/q", "reservation/R", "wckey"),
    ),
    interspersed=True,
    examples=(
        "PROGRAM 12",
        "PROGRAM 12_3 '13_[1-5]' 14.1",
        "PROGRAM --signal=USR1 --batch 12",
        "PROGRAM --me --state=PENDING",
    ),
)
_STATES = {
    **dict.fromkeys(("PENDING", "PD"), ("PEND", "PSUSP")),
    **dict.fromkeys(("RUNNING", "R"), ("RUN", "UNKWN")),
    **dict.fromkeys(("SUSPENDED", "S"), ("USUSP", "SSUSP")),
}
_FILTERS = ("user", "me", "name", "jobname", "partition", "account", "state", "nodelist")
_LOOKS, _LOOK_S = 10, 0.2
"""How often one looks for a step that began a moment ago, and how long apart."""
UNKNOWN = "Invalid job id specified"


@fails_as_slurm
def main(call: Call) -> int:
    """Run `scancel`."""
    words = read_words(call, TABLE)
    if not words.rest and not words.has(*_FILTERS):
        raise BadRequest("No job identification provided")
    number = _signal_number(words.value("signal"))
    nodes = frozenset(expand_nodes(words.value("nodelist"))) if words.has("nodelist") else frozenset[str]()
    if words.has("interactive"):
        call.take_over()
    with connected(call) as session:
        scancel = _Cancelling(call, session, words, _filter(call, words), nodes, number)
        if not words.rest:
            wrong = scancel.matching()
        else:
            wrong = [text for word in words.rest if (text := scancel.named(word))]
    if not words.has("quiet"):
        for text in wrong:
            complain(call, f"error: {text}")
    return FAILURE if wrong else 0


class _Cancelling:
    """What one call does. `number`: the signal; None: they are ended."""

    def __init__(
        self,
        call: Call,
        session: Session,
        words: GnuWords,
        wanted: JobFilter,
        nodes: frozenset[str],
        number: int | None,
    ) -> None:
        self._call = call
        self._session = session
        self._words = words
        self._wanted = wanted
        self._nodes = nodes
        self._number = number
        self._typed: list[str] | None = None
        """Answers that were read at once, where they cannot be read one by one."""

    def matching(self) -> list[str]:
        """All jobs that the options admit; what went wrong."""
        numbers = [job.job_id for job in self._admitted() if self._is_wanted(job)]
        results = self._session.client.control(self._action(), numbers) if numbers else []
        return [f"Kill job error on job id {each.job_id}: {each.error}" for each in results if each.error]

    def named(self, word: str) -> str:
        """What went wrong with this job, this job's elements, or this step."""
        name, dot, label = word.partition(".")
        if dot and not STEP_NAME.fullmatch(label):
            raise BadRequest(f"Invalid job id {word[:60]}")
        number, indices = parse_job(name)
        if dot and label != BATCH:
            return self._step(word, name, label)
        numbers = [number]
        if indices is not None:
            numbers = [element_id(number, index) for index in elements_of(self._session, number, indices)]
        if self._words.has(*_FILTERS):
            meant = set(numbers)
            jobs = [job for job in self._admitted() if job.job_id in meant or _shows(job, name)]
            numbers = [job.job_id for job in jobs]
        if self._words.has("interactive"):
            jobs = list(self._session.client.jobs(JobFilter(ids=tuple(numbers), user="all")))
            numbers = [job.job_id for job in jobs if self._is_wanted(job)]
        what = replace(self._action(), target="main") if dot and self._number is not None else self._action()
        results = self._session.client.control(what, numbers) if numbers else []
        return self._problem(word, number, next((each.error for each in results if each.error), ""))

    def _problem(self, word: str, number: int, failed: str) -> str:
        if not failed:
            return ""
        known = list(self._session.client.jobs(JobFilter(ids=(number,), user="all", finished=True)))
        if all(job.state in FINISHED for job in known) and not self._words.has(*_FILTERS, "signal"):
            return ""  # as Slurm: who cancels a job that has ended meanwhile, or is forgotten, has what he wants
        return f"Kill job error on job id {word[:60]}: {failed if known else UNKNOWN}"

    def _step(self, word: str, name: str, label: str) -> str:
        found = self._find_step(name, label)
        if found is None:
            return f"Kill job error on job step id {word[:60]}: {UNKNOWN}"
        if found.has_ended or not self._agrees(f"step_id={word[:60]}", found.job.view):
            return ""
        facts = found.facts
        if facts is None:  # what srun --pty has submitted is its job
            what = self._action()
        else:
            what = ControlAction(action="signal", signal=self._number or 0, step=facts.number)
        results = self._session.client.control(what, [found.job.view.job_id])
        failed = next((each.error for each in results if each.error), "")
        return f"Kill job error on job step id {word[:60]}: {failed}" if failed else ""

    def _find_step(self, name: str, label: str) -> SlurmStep | None:
        """One that began a moment ago may not have been told of yet."""
        number, index = parse_job(name)
        for look in range(_LOOKS):
            if look:
                self._call.wait(_LOOK_S)
            views = self._session.client.jobs(JobFilter(ids=(number,), user="all", finished=True))
            jobs = [
                view
                for view in views
                if number == view.job_id or (number == array_of(view.job_id) and index == shown_index(view))
            ]
            steps = [step for view in jobs for step in steps_of(SlurmJob(view, SlurmClock.unused()))]
            found = next((step for step in steps if step.label == label), None)
            if found is not None or all(view.state in FINISHED for view in jobs):
                return found
        return None

    def _admitted(self) -> Iterable[JobView]:
        for job in self._session.client.jobs(self._wanted):
            hosts = job.allocation.hosts if job.allocation is not None else ()
            if not self._nodes or any(part.host in self._nodes for part in hosts):
                yield job

    def _action(self) -> ControlAction:
        number = self._number
        if number is None:
            return ControlAction(action="kill")
        if number in (signals.SIGSTOP, signals.SIGTSTP):
            return ControlAction(action="stop")
        if number == signals.SIGCONT:
            return ControlAction(action="resume")
        target = "" if self._words.has("full") else "main" if self._words.has("batch") else "steps"
        return ControlAction(action="signal", signal=number, target=target)

    # -- --interactive --------------------------------------------------------------------------------------------

    def _is_wanted(self, job: JobView) -> bool:
        return self._agrees(f"job_id={shown_id(job)}", job)

    def _agrees(self, what: str, job: JobView) -> bool:
        """Without --interactive always; the end of the input is a no."""
        if not self._words.has("interactive"):
            return True
        about = printable(f"{what} name={job.spec.display_name} partition={job.spec.queue}")
        while True:
            self._call.write(f"Cancel {about} [y/n]? ")
            self._call.flush()
            answer = self._answer()
            if answer[:1].lower() in ("y", "n", ""):
                return answer[:1].lower() == "y"

    def _answer(self) -> str:
        if self._call.own_streams:
            return sys.stdin.readline()
        if self._typed is None:
            self._typed = self._call.read_stdin().decode("utf-8", "replace").splitlines()
        return self._typed.pop(0) if self._typed else ""


def _shows(job: JobView, name: str) -> bool:
    return shown_id(job).partition("_")[0] == name


def _filter(call: Call, words: GnuWords) -> JobFilter:
    state = words.value("state").upper()
    if state and state not in _STATES:
        raise BadRequest(f"Invalid job state specified: {state[:40]}")
    return JobFilter(
        user=words.value("user") or call.user,
        name=words.value("name") or words.value("jobname"),
        queue=words.value("partition"),
        project=words.value("account"),
        states=_STATES.get(state, ()),
    )


def _signal_number(text: str) -> int | None:
    """None: there is none. Raises BadRequest."""
    if not text:
        return None
    try:
        name = text.upper().removeprefix("SIG")
        return signals.Signals(int(name)) if name.isdigit() and len(name) < 4 else signals.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise BadRequest(f"Unknown job signal: {text[:40]}") from None
