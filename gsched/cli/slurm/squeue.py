"""`squeue`: jobs that have not ended, as Slurm's command of that name lists them.

Elements of an array that wait for one reason are one line, with --array one each. Source: squeue(1) of Slurm 22.05.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial

from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import array_of, element_id
from gsched.base.node_lists import expand_nodes, list_parts
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.facts.job_facts import SlurmJob, folded
from gsched.cli.slurm.facts.job_records import job_pieces
from gsched.cli.slurm.facts.job_steps import SlurmStep, running_steps
from gsched.cli.slurm.facts.slurm_clock import clock_of
from gsched.cli.slurm.formats import Layout, by_letters, by_names
from gsched.cli.slurm.job_columns import BY_LETTER, BY_NAME, DEFAULT, LONG
from gsched.cli.slurm.job_states import named_states
from gsched.cli.slurm.slurm_call import elements_of, fails_as_slurm, read_listing
from gsched.cli.slurm.squeue_options import SQUEUE
from gsched.cli.slurm.step_columns import STEP_BY_LETTER, STEP_BY_NAME, STEPS
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.slurm.slurm_values import parse_count, parse_job
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter

TABLE = SQUEUE
_MOST_NAMED = 100_000
_NUMBERS = "iAFKDCQp"
_RUNNING = ("RUNNING", "SUSPENDED")
Lines = Callable[[Iterable[SlurmJob]], Iterator[str]]
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"


@fails_as_slurm
def main(call: Call) -> int:
    """Run `squeue`."""
    words = read_listing(call, TABLE, loose="steps")
    lines = _lines(words, call.env)
    ordered = _order(words.value("sort"))
    every_s = parse_count(words.value("iterate")) if words.has("iterate") else 0
    with connected(call) as session:
        while True:
            if every_s:
                call.write(f"{datetime.fromtimestamp(time.time(), clock_of(call).zone):%a %b %e %H:%M:%S %Y}\n")
            _list(call, session, words, lines, ordered)
            if not every_s:
                return 0
            call.wait(every_s)
            call.write("\n")


def _list(
    call: Call,
    session: Session,
    words: GnuWords,
    lines: Lines,
    ordered: Callable[[Iterable[SlurmJob]], list[SlurmJob]],
) -> None:
    jobs: Iterable[SlurmJob] = ordered(_chosen(call, session, words))
    if words.has("json") and not words.has("steps"):
        jobs = jobs if words.has("array") else folded(jobs, call.env)
        for piece in job_pieces(jobs, session.client.cluster().cluster):
            call.write(piece)
        return
    for line in lines(jobs):
        call.write(line)


def _lines(words: GnuWords, env: Mapping[str, str]) -> Lines:
    """What the options make of jobs. Raises BadRequest for a format that is not understood."""
    header = not words.has("noheader")
    if words.has("steps"):
        of_steps = _step_layout(words)
        return lambda jobs: of_steps.lines(_steps(jobs, words), header=header)
    layout, is_array = _layout(words), words.has("array")
    return lambda jobs: layout.lines(jobs if is_array else folded(jobs, env), header=header)


def _layout(words: GnuWords) -> Layout[SlurmJob]:
    """Of --format and --Format the later counts."""
    last = _format(words)
    if last is not None and last.name == "Format":
        return by_names(last.value, BY_NAME)
    default = START if words.has("start") else LONG if words.has("long") else DEFAULT
    return by_letters(last.value if last is not None else default, BY_LETTER)


def _step_layout(words: GnuWords) -> Layout[SlurmStep]:
    """The same of --steps."""
    last = _format(words)
    if last is not None and last.name == "Format":
        return by_names(last.value, STEP_BY_NAME)
    return by_letters(last.value if last is not None else STEPS, STEP_BY_LETTER)


def _format(words: GnuWords) -> GivenOption | None:
    return next((each for each in reversed(words.given) if each.name in ("format", "Format")), None)


def _steps(jobs: Iterable[SlurmJob], words: GnuWords) -> Iterator[SlurmStep]:
    """The steps that run, of --steps those that it names: `12`, `12.0`, `12_3.batch`."""
    named = _items(words.value("steps")) - {"all"}
    for job in jobs:
        ids = {job.shown_id, job.raw_id, *([str(job.array_id)] if job.index else [])}
        for step in running_steps(job):
            if not named or named & {*ids, *(f"{each}.{step.label}" for each in ids)}:
                yield step


def _chosen(call: Call, session: Session, words: GnuWords) -> Iterator[SlurmJob]:
    """The jobs that the options admit."""
    states = named_states(words.value("states"))
    named = _named(session, words) if words.has("jobs") else ()
    users = {call.user} if words.has("me") else _items(words.value("user"))
    wanted = JobFilter(
        ids=named,
        user=next(iter(users)) if len(users) == 1 else "all",
        finished=bool(named) or states is None or bool(states - {"PENDING", *_RUNNING}),
    )
    found = list(session.client.jobs(wanted))
    if named and not found and len(named) == 1:
        raise NotFound("Invalid job id specified")
    clock = clock_of(call)
    tests = _tests(words)
    if users:
        tests.append(lambda job: job.spec.user in users)
    for view in found:
        job = SlurmJob(view, clock)
        is_meant = job.state in states if states else states is None or view.state not in FINISHED
        if is_meant and all(test(job) for test in tests):
            yield job


def _tests(words: GnuWords) -> list[Callable[[SlurmJob], bool]]:
    """What the master does not choose by."""
    tests: list[Callable[[SlurmJob], bool]] = []
    values: dict[str, Callable[[SlurmJob], str]] = {
        "partition": lambda job: job.spec.queue,
        "name": lambda job: job.name,
        "account": lambda job: job.spec.project,
        "reservation": lambda job: job.spec.reservation,
        "qos": lambda job: "normal",
    }
    for option, value in values.items():
        if items := _items(words.value(option)):
            tests.append(lambda job, items=items, value=value: value(job) in items)  # type: ignore[misc]
    if words.has("nodelist"):
        nodes = set(expand_nodes(words.value("nodelist")))
        tests.append(lambda job: not nodes.isdisjoint(job.hosts))
    if words.has("start"):
        tests.append(lambda job: job.is_pending)
    if words.has("steps"):
        tests.append(lambda job: job.state in _RUNNING)
    return tests


def _items(text: str) -> set[str]:
    return {item.strip() for item in text.split(",") if item.strip()}


def _named(session: Session, words: GnuWords) -> tuple[int, ...]:
    numbers: list[int] = []
    for given in words.given:
        for item in list_parts(given.value) if given.name == "jobs" else ():
            number, indices = parse_job(item.strip())
            numbers += (
                [number]
                if indices is None
                else [element_id(number, index) for index in elements_of(session, number, indices)]
            )
            if len(numbers) > _MOST_NAMED:
                raise BadRequest(f"--jobs: more than {_MOST_NAMED} jobs are named")
    return tuple(numbers)


def _order(text: str) -> Callable[[Iterable[SlurmJob]], list[SlurmJob]]:
    """How they are sorted; by default what runs comes last, as Slurm has it, in order of numbers."""
    fields: list[tuple[str, bool]] = []
    for item in filter(None, text.split(",")):
        letter = item.lstrip("+-")
        if letter not in BY_LETTER:
            raise BadRequest(f"Invalid sort specification: {item[:40]}")
        fields.append((letter, item.startswith("-")))

    def ordered(jobs: Iterable[SlurmJob]) -> list[SlurmJob]:
        found = sorted(jobs, key=lambda job: (_rank(job), array_of(job.view.job_id), job.view.job_id))
        for letter, is_reversed in reversed(fields):
            found.sort(key=partial(_sort_key, letter), reverse=is_reversed)
        return found

    return ordered


def _sort_key(letter: str, job: SlurmJob) -> tuple[int, int, str]:
    """Numbers by what they count, other fields by their text."""
    text = BY_LETTER[letter].value(job)
    first, _, second = text.partition("_") if letter in _NUMBERS else ("", "", "")
    return int(first) if first.isdecimal() else 0, int(second) if second.isdecimal() else 0, text


def _rank(job: SlurmJob) -> int:
    order = ("PENDING", *_RUNNING)
    return order.index(job.state) if job.state in order else len(order)
