"""Dependency conditions: `done("train") && exit(17, >=2)` as a tree, read and printed.

Reading knows no jobs: names are resolved by dependency_check, and what is printed after that names jobs by number
only. Texts are bounded in length and depth. Source of the grammar: bsub(1), option -w.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import msgspec

from gsched.base.errors import BadRequest

SYNTAX = "Dependency condition syntax error"
MAX_LENGTH = 4094
MAX_DEPTH = 64
MOST_CONDITIONS = 5_000
"""Conditions that one may come to when its names are resolved: all are looked at when one of the jobs ends."""
RESOLVED_LENGTH = 1 << 18
"""Characters that it may have then."""
_READABLE = 1 << 20
"""The same of records of before."""
_KEPT = 1 << 23
"""Characters of resolved expressions that are kept as they were read."""
STATES = ("done", "ended", "exit", "started", "post_done", "post_err")
EXTERNAL = "external"
COUNTS = ("numdone", "numended", "numexit", "numhold", "numpend", "numrun", "numstart")
_RELATIONS = (">=", "<=", "==", "!=", ">", "<")
_TOKEN = re.compile(
    r"(?P<blank>\s+)|(?P<text>\"[^\"]*\"|'[^']*')|(?P<sign>&&|\|\||>=|<=|==|!=|[!()<>,])"
    r"|(?P<word>[^\s\"'&|!()<>=,]+)"
)
_NUMBER = re.compile(r"([0-9]{1,10})(\[(\*|[0-9]{1,10})\])?", re.ASCII)


class JobName(msgspec.Struct, frozen=True):
    """A job as written: its name, perhaps ending in `*`; of an array's element with the index."""

    name: str
    index: str = ""
    """"3" for `name[3]`, "*" for `name[*]`."""


