"""Plots: which numbers of its output a job's owner wants drawn, as patterns (--plot), and the checks of what was asked.

Nothing here, and nothing in a daemon, ever applies a pattern: browsers do, in a worker that they end when it takes too
long. So a pattern may be nothing that JavaScript and Python read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobPlot

MOST_PLOTS = 8
LONGEST_NAME = 40
LONGEST_PATTERN = 200
_ESCAPES = frozenset("dDwWsSbBtnrfv")
_COUNT = re.compile(r"\{[0-9]{1,4}(,[0-9]{0,4})?\}")
_QUANTIFIERS = "*+?}"
_NEEDS_GROUP = "it needs a group for the number, as in loss = ([0-9.]+)"


def read_plot(text: str) -> JobPlot:
    """`NAME=PATTERN`, as typed. Raises BadRequest."""
    name, equals, pattern = text.partition("=")
    if not equals:
        raise BadRequest(f"'{text[:LONGEST_NAME]}' is not of the form NAME=PATTERN, as in 'loss=loss = ([0-9.]+)'")
    plot = JobPlot(name=name.strip(), pattern=pattern)
    check_plot(plot)
    return plot


def check_plots(plots: Sequence[JobPlot]) -> None:
    """Raise BadRequest for plots that no job may have."""
    if len(plots) > MOST_PLOTS:
        raise BadRequest(f"{len(plots)} plots are too many, {MOST_PLOTS} are the most")
    for plot in plots:
        check_plot(plot)
    names = [plot.name for plot in plots]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"plot '{name}' stands twice")


def check_plot(plot: JobPlot) -> None:
    """Raise BadRequest for a name or a pattern that cannot be."""
    if not plot.name or len(plot.name) > LONGEST_NAME or not plot.name.isprintable():
        raise BadRequest(f"the name of a plot is printable and has 1 to {LONGEST_NAME} characters")
    if len(plot.pattern) > LONGEST_PATTERN:
        raise BadRequest(f"{plot.name}: the pattern has more than {LONGEST_PATTERN} characters")
    if not plot.pattern.isprintable():
        raise BadRequest(f"{plot.name}: the pattern has characters that are not printable")
    if (fault := fault_in(plot.pattern)) is not None:
        at, why = fault
        raise BadRequest(f"{plot.name}: character {at + 1} of the pattern: {why}")


def shown_plots(plots: Iterable[JobPlot]) -> str:
    """`loss=loss = ([0-9.]+); acc=acc ([0-9.]+)`."""
    return "; ".join(f"{plot.name}={plot.pattern}" for plot in plots)


def fault_in(pattern: str) -> tuple[int, str] | None:
    """Where in the pattern (from 0 on) something is wrong, and what; None where nothing is."""
    fault = _Scan(pattern).fault()
    if fault is not None:
        return fault
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        return error.pos or 0, error.msg
    except (OverflowError, RecursionError):
        return 0, "it is too deep or counts too far"
    return None if compiled.groups else (max(0, len(pattern) - 1), _NEEDS_GROUP)


class _Scan:
    """Looks for what JavaScript and Python do not read in the same way."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def fault(self) -> tuple[int, str] | None:
        """The first of them."""
        is_set = False
        while self._at < len(self._pattern):
            why = self._in_set() if is_set else self._outside()
            if why:
                return self._at, why
            character = self._pattern[self._at]
            if character == "[" and not is_set:
                is_set = True
                if self._next(2).removeprefix("^").startswith("]"):
                    return self._at, "a set that is empty; the character ] is written \\]"
            elif character == "]":
                is_set = False
            self._at += 2 if character == "\\" else 1
        return None

    def _next(self, count: int = 1) -> str:
        return self._pattern[self._at + 1 : self._at + 1 + count]

    def _in_set(self) -> str:
        here = self._pattern[self._at]
        if here == "\\":
            return self._escape()
        if here == "[":
            return "the character [ in a set is written \\["
        if here in "-&~|" and self._next() == here:
            return f"{here}{here} in a set: the character {here} is written \\{here}"
        return ""

    def _outside(self) -> str:
        here = self._pattern[self._at]
        if here == "\\":
            return self._escape()
        if here == "(" and self._next() == "?" and self._next(2) != "?:":
            return "of groups that begin with (? only (?: ... ) is known"
        if here == "{" and not _COUNT.match(self._pattern, self._at):
            return "not a count such as {3} or {1,3}; the character { is written \\{"
        if here == "+" and self._at and self._pattern[self._at - 1] in _QUANTIFIERS and not self._is_escaped(1):
            return "a + behind another quantifier"
        return ""

    def _is_escaped(self, back: int) -> bool:
        before = self._pattern[: self._at - back]
        return (len(before) - len(before.rstrip("\\"))) % 2 == 1

    def _escape(self) -> str:
        following = self._next()
        if following.isdigit():
            return "a pattern cannot refer to its groups"
        if following in _ESCAPES or (following and following.isascii() and not following.isalnum()):
            return ""
        return f"\\{following} is not known here" if following else "a \\ at the end"
