"""`qselect`: ids of jobs that have these attributes, one a line, as PBS's command of that name prints them.

Source: qselect(1B) of OpenPBS 23.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from gsched.base.errors import BadRequest
from gsched.cli.pbs.pbs_call import fails_as_pbs, server_of
from gsched.cli.pbs.pbs_job_facts import STATES, PbsJob, collected, hold_of, resources_asked
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import read_words
from gsched.cli.session.session import connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.pbs.pbs_values import parse_duration, parse_moment, parse_size_mib, split_quoted
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.model.views.view import JobFilter

TABLE = LetterOptions(
    summary="print the ids of jobs that have these attributes, as PBS's qselect does",
    operands="",
    options=(
        letter("u", "USERS", "of these users"),
        letter("s", "STATES", f"in these states, letters of {STATES}"),
        letter("q", "QUEUE", "of this queue"),
        letter("N", "NAME", "of this name"),
        letter("A", "NAME", "of this project"),
        letter("P", "NAME", "the same"),
        letter("a", "[.OP.]TIME", "that start no sooner than then: -a .gt.1200"),
        letter("t", "KIND[.OP.]TIME", "by their times: q (submitted), s (started), e (eligible), m (changed)"),
        letter("l", "NAME.OP.VALUE,...", "by what they asked for: -l ncpus.gt.4"),
        letter("p", "[.OP.]NUMBER", "by their priority"),
        letter("h", "HOLDS", "by their holds: u, s, n"),
        letter("r", "y|n", "that may be run again, or not"),
        letter("J", "", "only arrays"),
        letter("T", "", "elements of arrays one by one"),
        letter("x", "", "those that have ended, too"),
        letter("H", "", "only those that have ended"),
        letter("e", "", "taken (Torque)"),
        *refused_letters("c", "there are no checkpoints", value="INTERVAL"),
    ),
    examples=("PROGRAM -u ann -s Q", "PROGRAM -l ncpus.ge.8 -s R"),
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}
_OPERATOR = re.compile(r"\.(eq|ne|ge|gt|le|lt)\.(.*)", re.DOTALL)
_RESOURCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:\.(eq|ne|ge|gt|le|lt)\.|(==|!=|>=|<=|=|>|<))(.+)", re.DOTALL)
_SIGNS = {"=": "eq", "==": "eq", "!=": "ne", ">=": "ge", "<=": "le", ">": "gt", "<": "lt"}
_TIMES: dict[str, Callable[[PbsJob], float | None]] = {
    "q": lambda job: job.job.submitted_at,
    "e": lambda job: job.job.submitted_at,
    "c": lambda job: job.job.submitted_at,
    "s": lambda job: job.job.started_at,
    "m": lambda job: job.job.finished_at or job.job.started_at or job.job.submitted_at,
    "a": lambda job: job.spec.begin_at,
}
SelectTest = Callable[[PbsJob], bool]


@fails_as_pbs
def main(call: Call) -> int:
    """Run `qselect`."""
    words = read_words(call, TABLE)
    if words.rest:
        raise BadRequest(f"'{words.rest[0][:60]}' is no option")
    tests = list(_tests(call, words))
    with connected(call) as session:
        server = server_of(session)
        jobs = session.client.jobs(JobFilter(user="all", finished=words.has("x", "H")))
        for job in collected(jobs, one_by_one=words.has("T")):
            if all(test(job) for test in tests):
                call.write(f"{job.name(server)}\n")
    return 0


def _tests(call: Call, words: GnuWords) -> Iterator[SelectTest]:
    for given in words.given:
        try:
            yield from _of_option(call, given.name, given.value)
        except BadRequest as error:
            raise BadRequest(f"illegal -{given.name} value: {error.text}") from None
    if words.has("H"):
        yield lambda job: job.state in "FX"
    elif not words.has("x"):
        yield lambda job: job.state not in "FX"


def _of_option(call: Call, name: str, text: str) -> Iterator[SelectTest]:
    if name == "u":
        users = {item.partition("@")[0] for item in text.split(",")}
        yield lambda job: job.spec.user in users
    elif name == "s":
        if not text or set(text) - {*STATES}:
            raise BadRequest(f"'{text[:40]}': letters of {STATES}")
        yield lambda job: job.state in text
    elif name == "q":
        queue = text.partition("@")[0]
        yield lambda job: not queue or job.spec.queue == queue
    elif name == "N":
        yield lambda job: job.spec.display_name == text
    elif name in ("A", "P"):
        yield lambda job: job.spec.project == text
    elif name == "h":
        yield lambda job: hold_of(job.job) in text
    elif name == "r":
        if text not in ("y", "n"):
            raise BadRequest(f"'{text[:40]}' is neither y nor n")
        yield lambda job: bool(job.spec.rerunnable) is (text == "y")
    elif name == "J":
        yield lambda job: job.is_array or bool(job.spec.indices)
    else:
        yield from _compared(call, name, text)


def _compared(call: Call, name: str, text: str) -> Iterator[SelectTest]:
    """-a, -t, -p and -l, which compare."""
    if name == "p":
        compare, value = _split(text, "eq")
        if not re.fullmatch("[+-]?[0-9]{1,9}", value, re.ASCII):
            raise BadRequest(f"'{value[:40]}' is no whole number")
        yield lambda job: compare(job.spec.priority or 0, int(value))
    elif name in ("a", "t"):
        kind = "a" if name == "a" else text[:1]
        if kind not in _TIMES:
            raise BadRequest(f"'{text[:40]}': {', '.join(_TIMES)} are times")
        compare, value = _split(text if name == "a" else text[1:], "ge")
        at = parse_moment(value, time.time(), zone_of(call.env))
        yield lambda job: (found := _TIMES[kind](job)) is not None and compare(int(found), int(at))
    elif name == "l":
        for part in split_quoted(text):
            yield _by_resource(part)


def _split(text: str, default: str) -> tuple[Callable[[Any, Any], bool], str]:
    found = _OPERATOR.fullmatch(text)
    return (_OPERATORS[found[1]], found[2]) if found is not None else (_OPERATORS[default], text)


def _by_resource(text: str) -> SelectTest:
    found = _RESOURCE.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{text[:40]}' is not NAME.OP.VALUE")
    name, compare = found[1], _OPERATORS[found[2] or _SIGNS[found[3]]]
    value = found[4].strip()
    wanted = _number(name, value)

    def test(job: PbsJob) -> bool:
        have = resources_asked(job.job).get(name)
        if have is None:
            return False
        return compare(have, value) if wanted is None else compare(_number(name, have), wanted)

    return test


def _number(name: str, text: str) -> float | None:
    """What counts; None: it is a text."""
    if name in ("walltime", "cput"):
        return parse_duration(text)
    if name in ("mem", "vmem"):
        return parse_size_mib(text)
    return int(text) if re.fullmatch("[0-9]{1,12}", text, re.ASCII) else None
