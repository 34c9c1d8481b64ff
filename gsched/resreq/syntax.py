"""Reads requirement strings: `select[...] order[...] rusage[...] span[...] same[...]`, or a bare select expression.

Whatever LSF's language knows and gsched does not yet is refused by name; nothing is read as something else.
Every error is a RequirementError. Source of the grammar: bsub(1), option -R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gsched.resreq.ast import (
    AllOf,
    Expression,
    Group,
    OrderKey,
    Requirement,
    Reservation,
    SameKey,
    Span,
)
from gsched.resreq.expression import read_expression
from gsched.resreq.lexer import BAD_NAME, BAD_SYNTAX, Cursor, Token, is_name, read_number
from gsched.resreq.names import canonical
from gsched.resreq.printer import print_requirement

__all__ = ["BAD_NAME", "BAD_SYNTAX", "MAX_DEPTH", "MAX_LENGTH", "merge", "parse", "parse_combined", "print_requirement"]

MAX_LENGTH = 4096
"""Characters of one requirement as a user or a queue gives it."""
MAX_DEPTH = 64
"""Levels of nesting of a select expression."""

# A combined text holds two requirements, whose sizes may have become longer when written in MiB.
_COMBINED_LENGTH = 16 * MAX_LENGTH
_COMBINED_DEPTH = MAX_DEPTH + 4

_UNSUPPORTED_SECTIONS = ("cu", "affinity", "filter")
_UNSUPPORTED_SPANS = ("block", "stripe", "gtile")
_METHODS = ("job", "host", "task")
_GPU_SUBOPTIONS = frozenset({"gmodel", "gmem", "glink", "gvendor", "gtile", "mig", "aff", "block"})


@dataclass(frozen=True, slots=True)
class _Limits:
    length: int
    depth: int


def parse(text: str) -> Requirement:
    """The requirement that `text` states; an empty text states nothing. Raises RequirementError."""
    return _Reader(text, _Limits(MAX_LENGTH, MAX_DEPTH)).requirement()


def parse_combined(text: str) -> Requirement:
    """Like `parse`, for a text that `combine` wrote: it may be longer and deeper. Raises RequirementError."""
    return _Reader(text, _Limits(_COMBINED_LENGTH, _COMBINED_DEPTH)).requirement()


def merge(texts: Sequence[str]) -> str:
    """One requirement text for several -R: selects are ANDed, rusage and same joined, the later order and span win.

    One text alone comes back as typed, without blanks around it. Raises RequirementError.
    """
    given = [text.strip() for text in texts if text.strip()]
    requirements = [parse(text) for text in given]
    if len(given) < 2:
        return "".join(given)
    merged = Requirement()
    selects: list[Expression] = []
    for each in requirements:
        if each.select is not None:
            selects.append(Group(each.select))
        merged = replace(
            merged,
            order=each.order or merged.order,
            rusage=merged.rusage + each.rusage,
            span=each.span or merged.span,
            same=merged.same + tuple(key for key in each.same if key not in merged.same),
        )
    if len(selects) == 1:
        merged = replace(merged, select=next(each.select for each in requirements if each.select is not None))
    elif selects:
        merged = replace(merged, select=AllOf(tuple(selects)))
    text = print_requirement(merged)
    parse(text)  # length, depth and a resource reserved twice are judged on the whole
    return text


class _Reader:
    def __init__(self, source: str, limits: _Limits) -> None:
        self._cursor = Cursor(source, limits.length)
        self._limits = limits
        self._seen: set[str] = set()
        self._found = Requirement(source=source)

    def requirement(self) -> Requirement:
        self._refuse_braces()
        while self._cursor.peek().kind != "end":
            token = self._cursor.peek()
            if token.kind == "word" and self._cursor.sees("[", 1):
                self._section()
            elif not self._seen:
                self._seen.add("select")
                self._found = replace(self._found, select=read_expression(self._cursor, self._limits.depth))
            else:
                self._refuse_stray(token)
        return self._found

    def _refuse_braces(self) -> None:
        first: int | None = None
        ahead, what = 0, "an alternative requirement ({...} || {...})"
        while self._cursor.peek(ahead).kind != "end":
            if self._cursor.sees("{", ahead):
                first = self._cursor.peek(ahead).start if first is None else first
                if ahead > 0 and self._cursor.sees("*", ahead - 1):
                    what = "a compound requirement (n*{...})"
            ahead += 1
        if first is not None:
            self._cursor.fail(f"{what} is not supported", first)

    def _refuse_stray(self, token: Token) -> None:
        if token.text == ":" and self._seen == {"select"}:
            self._cursor.fail("the old form resource=value:resource is not supported: write select[... && ...]")
        if token.text == "||":
            self._cursor.fail("|| between sections is not supported")
        self._cursor.fail(f"unexpected {token}: an operator, or a section such as rusage[...], is wanted")

    def _section(self) -> None:
        readers: dict[str, Callable[[], None]] = {
            "select": self._select,
            "order": self._order,
            "rusage": self._rusage,
            "span": self._span,
            "same": self._same,
        }
        keyword = self._cursor.peek()
        if keyword.text in _UNSUPPORTED_SECTIONS:
            self._cursor.fail(f"{keyword.text}[...] is not supported")
        if keyword.text not in readers:
            self._cursor.fail(f"{keyword} is not a section; these are: {', '.join(readers)}")
        if not self._cursor.is_glued(1):
            self._cursor.fail(f"no blank may stand between {keyword.text} and [")
        if keyword.text in self._seen:
            self._cursor.fail(f"{keyword.text} is given twice: a second one goes into a second -R")
        self._seen.add(keyword.text)
        self._cursor.take()
        self._cursor.take()
        if self._cursor.sees("]"):
            self._cursor.fail(f"{keyword.text}[] is empty")
        readers[keyword.text]()
        self._cursor.expect("]", f"to close {keyword.text}[")

    def _select(self) -> None:
        self._found = replace(self._found, select=read_expression(self._cursor, self._limits.depth))

    def _resource(self, section: str) -> Token:
        token = self._cursor.peek()
        if token.kind != "word" or not is_name(token.text):
            self._cursor.fail(f"{section}[...] wants the name of a resource, not {token}")
        return self._cursor.take()

    def _order(self) -> None:
        keys: list[OrderKey] = []
        while True:
            if self._cursor.sees("!"):
                self._cursor.fail("order[!resource] is not supported")
            is_reversed = self._cursor.accept("-")
            token = self._resource("order")
            if self._cursor.peek().text in ("*", "/", "+", "-", "("):
                self._cursor.fail("an expression in order[...] is not supported")
            if any(canonical(key.name) == canonical(token.text) for key in keys):
                self._cursor.fail(f"{token} is named twice in order[...]", token.start)
            keys.append(OrderKey(token.text, is_reversed, token.start))
            if not self._cursor.accept(":"):
                break
        self._found = replace(self._found, order=tuple(keys))

    def _same(self) -> None:
        keys: list[SameKey] = []
        while True:
            token = self._resource("same")
            if SameKey(token.text) not in keys:
                keys.append(SameKey(token.text, token.start))
            if not self._cursor.accept(":"):
                break
        self._found = replace(self._found, same=tuple(keys))

    def _span(self) -> None:
        token = self._resource("span")
        if token.text in _UNSUPPORTED_SPANS:
            self._cursor.fail(f"span[{token.text}...] is not supported", token.start)
        if token.text not in ("hosts", "ptile"):
            self._cursor.fail(f"{token} is not known in span[...]: hosts=1, hosts=-1 or ptile=n is", token.start)
        self._cursor.expect("=", f"after {token.text}")
        value = self._cursor.peek()
        if token.text == "ptile" and (value.text == "!" or value.kind == "text"):
            self._cursor.fail("span[ptile='!'] is not supported")
        sign = -1 if self._cursor.accept("-") else 1
        number = self._cursor.take()
        count = sign * int(number.text) if number.text.isdigit() and len(number.text) < 10 else 0
        if token.text == "hosts" and count not in (1, -1):
            self._cursor.fail("span[hosts=...] takes 1 or -1", value.start)
        if token.text == "ptile" and count < 1:
            self._cursor.fail("span[ptile=...] takes a number of at least 1", value.start)
        if self._cursor.accept(","):
            self._cursor.fail("a list in span[...] is not supported")
        self._found = replace(self._found, span=Span(hosts=count) if token.text == "hosts" else Span(ptile=count))

    def _rusage(self) -> None:
        items: list[Reservation] = []
        while True:
            token = self._resource("rusage")
            if token.text in ("duration", "decay", "threshold"):
                self._rusage_option(token, bool(items))
            else:
                if any(canonical(item.name) == canonical(token.text) for item in items):
                    self._cursor.fail(f"{token} is reserved twice in rusage[...]", token.start)
                items.append(self._reservation(token))
            if self._cursor.sees("||"):
                self._cursor.fail("an alternative (||) in rusage[...] is not supported")
            if not (self._cursor.accept(":") or self._cursor.accept(",")):
                break
        if not items:
            self._cursor.fail("rusage[...] reserves nothing")
        self._found = replace(self._found, rusage=tuple(items))

    def _rusage_option(self, option: Token, has_resource: bool) -> None:
        """duration, decay, threshold: only what changes nothing is taken."""
        if not has_resource:
            self._cursor.fail(f"{option.text}= wants a resource before it", option.start)
        self._cursor.expect("=", f"after {option.text}")
        value = self._cursor.take()
        if option.text == "decay" and value.text == "0":
            return
        if value.kind != "word" and value.text != "(":
            self._cursor.fail(f"{option.text}= wants a value, not {value}", value.start)
        self._cursor.fail(f"{option.text}= in rusage[...] is not supported", option.start)

    def _reservation(self, name: Token) -> Reservation:
        if name.text in _GPU_SUBOPTIONS:
            self._cursor.fail(f"{name.text}= in rusage[...] is not supported", name.start)
        self._cursor.expect("=", f"after {name.text}: rusage[resource=amount]")
        value = self._cursor.peek()
        if value.text == "(":
            self._cursor.fail("a list of amounts in rusage[...] is not supported")
        number = read_number(value.text) if value.kind == "word" else None
        if number is None:
            self._cursor.fail(f"{name.text}= wants an amount such as 2, 0.5 or 16G, not {value}")
        self._cursor.take()
        method = ""
        if self._cursor.accept("/"):
            method = self._cursor.peek().text
            if method not in _METHODS:
                self._cursor.fail(f"a reservation is made per {', '.join(_METHODS)}, not per {self._cursor.peek()}")
            self._cursor.take()
        return Reservation(name.text, number.value, number.text, method, name.start)
