"""A file of LSF as it is written anew: its lines, what they are, and what has been done to them.

What is not taken over stays in its place as a comment with the reason above it. A line is never lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gsched.config.grammar.directives import is_directive
from gsched.config.grammar.sections import Cell, ConfigLine, cells_of, content_lines

NOT_TAKEN = "# Not taken over: "
WAS = "# In LSF: "
_REASON = 300
"""Characters of a reason that stand in a file."""


@dataclass(slots=True)
class Section:
    """`Begin NAME` to `End NAME`."""

    name: str
    begin: int
    end: int = 0
    columns: list[str] = field(default_factory=list)
    """Keywords of a table, lower case; empty: it is none."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Columns that are left out -> why."""
    has_values: bool = False
    """It has `KEY = value` lines: it is no table."""
    reason: str = ""
    """Why the whole section is left out."""


@dataclass(slots=True)
class Statement:
    """A logical line that says something. `kind`: value, row, header, begin, end or stray."""

    kind: str
    line: ConfigLine
    section: Section | None = None
    reason: str = ""
    """Why it is left out."""
    cleared: dict[tuple[str, ...], str] = field(default_factory=dict)
    """(column,) or (column, word) that is left out -> why."""
    instead: str = ""
    """What stands there now."""
    because: str = ""
    """What `instead` means."""
    is_partial: bool = False
    """A part of what LSF's line says is left out."""

    @property
    def number(self) -> int:
        return self.line.at.line

    @property
    def key(self) -> str:
        """Of `KEY = value`."""
        return self.line.text.partition("=")[0].strip()

    @property
    def value(self) -> str:
        return self.line.text.partition("=")[2].strip()

    @property
    def is_out(self) -> bool:
        return bool(self.reason or (self.section is not None and self.section.reason))


class EditedFile:
    """One file. `name` is that below the new folder, `source` the path it was read from, `mode` who may read and
    write that.
    """

    def __init__(self, name: str, source: str, text: str, mode: int = 0o666) -> None:
        self.name, self.source, self.mode = name, source, mode
        self.lines = text.split("\n")
        self.statements = list(_statements(source, text, is_lsf_conf=name == "lsf.conf"))
        self.added: list[str] = []
        """Lines behind the last one."""
        self.raw_reasons: dict[int, tuple[int, str]] = {}
        """First line -> last line and reason, of what is left out and is no statement: directives."""
        self.raw_instead: dict[int, str] = {}
        """Line -> what stands there now: #INCLUDE."""
        self._by_line = {each.number: each for each in self.statements}

    def statement(self, line: int) -> Statement | None:
        """The statement that begins there."""
        return self._by_line.get(line)

    def leave_out(self, line: int, about: tuple[str, ...], reason: str) -> bool:
        """Leave out what a problem at that line is about; False where that has been done already."""
        statement = self.statement(line)
        if statement is None:
            return self._leave_out_raw(line, reason)
        if statement.is_out:
            return False
        section = statement.section
        if section is not None and statement.kind == "header" and about and len(section.columns) > 1:
            section.dropped[about[0].casefold()] = reason
        elif section is not None and statement.kind in ("begin", "header"):
            section.reason = reason
        elif statement.kind == "row" and self._can_clear(statement, about):
            statement.cleared[about] = reason
        else:
            statement.reason = reason
        return True

    def _can_clear(self, statement: Statement, about: tuple[str, ...]) -> bool:
        section = statement.section
        return (
            bool(about)
            and section is not None
            and about[0].casefold() in section.columns
            and about not in statement.cleared
        )

    def _leave_out_raw(self, line: int, reason: str) -> bool:
        if line in self.raw_reasons or not 0 < line <= len(self.lines):
            return False
        first, last = self._block(line)
        self.raw_reasons[first] = (last, reason)
        return True

    def _block(self, line: int) -> tuple[int, int]:
        """The #if ... #endif that the directive is part of; any other line alone."""
        open_blocks: list[list[int]] = []
        for number, raw in enumerate(self.lines, start=1):
            word = raw.strip().casefold()
            if not is_directive(word) or word.startswith("#include"):
                continue
            if word.startswith("#if"):
                open_blocks.append([])
            if not open_blocks:
                continue
            open_blocks[-1].append(number)
            if word.startswith("#endif"):
                block = open_blocks.pop()
                if line in block:
                    return block[0], block[-1]
        return line, line

    def written(self) -> tuple[str, list[int]]:
        """The text, and of each of its lines the number of the line it comes from; 0: of none."""
        lines: list[str] = []
        origins: list[int] = []
        number = 1
        while number <= len(self.lines):
            last, new = self._written_at(number)
            lines += new
            origins += [number] * len(new)
            number = last + 1
        lines += self.added
        origins += [0] * len(self.added)
        return "\n".join(lines) + ("\n" if self.added else ""), origins

    def _written_at(self, number: int) -> tuple[int, list[str]]:
        """(last line, what is written) of what begins at that line."""
        statement = self.statement(number)
        if number in self.raw_reasons:
            last, reason = self.raw_reasons[number]
            return last, self._commented(number, last, reason)
        if statement is None:
            raw = self.lines[number - 1]
            return number, [WAS + raw.strip(), self.raw_instead[number]] if number in self.raw_instead else [raw]
        section, last = statement.section, statement.line.last
        if section is not None and section.reason and number == section.begin:
            return section.end, self._commented(number, section.end, section.reason)
        if statement.reason:
            return last, self._commented(number, last, statement.reason)
        if statement.instead:
            return last, [*(WAS + raw.strip() for raw in self.lines[number - 1 : last]), statement.instead]
        if statement.cleared or (section is not None and section.dropped):
            return last, self._rebuilt(statement)
        return last, self.lines[number - 1 : last]

    def _commented(self, first: int, last: int, reason: str) -> list[str]:
        return [NOT_TAKEN + _one_line(reason), *("# " + raw for raw in self.lines[first - 1 : last])]

    def _rebuilt(self, statement: Statement) -> list[str]:
        """A line of a table without what is left out of it."""
        section, line = statement.section, statement.line
        raw = self.lines[line.at.line - 1 : line.last]
        cells = cells_of(line)
        if section is None or cells is None or len(cells) != len(section.columns):
            return raw
        if statement.kind == "header":
            kept = [cell.text for cell, name in zip(cells, section.columns, strict=True) if name not in section.dropped]
            return [*(NOT_TAKEN + _one_line(why) for why in section.dropped.values()), *_comments(raw), "  ".join(kept)]
        reasons, kept = dict.fromkeys(statement.cleared.values()), []
        for cell, name in zip(cells, section.columns, strict=True):
            if name in section.dropped:
                if not cell.is_empty:
                    reasons[section.dropped[name]] = None
                continue
            kept.append(_cell_text(cell, name, statement.cleared))
        return [*(NOT_TAKEN + _one_line(why) for why in reasons), *(_comments(raw) if reasons else ()), "  ".join(kept)]


