"""`scancel`: end jobs, or send them a signal, as Slurm's command of that name does.

Source: scancel(1) of Slurm 22.05.
"""

from __future__ import annotations

import signal as signals

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, read_words
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.job_columns import shown_id
from gsched.cli.slurm.slurm_call import FAILURE, GENERAL, elements_of, fails_as_slurm
from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, GnuWords, refused
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter
from gsched.wire.messages.control_action import ControlAction

TABLE = GnuOptions(
    summary="end jobs or send them a signal, as Slurm's scancel does",
    operands="[JOB[_INDEX] ...]",
    options=(
        GnuOption("signal", "s", "SIGNAL", "send this signal instead of ending them"),
        GnuOption("user", "u", "USER", "all jobs of this user"),
        GnuOption("me", "", help="all your own jobs"),
        GnuOption("name", "n", "NAME", "only jobs of this name"),
        GnuOption("jobname", "", "NAME", "the same"),
        GnuOption("partition", "p", "QUEUE", "only jobs of this queue"),
        GnuOption("account", "A", "PROJECT", "only jobs of this project"),
        GnuOption("state", "t", "STATE", "only jobs that are PENDING, RUNNING or SUSPENDED"),
        GnuOption("quiet", "Q", help="say nothing of jobs that are not there"),
        GnuOption("full", "f", help="taken: a signal always reaches all processes of a job"),
        GnuOption("batch", "b", help="taken: the same"),
        GnuOption("hurry", "H", help="taken: there are no burst buffers"),
        GnuOption("verbose", "v", help="taken, and says nothing more"),
        *GENERAL,
        GnuOption("clusters", "M", "all", "taken: there is one cluster"),
        *refused("sibling", because="there is one cluster"),
        *refused("ctld", "cron", "interactive/i", "nodelist/w", "qos/q", "reservation/R", "wckey"),
    ),
    interspersed=True,
    examples=("PROGRAM 12", "PROGRAM 12_3 '13_[1-5]'", "PROGRAM --me --state=PENDING"),
)
_STATES = {
    **dict.fromkeys(("PENDING", "PD"), ("PEND", "PSUSP")),
    **dict.fromkeys(("RUNNING", "R"), ("RUN", "UNKWN")),
    **dict.fromkeys(("SUSPENDED", "S"), ("USUSP", "SSUSP")),
}
_FILTERS = ("user", "me", "name", "jobname", "partition", "account", "state")


@fails_as_slurm
def main(call: Call) -> int:
    """Run `scancel`."""
    words = read_words(call, TABLE)
    if not words.rest and not words.has(*_FILTERS):
        raise BadRequest("No job identification provided")
    what = _action(words.value("signal"))
    with connected(call) as session:
        wanted = _filter(call, words)
        if not words.rest:
            numbers = [job.job_id for job in session.client.jobs(wanted)]
            results = session.client.control(what, numbers) if numbers else []
            wrong = [f"Kill job error on job id {each.job_id}: {each.error}" for each in results if each.error]
        else:
            wrong = [text for word in words.rest if (text := _cancel(session, word, what, wanted, words))]
    if not words.has("quiet"):
        for text in wrong:
            complain(call, f"error: {text}")
    return FAILURE if wrong else 0


def _cancel(session: Session, word: str, what: ControlAction, wanted: JobFilter, words: GnuWords) -> str:
    """What went wrong with this job, or this job's elements."""
    number, indices = parse_job(word)
    numbers = [number]
    if indices is not None:
        numbers = [element_id(number, index) for index in elements_of(session, number, indices)]
    if words.has(*_FILTERS):
        meant = set(numbers)
        jobs = session.client.jobs(wanted)
        numbers = [job.job_id for job in jobs if job.job_id in meant or shown_id(job).partition("_")[0] == word]
    results = session.client.control(what, numbers) if numbers else []
    failed = next((each.error for each in results if each.error), "")
    if not failed:
        return ""
    known = list(session.client.jobs(JobFilter(ids=(number,), user="all", finished=True)))
    if all(job.state in FINISHED for job in known) and not words.has(*_FILTERS, "signal"):
        return ""  # as Slurm: who cancels a job that has ended meanwhile, or is forgotten, has what he wants
    reason = failed if known else "Invalid job id specified"
    return f"Kill job error on job id {word[:60]}: {reason}"


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


def _action(text: str) -> ControlAction:
    if not text:
        return ControlAction(action="kill")
    try:
        name = text.upper().removeprefix("SIG")
        number = signals.Signals(int(name)) if name.isdigit() and len(name) < 4 else signals.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise BadRequest(f"Unknown job signal: {text[:40]}") from None
    if number in (signals.SIGSTOP, signals.SIGTSTP):
        return ControlAction(action="stop")
    if number == signals.SIGCONT:
        return ControlAction(action="resume")
    return ControlAction(action="signal", signal=number)
