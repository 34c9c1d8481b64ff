"""Which jobs sacct shows: its options read, checked, and made into the questions that the master answers.

A job is meant when it was there at some moment between -S and -E, with -s in one of the states. Source: sacct(1) of
Slurm 22.05, "DEFAULT TIME WINDOW".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gsched.base.errors import BadRequest
from gsched.base.ids import array_of
from gsched.base.indices import Indices, parse_indices
from gsched.base.node_lists import expand_nodes, list_parts
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.job_steps import STEP_NAME
from gsched.cli.slurm.facts.slurm_clock import SlurmClock
from gsched.cli.slurm.job_states import named_states
from gsched.dialect.slurm.array_lists import MAX_INDEX, shifted
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.dialect.slurm.moments import parse_moment
from gsched.dialect.slurm.slurm_values import parse_duration, parse_job
from gsched.model.views.catalogue import MOST_NAMED, AccountFilter, TimeSpan
from gsched.model.views.view import JobFilter, JobView

_MOST_INDICES = 100_000
JobTest = Callable[[SlurmJob], bool]


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job of -j. `indices`: of Slurm's, one higher; None: all of its elements. `step`: empty for all."""

    number: int
    indices: Indices | None
    step: str

    def is_meant(self, job: JobView) -> bool:
        """Whether this job, or the array it is of, is named."""
        if self.number == job.job_id:
            return True
        if self.number != array_of(job.job_id):
            return False
        index = shown_index(job)
        return self.indices is None or (bool(index) and int(index) + 1 in self.indices)


@dataclass(frozen=True, slots=True)
class SacctSelection:
    """What is asked for. `since` and `until`: UTC seconds."""

    named: tuple[NamedJob, ...]
    users: tuple[str, ...]
    """Empty: everybody's."""
    since: float
    until: float
    states: frozenset[str] | None
    """None: any."""
    accounts: AccountFilter
    tests: tuple[JobTest, ...] = field(default=())

    @property
    def running(self) -> JobFilter:
        """The jobs that have not ended."""
        user = self.users[0] if len(self.users) == 1 else "all"
        return JobFilter(ids=self.accounts.ids, user=user)

    def is_meant(self, job: SlurmJob) -> bool:
        """Whether it is shown, whatever its steps."""
        if self.named and not any(each.is_meant(job.view) for each in self.named):
            return False
        if self.users and job.spec.user not in self.users:
            return False
        return self._was_there(job) and all(test(job) for test in self.tests)

    def steps_of(self, job: SlurmJob) -> set[str]:
        """The steps of it that are named; "": its own row and all of them."""
        return {each.step for each in self.named if each.is_meant(job.view)} or {""}

    def _was_there(self, job: SlurmJob) -> bool:
        submitted, started, ended = job.view.submitted_at, job.started_at, job.view.finished_at
        if submitted > self.until or (ended is not None and ended < self.since):
            return False
        if self.states is None:
            return True
        if job.state in self.states and (not job.has_ended or (ended or 0.0) <= self.until):
            return True
        if "RUNNING" in self.states and started is not None and not job.is_pending:
            return started <= self.until
        return "PENDING" in self.states and (started or ended or self.until) >= self.since


def selection_of(words: GnuWords, user: str, clock: SlurmClock, user_of: Callable[[int], str]) -> SacctSelection:
    """Raises BadRequest naming what is wrong. `user_of`: name of the user with a number."""
    named = tuple(_named(words))
    since, until = _window(words, clock)
    chosen = named_states(words.value("state")) if words.has("state") else None
    states = frozenset(chosen) if chosen is not None else None
    users = _users(words, user, user_of)
    numbers = tuple(dict.fromkeys(each.number for each in named))
    if len(numbers) > MOST_NAMED:
        raise BadRequest(f"--jobs: {len(numbers)} jobs are named; {MOST_NAMED} are the most")
    asked = AccountFilter(
        ids=numbers,
        users=users,
        queues=_items(words.value("partition")),
        projects=_items(words.value("accounts")),
        completed=TimeSpan(since=since or None),
        submitted=TimeSpan(until=until),
    )
    return SacctSelection(named, users, since, until, states, asked, tuple(_tests(words)))