def _cell_text(cell: Cell, name: str, cleared: dict[tuple[str, ...], str]) -> str:
    text, in_parentheses = cell.text, cell.in_parentheses
    for about in cleared:
        if about[0].casefold() == name:
            words = [word for word in text.split() if len(about) > 1 and word.lstrip("!") != about[1].lstrip("!")]
            text, in_parentheses = " ".join(words), True
    return f"({text})" if in_parentheses or not text else text


def _comments(raw: list[str]) -> list[str]:
    return ["# " + line for line in raw]


def _one_line(reason: str) -> str:
    # A reason quotes what stands in a file; a backslash at its end must not join the next line to the comment.
    return " ".join(reason.split())[:_REASON].rstrip("\\")


def _statements(path: str, text: str, *, is_lsf_conf: bool) -> Iterator[Statement]:
    section: Section | None = None
    for line in content_lines(path, text, is_lsf_conf=is_lsf_conf):
        words = line.text.split(None, 2)
        word, named = words[0].casefold(), len(words) > 1 and not words[1].startswith("=")
        if is_lsf_conf:
            yield Statement("value", line)
        elif word == "begin" and (named or len(words) == 1):
            _end(section, line.at.line - 1)
            section = Section(words[1] if named else "", line.at.line)
            yield Statement("begin", line, section)
        elif word == "end" and (named or len(words) == 1):
            _end(section, line.last)
            yield Statement("end", line, section)
            section = None
        else:
            yield _in_section(line, section)
    if section is not None:
        _end(section, max(text.count("\n") + (not text.endswith("\n")), section.begin))


def _end(section: Section | None, last: int) -> None:
    if section is not None:
        section.end = last


def _in_section(line: ConfigLine, section: Section | None) -> Statement:
    if section is None:
        return Statement("value" if "=" in line.text else "stray", line)
    if section.columns:
        return Statement("row", line, section)
    if not section.has_values and "=" not in line.text:
        section.columns = [word.casefold() for word in line.text.split()]
        return Statement("header", line, section)
    section.has_values = True
    return Statement("value", line, section)
