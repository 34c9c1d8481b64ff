"""`squeue`: jobs that have not ended, as Slurm's command of that name lists them.

Pending elements of an array are listed one by one. Source: squeue(1) of Slurm 22.05.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import array_of, element_id
from gsched.base.node_lists import expand_nodes, list_parts
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.cli.slurm.formats import Layout
from gsched.cli.slurm.job_columns import DEFAULT, LONG, Columns, columns_at, hosts_of
from gsched.cli.slurm.job_states import CODES, OTHER_STATES, state_of
from gsched.cli.slurm.slurm_call import GENERAL, elements_of, fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, GnuWords, refused
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter, JobView

TABLE = GnuOptions(
    summary="list jobs, as Slurm's squeue does",
    operands="",
    options=(
        GnuOption("jobs", "j", "NUMBERS", "only these jobs"),
        GnuOption("user", "u", "USERS", "only jobs of these users", variable="SQUEUE_USERS", also=("users",)),
        GnuOption("me", "", help="only your own jobs"),
        GnuOption(
            "partition",
            "p",
            "NAMES",
            "only jobs of these queues",
            variable="SQUEUE_PARTITION",
            also=("partitions",),
        ),
        GnuOption("name", "n", "NAMES", "only jobs of these names", variable="SQUEUE_NAMES"),
        GnuOption(
            "account", "A", "NAMES", "only jobs of these projects", variable="SQUEUE_ACCOUNT", also=("accounts",)
        ),
        GnuOption("states", "t", "STATES", "only jobs in these states, or all", variable="SQUEUE_STATES"),
        GnuOption("nodelist", "w", "NODES", "only jobs on these nodes", also=("nodes",)),
        GnuOption("format", "o", "FORMAT", "what is shown", variable="SQUEUE_FORMAT"),
        GnuOption("sort", "S", "FIELDS", "order, such as -i,t; + and - before a field", variable="SQUEUE_SORT"),
        GnuOption("noheader", "h", help="no heading"),
        GnuOption("long", "l", help="more columns"),
        GnuOption("start", "", help="when pending jobs are planned to start"),
        GnuOption("array", "r", help="taken: elements of arrays are always listed one by one"),
        GnuOption("all", "a", help="taken: no queue is hidden"),
        GnuOption("noconvert", help="taken: nothing is converted", also=("array-unique",)),
        GnuOption("clusters", "M", "all", "taken: there is one cluster"),
        *GENERAL,
        *refused("Format/O", "json", "yaml", because="--format says what is shown"),
        *refused("federation", "sibling", "local", because="there is one cluster"),
        *refused("qos/q", "licenses/L", "reservation/R", "steps/s", "iterate/i", "hide", "priority/P", "verbose/v"),
    ),
    interspersed=True,
    examples=("PROGRAM --me", "PROGRAM -t PD -o '%i %r'", "PROGRAM --noheader --format='%i %t' --job 12,13"),
)
_NUMBERS = "iAFKDCQp"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"


@fails_as_slurm
def main(call: Call) -> int:
    """Run `squeue`."""
    words = read_listing(call, TABLE)
    default = START if words.has("start") else LONG if words.has("long") else DEFAULT
    columns = columns_at(time.time(), zone_of(call.env))
    layout = Layout(words.value("format", default), columns)
    ordered = _order(words.value("sort"), columns)
    with connected(call) as session:
        jobs = ordered(_chosen(call, session, words))
        for line in layout.lines(jobs, header=not words.has("noheader")):
            call.write(line)
    return 0


def _chosen(call: Call, session: Session, words: GnuWords) -> list[JobView]:
    """The jobs that the options admit."""
    states = _states(words.value("states"))
    named = _named(session, words.value("jobs")) if words.has("jobs") else ()
    users = {call.user} if words.has("me") else _items(words.value("user"))
    wanted = JobFilter(
        ids=named,
        user=next(iter(users)) if len(users) == 1 else "all",
        queue="",
        finished=bool(named) or states is None or bool(states - {"PENDING", "RUNNING", "SUSPENDED"}),
    )
    found = list(session.client.jobs(wanted))
    if named and not found and len(named) == 1:
        raise NotFound("Invalid job id specified")
    tests: list[Callable[[JobView], bool]] = [
        (lambda job: state_of(job) in states) if states else lambda job: states is None or job.state not in FINISHED,
    ]
    for option, value in (("partition", "queue"), ("name", "display_name"), ("account", "project")):
        if items := _items(words.value(option)):
            tests.append(lambda job, items=items, value=value: getattr(job.spec, value) in items)  # type: ignore[misc]
    if users:
        tests.append(lambda job: job.spec.user in users)
    if words.has("nodelist"):
        nodes = set(expand_nodes(words.value("nodelist")))
        tests.append(lambda job: not nodes.isdisjoint(hosts_of(job)))
    return [job for job in found if all(test(job) for test in tests)]


def _items(text: str) -> set[str]:
    return {item.strip() for item in text.split(",") if item.strip()}


def _named(session: Session, text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for item in list_parts(text):
        number, indices = parse_job(item.strip())
        numbers += (
            [number]
            if indices is None
            else [element_id(number, index) for index in elements_of(session, number, indices)]
        )
    return tuple(numbers)


def _states(text: str) -> set[str] | None:
    """Names of states; empty: those that have not ended; None: all."""
    found: set[str] = set()
    for item in _items(text.upper()):
        if item == "ALL":
            return None
        names = {name for name, code in CODES.items() if item in (name, code)}
        if not names and item not in OTHER_STATES:
            raise BadRequest(f"Invalid job state specified: {item[:40]}")
        found |= names or {item}
    return found


def _order(text: str, columns: Columns) -> Callable[[Iterable[JobView]], list[JobView]]:
    """How they are sorted; by default what runs comes last, as Slurm has it, in order of numbers."""
    fields: list[tuple[str, bool]] = []
    for item in filter(None, text.split(",")):
        letter = item.lstrip("+-")
        if letter not in columns:
            raise BadRequest(f"Invalid sort specification: {item[:40]}")
        fields.append((letter, item.startswith("-")))

    def ordered(jobs: Iterable[JobView]) -> list[JobView]:
        found = sorted(jobs, key=lambda job: (_rank(job), array_of(job.job_id), job.job_id))
        for letter, is_reversed in reversed(fields):
            found.sort(key=partial(_sort_key, letter, columns[letter].value), reverse=is_reversed)
        return found

    return ordered


def _sort_key(letter: str, value: Callable[[JobView], str], job: JobView) -> tuple[int, int, str]:
    """Numbers by what they count, other fields by their text."""
    text = value(job)
    first, _, second = text.partition("_") if letter in _NUMBERS else ("", "", "")
    return int(first) if first.isdigit() else 0, int(second) if second.isdigit() else 0, text


def _rank(job: JobView) -> int:
    order: Sequence[str] = ("PENDING", "RUNNING", "SUSPENDED")
    state = state_of(job)
    return order.index(state) if state in order else len(order)