def _named(words: GnuWords) -> list[NamedJob]:
    found: list[NamedJob] = []
    for given in words.given:
        if given.name != "jobs":
            continue
        for part in list_parts(given.value):
            job, dot, step = part.strip().partition(".")
            if dot and not STEP_NAME.fullmatch(step):
                raise BadRequest(f"Bad job/step specified: {part[:60]}")
            number, text = parse_job(job)
            indices = None
            if text is not None:
                indices = parse_indices(shifted(text, 1)[0], MAX_INDEX + 1, most=_MOST_INDICES)
            found.append(NamedJob(number, indices, step))
    if words.has("jobs") and not found:
        raise BadRequest("--jobs: no job is named")
    return found


def _window(words: GnuWords, clock: SlurmClock) -> tuple[float, float]:
    def moment(name: str) -> float:
        given = words.last(name)
        assert given is not None
        try:
            return parse_moment(given.value, clock.now, clock.zone, past=True)
        except BadRequest as error:
            raise BadRequest(f"{given.place}: {error.text}") from None

    until = moment("endtime") if words.has("endtime") else clock.now
    if words.has("starttime"):
        since = moment("starttime")
    elif words.has("jobs"):
        since = 0.0
    elif words.has("state") and not words.has("endtime"):
        since = clock.now
    else:
        today = datetime.fromtimestamp(clock.now, clock.zone)
        since = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    if since > until:
        raise BadRequest("Start time requested is after end time")
    return since, until


def _users(words: GnuWords, user: str, user_of: Callable[[int], str]) -> tuple[str, ...]:
    if words.has("allusers"):
        return ()
    if words.has("user"):
        items = _items(words.value("user"))
        return tuple(user_of(int(item)) if item.isdecimal() and len(item) < 11 else item for item in items)
    return () if words.has("jobs", "nodelist") else (user,)


def _tests(words: GnuWords) -> list[JobTest]:
    """What the master does not choose by."""
    tests: list[JobTest] = []
    values: Mapping[str, Callable[[SlurmJob], str]] = {
        "name": lambda job: job.name,
        "partition": lambda job: job.spec.queue,
        "accounts": lambda job: job.spec.project,
        "reason": lambda job: job.reason,
        "qos": lambda job: "normal",
        "group": lambda job: job.group[1] if job.group else "",
    }
    for option, value in values.items():
        if words.has(option):
            items = frozenset(_items(words.value(option)))
            tests.append(lambda job, items=items, value=value: value(job) in items)  # type: ignore[misc]
    if words.has("nodelist"):
        nodes = frozenset(expand_nodes(words.value("nodelist")))
        tests.append(lambda job: not nodes.isdisjoint(job.hosts))
    for option, count in (("nnodes", lambda job: len(job.parts)), ("ncpus", lambda job: job.cpus)):
        if words.has(option):
            least, most = _range(option, words.value(option))
            tests.append(lambda job, least=least, most=most, count=count: least <= count(job) <= most)  # type: ignore[misc]
    return tests + _limits(words)


def _limits(words: GnuWords) -> list[JobTest]:
    if not words.has("timelimit-min"):
        return []
    least = parse_duration(words.value("timelimit-min"))
    most = parse_duration(words.value("timelimit-max")) if words.has("timelimit-max") else least
    if least is None or most is None:
        return [lambda job: job.spec.run_limit_s is None or (least is not None and job.spec.run_limit_s >= least)]
    return [lambda job: job.spec.run_limit_s is not None and least <= job.spec.run_limit_s <= most]


def _range(option: str, text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text, re.ASCII)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise BadRequest(f"--{option}: '{text[:40]}' is not LEAST[-MOST]")
    return int(found[1]), int(found[2] or found[1])


def _items(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