class JobNumber(msgspec.Struct, frozen=True):
    """A job by its number (gsched.base.ids). `each`: `17[*]`, the element of the same index."""

    job_id: int
    each: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: `kind` is of STATES or COUNTS, or EXTERNAL. `relation` and `number` belong to exit() and the
    counts; number -1 stands for `*`, all of the array's elements. `word`: what a message begins with, of EXTERNAL.
    """

    kind: str
    job: JobName | JobNumber
    relation: str = ""
    number: int | None = None
    position: int = field(default=0, compare=False)
    word: str = ""


class NotCondition(msgspec.Struct, frozen=True):
    operand: Dependency


class AllConditions(msgspec.Struct, frozen=True):
    terms: tuple[Dependency, ...]


class AnyCondition(msgspec.Struct, frozen=True):
    terms: tuple[Dependency, ...]


Dependency: TypeAlias = Condition | NotCondition | AllConditions | AnyCondition


def parse(text: str) -> Dependency:
    """The condition that a user wrote. Raises BadRequest with the 1-based position."""
    return _Parser(text, MAX_LENGTH).whole()


def parse_resolved(text: str) -> Dependency:
    """The same for a text that `show` wrote after names were resolved: it may be longer."""
    return _known.read(text).dependency


def resolved_text(dependency: Dependency) -> str:
    """The text of an expression in which names are resolved. Raises BadRequest for one that is too long or deep to be
    read back. It is remembered as it is, so that nobody has to read it again soon.
    """
    text = show(dependency)
    if len(text) > RESOLVED_LENGTH:
        raise BadRequest(f"{SYNTAX}: the condition has {len(text)} characters, {RESOLVED_LENGTH} are allowed")
    if _depth(dependency) > MAX_DEPTH:
        raise BadRequest(f"{SYNTAX}: nested too deeply")
    _known.keep(text, dependency)
    return text


def _depth(dependency: Dependency) -> int:
    """How deep the parser has to go to read the expression when it is printed."""
    match dependency:
        case Condition():
            return 0
        case NotCondition(operand):
            return 1 + _inner_depth(operand)
        case AllConditions(terms) | AnyCondition(terms):
            return max(_inner_depth(term) for term in terms)


def _inner_depth(dependency: Dependency) -> int:
    return _depth(dependency) + isinstance(dependency, AllConditions | AnyCondition)


def conditions_in(dependency: Dependency) -> Iterator[Condition]:
    """All conditions, left to right."""
    match dependency:
        case Condition():
            yield dependency
        case NotCondition(operand):
            yield from conditions_in(operand)
        case AllConditions(terms) | AnyCondition(terms):
            for term in terms:
                yield from conditions_in(term)


def parents_of(text: str) -> frozenset[int]:
    """Numbers of the jobs and arrays that a resolved condition names."""
    return _known.read(text).parents


def show(dependency: Dependency) -> str:
    """The condition as text; `parse_resolved` reads it back."""
    match dependency:
        case Condition():
            return _show_condition(dependency)
        case NotCondition(operand):
            return f"!{_show_inner(operand)}"
        case AllConditions(terms):
            return " && ".join(_show_inner(term) for term in terms)
        case AnyCondition(terms):
            return " || ".join(_show_inner(term) for term in terms)


def _show_inner(dependency: Dependency) -> str:
    text = show(dependency)
    return f"({text})" if isinstance(dependency, AllConditions | AnyCondition) else text


def show_target(job: JobName | JobNumber) -> str:
    """A job as a condition names it."""
    if isinstance(job, JobName):
        return f'"{job.name}{f"[{job.index}]" if job.index else ""}"'
    index = job.job_id >> 32
    suffix = "[*]" if job.each else f"[{index}]" if index else ""
    return f"{job.job_id & 0xFFFFFFFF}{suffix}"


def _show_condition(condition: Condition) -> str:
    inside = show_target(condition.job)
    if condition.number is not None:
        number = "*" if condition.number < 0 else str(condition.number)
        inside += f",{condition.relation}{number}"
    if condition.word:
        quote = "'" if '"' in condition.word else '"'
        inside += f",{quote}{condition.word}{quote}"
    return f"{condition.kind}({inside})"


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    start: int


class _Parser:
    """`||` binds weaker than `&&`, `!` strongest."""

    def __init__(self, text: str, limit: int) -> None:
        if len(text) > limit:
            raise BadRequest(f"{SYNTAX}: the condition has {len(text)} characters, {limit} are allowed")
        self._tokens: list[_Token] = []
        self._at = 0
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self._fail(f"unexpected {text[position]!r}", position)
            if found.lastgroup != "blank":
                self._tokens.append(_Token(str(found.lastgroup), found.group(), position))
            position = found.end()
        self._tokens.append(_Token("end", "", len(text)))

    def whole(self) -> Dependency:
        found = self._any_of(0)
        if self._peek.kind != "end":
            self._fail(f"unexpected '{self._peek.text}'")
        return found

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._peek
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _accept(self, sign: str) -> bool:
        if self._peek.kind == "sign" and self._peek.text == sign:
            self._take()
            return True
        return False

    def _fail(self, what: str, position: int | None = None) -> NoReturn:
        at = self._peek.start if position is None else position
        raise BadRequest(f"{SYNTAX}: {what} at position {at + 1}")

    def _any_of(self, depth: int) -> Dependency:
        if depth > MAX_DEPTH:
            self._fail("nested too deeply")
        terms = [self._all_of(depth)]
        while self._accept("||"):
            terms.append(self._all_of(depth))
        return terms[0] if len(terms) == 1 else AnyCondition(tuple(terms))

    def _all_of(self, depth: int) -> Dependency:
        terms = [self._term(depth)]
        while self._accept("&&"):
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else AllConditions(tuple(terms))

    def _term(self, depth: int) -> Dependency:
        if depth > MAX_DEPTH:
            self._fail("nested too deeply")
        if self._accept("!"):
            return NotCondition(self._term(depth + 1))
        if self._accept("("):
            inner = self._any_of(depth + 1)
            if not self._accept(")"):
                self._fail("')' is wanted")
            return inner
        token = self._take()
        if token.kind not in ("word", "text"):
            self._fail("a condition such as done(JOB) is wanted", token.start)
        opens = self._peek.kind == "sign" and self._peek.text == "("
        if token.kind == "word" and opens:
            return self._function(token)
        return Condition("done", self._job(token), position=token.start)

    def _function(self, token: _Token) -> Condition:
        kind = token.text.lower()
        known = (*STATES, EXTERNAL, *COUNTS)
        if kind not in known:
            self._fail(f"'{token.text}' is no condition; these are: {', '.join(known)}", token.start)
        self._take()
        target = self._take()
        if target.kind not in ("word", "text"):
            self._fail(f"{kind}() wants a job", target.start)
        job, relation, number, word = self._job(target), "", None, ""
        if self._accept(","):
            if kind == EXTERNAL:
                word = self._first_word()
            elif kind not in ("exit", *COUNTS):
                self._fail(f"{kind}() takes a job and nothing else")
            else:
                relation, number = self._comparison(kind)
        elif kind in COUNTS:
            self._fail(f"{kind}() wants a number after the array")
        elif kind == EXTERNAL:
            self._fail("external() wants the first word of a message after the job")
        if not self._accept(")"):
            self._fail("')' is wanted")
        return Condition(kind, job, relation, number, token.start, word)

    def _first_word(self) -> str:
        """Of the text that external() waits for; the rest of it does not count."""
        token = self._take()
        text = token.text[1:-1] if token.kind == "text" else token.text if token.kind == "word" else ""
        words = text.split()
        if not words or "[*]" in words[0]:  # the mark of conditions that each element has of its own
            self._fail("the first word of a message is wanted", token.start)
        return words[0]

    def _comparison(self, kind: str) -> tuple[str, int]:
        relation = next((each for each in _RELATIONS if self._accept(each)), "==")
        token = self._take()
        if token.text == "*" and kind in COUNTS:
            return relation, -1
        if token.kind != "word" or not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 9:
            self._fail("a number is wanted", token.start)
        return relation, int(token.text)

    def _job(self, token: _Token) -> JobName | JobNumber:
        text = token.text[1:-1] if token.kind == "text" else token.text
        found = _NUMBER.fullmatch(text) if token.kind == "word" else None
        if found is not None:
            index = found[3] or ""
            if index == "*":
                return JobNumber(int(found[1]), each=True)
            return JobNumber(int(index or 0) << 32 | int(found[1]))
        name, bracket, rest = text.partition("[")
        index = rest.removesuffix("]")
        if not name or (bracket and (not rest.endswith("]") or not (index == "*" or index.isdecimal()))):
            self._fail(f"'{text}' names no job", token.start)
        return JobName(name, index)


class _Read(msgspec.Struct, frozen=True):
    dependency: Dependency
    parents: frozenset[int]


class _Known:
    """Resolved expressions as they were read, the oldest forgotten first; for one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._found: dict[str, _Read] = {}

    def read(self, text: str) -> _Read:
        return self._found.get(text) or self.keep(text, _Parser(text, _READABLE).whole())

    def keep(self, text: str, dependency: Dependency) -> _Read:
        found = self._found.get(text)
        if found is not None:
            return found
        jobs = (each.job for each in conditions_in(dependency))
        parents = frozenset(job.job_id for job in jobs if isinstance(job, JobNumber))
        found = self._found[text] = _Read(dependency, parents)
        self._size += len(text)
        while self._size > self._most and len(self._found) > 1:
            oldest = next(iter(self._found))
            del self._found[oldest]
            self._size -= len(oldest)
        return found


_known = _Known(_KEPT)
