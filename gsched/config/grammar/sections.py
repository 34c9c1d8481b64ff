"""The grammar of LSF's configuration files: sections, tables, `KEY = value` lines and lsf.conf's `NAME=VALUE` lines.

Source: lsf.shared(5), lsf.cluster(5), lsb.queues(5), lsf.conf(5). Blanks of any kind count, also the no-break spaces
that come along when a stanza is pasted from a web page. Nothing here knows what a section is for, and nothing here
raises for the contents of a file: whatever cannot be read becomes a problem with its line, and reading goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gsched.config.grammar.directives import Directives, is_directive
from gsched.config.grammar.findings import Findings, SourcePlace, show

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_LINES = 100_000
MAX_COLUMNS = 200


class ConfigLine(msgspec.Struct, frozen=True):
    """A logical line: comment removed, continuations joined, blanks stripped, never empty. `at` is its first line,
    `last` the number of its last one.
    """

    text: str
    at: SourcePlace
    last: int = 0


class ConfigSection(msgspec.Struct, frozen=True):
    """`Begin name` ... `End name`. The body is not interpreted yet: see `read_table` and `read_entries`."""

    name: str
    at: SourcePlace
    body: tuple[ConfigLine, ...]


class Cell(msgspec.Struct, frozen=True):
    """One value of a table, without the parentheses that it may have stood in; `()` is the empty text."""

    text: str
    in_parentheses: bool = False

    @property
    def is_empty(self) -> bool:
        """True for `()` and for `-`, the two ways to write "not set"."""
        return self.text in ("", "-")


class TableRow(msgspec.Struct, frozen=True):
    """A line of a table; `cells` by keyword, lower case."""

    at: SourcePlace
    cells: dict[str, Cell]


class ConfigTable(msgspec.Struct, frozen=True):
    """A vertical section. `keywords` as written, in order; `at` is the keyword line."""

    at: SourcePlace
    keywords: tuple[str, ...]
    rows: tuple[TableRow, ...]


class KeyValue(msgspec.Struct, frozen=True):
    """One `KEY = value`."""

    key: str
    value: str
    at: SourcePlace


def decode(path: str, data: bytes, findings: Findings) -> str | None:
    """The text of a file, or None with one problem when it is too large, binary, or not UTF-8."""
    whole = SourcePlace(path)
    if len(data) > MAX_FILE_BYTES:
        findings.error(whole, f"the file is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
        return None
    if b"\0" in data:
        findings.error(
            SourcePlace(path, data.count(b"\n", 0, data.index(b"\0")) + 1), "not a text file (it holds NUL bytes)"
        )
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        findings.error(SourcePlace(path, data.count(b"\n", 0, error.start) + 1), "not UTF-8 text")
        return None
    if text.count("\n") > MAX_LINES:
        findings.error(whole, f"the file has more than {MAX_LINES} lines")
        return None
    return text


def read_sections(
    path: str, text: str, findings: Findings, directives: Directives | None = None
) -> list[ConfigSection]:
    """All sections of a stanza file, in order. `directives`: how #INCLUDE and #if are answered; None: refused."""
    sections: list[ConfigSection] = []
    name, begun, body = "", SourcePlace(path), list[ConfigLine]()
    stray = False
    for line in _logical_lines(path, text, findings, _stanza_content, directives):
        keyword, rest = _first_word(line.text)
        if keyword == "begin" and not rest.startswith("="):
            if name:
                findings.error(line.at, f"Begin inside section {name}, which has no End {name} (it begins at {begun})")
                sections.append(ConfigSection(name, begun, tuple(body)))
            name, begun, body, stray = _section_name(line, rest, findings), line.at, [], False
        elif keyword == "end" and not rest.startswith("="):
            _check_end(line, rest, name, begun, findings, stray)
            if name:
                sections.append(ConfigSection(name, begun, tuple(body)))
            name, stray = "", False
        elif name:
            body.append(line)
        elif not stray:
            # Once per run of such lines: a lost Begin would otherwise complain about every line of its section.
            stray = True
            findings.error(line.at, f"'{show(line.text)}' stands outside any section (Begin NAME ... End NAME)")
    if name:
        findings.error(begun, f"section {name} has no End {name}")
        sections.append(ConfigSection(name, begun, tuple(body)))
    return sections


def is_table(section: ConfigSection) -> bool:
    """Whether the section is vertical: its first line is a keyword line, not `KEY = value`."""
    return bool(section.body) and "=" not in section.body[0].text


def read_table(section: ConfigSection, findings: Findings) -> ConfigTable | None:
    """The section as a table; None when it is empty or its keyword line cannot be used."""
    if not section.body:
        return None
    head = section.body[0]
    if not is_table(section):
        findings.error(head.at, f"section {section.name} is a table: its first line must name the columns")
        return None
    keywords = tuple(head.text.split())
    folded = [keyword.casefold() for keyword in keywords]
    if len(keywords) > MAX_COLUMNS:
        findings.error(head.at, f"section {section.name} has more than {MAX_COLUMNS} columns")
        return None
    for number, keyword in enumerate(folded):
        if keyword.startswith("("):
            no_name = f"{show(keywords[number])} is no name of a column"
            findings.error(head.at, f"the first line of section {section.name} must name the columns: {no_name}")
            return None
        if keyword in folded[:number]:
            findings.error(head.at, f"column {show(keywords[number])} is named twice")
            return None
    rows: list[TableRow] = []
    for line in section.body[1:]:
        cells = _cells(line, findings)
        if cells is None:
            continue
        if len(cells) != len(keywords):
            wanted = f"{len(keywords)} columns ({show(' '.join(keywords))})"
            findings.error(line.at, f"the line has {len(cells)} values for {wanted}")
            continue
        rows.append(TableRow(line.at, dict(zip(folded, cells, strict=True))))
    return ConfigTable(head.at, keywords, tuple(rows))


def read_entries(section: ConfigSection, findings: Findings) -> list[KeyValue]:
    """The section as `KEY = value` lines; keys keep their case."""
    entries: list[KeyValue] = []
    for line in section.body:
        key, equals, value = line.text.partition("=")
        key = key.strip()
        if not equals or not key or len(key.split()) != 1:
            findings.error(line.at, f"'{show(line.text)}' is not of the form KEY = value")
            continue
        entries.append(KeyValue(key, value.strip(), line.at))
    return entries


def read_assignments(path: str, text: str, findings: Findings) -> list[KeyValue]:
    """lsf.conf: `NAME=VALUE` lines. A value with blanks stands in quotes. Source: lsf.conf(5)."""
    entries: list[KeyValue] = []
    for line in _logical_lines(path, text, findings, _conf_content):
        name, equals, value = line.text.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            findings.error(line.at, f"'{show(line.text)}' is not of the form NAME=VALUE")
            continue
        unquoted = _unquote(value.strip())
        if unquoted is None:
            findings.error(line.at, f"{name}: the value must be one word or stand in one pair of quotes")
            continue
        entries.append(KeyValue(name, unquoted, line.at))
    return entries


def _section_name(line: ConfigLine, rest: str, findings: Findings) -> str:
    """Name after Begin; a stand-in when there is none, so that the body does not count as stray lines."""
    words = rest.split()
    if len(words) == 1:
        return words[0] if words[0].isprintable() and len(words[0]) <= 40 else show(words[0])
    findings.error(line.at, "Begin must be followed by the name of one section")
    return show(words[0]) if words else "?"


def _check_end(line: ConfigLine, rest: str, name: str, begun: SourcePlace, findings: Findings, stray: bool) -> None:
    if not name:
        if not stray:
            findings.error(line.at, f"End {show(rest)} without a Begin".replace("  ", " "))
    elif rest.casefold() != name.casefold() and name != "?":
        findings.error(line.at, f"'End {show(rest)}' closes section {name} of {begun}; expected End {name}")


def _logical_lines(
    path: str,
    text: str,
    findings: Findings,
    content_of: Callable[[str], str],
    directives: Directives | None = None,
) -> Iterator[ConfigLine]:
    """Lines without comments, with those that end in a backslash joined to the next one."""
    numbered = _refusing(path, text, findings) if directives is None else directives.lines(path, text, findings)
    return _joined_lines(numbered, path, findings, content_of)


def _joined_lines(
    numbered: Iterable[tuple[SourcePlace, str]], path: str, findings: Findings, content_of: Callable[[str], str]
) -> Iterator[ConfigLine]:
    parts: list[str] = []
    first: SourcePlace | None = None
    at = SourcePlace(path)
    for at, raw in numbered:
        # The comment goes first, so a backslash inside a comment joins nothing.
        content = content_of(raw).rstrip()
        first = first or at
        continued = content.endswith("\\")
        parts.append(content[:-1] if continued else content)
        if not continued:
            joined = " ".join(part.strip() for part in parts).strip()
            if joined:
                yield ConfigLine(joined, first, at.line)
            parts, first = [], None
    joined = " ".join(part.strip() for part in parts).strip()
    if joined:
        findings.error(first or at, "the last line ends in a backslash but nothing follows")
        yield ConfigLine(joined, first or at, at.line)


def content_lines(path: str, text: str, *, is_lsf_conf: bool = False) -> list[ConfigLine]:
    """Every logical line, whatever #if it stands in; #INCLUDE, #if and their kin are left out.

    For whoever rewrites a file: nothing is judged.
    """
    numbered = (
        (SourcePlace(path, number), raw)
        for number, raw in enumerate(text.split("\n"), start=1)
        if is_lsf_conf or not is_directive(raw)
    )
    return list(_joined_lines(numbered, path, Findings(), _conf_content if is_lsf_conf else _stanza_content))


def cells_of(line: ConfigLine) -> list[Cell] | None:
    """The values of a table's line; None where a parenthesis is not closed."""
    return _cells(line, Findings())


def _refusing(path: str, text: str, findings: Findings) -> Iterator[tuple[SourcePlace, str]]:
    for number, raw in enumerate(text.split("\n"), start=1):
        if is_directive(raw):
            what = "#INCLUDE and #if blocks are not supported yet here"
            findings.error(SourcePlace(path, number), f"{show(raw.strip())}: {what}")
        else:
            yield SourcePlace(path, number), raw


def _stanza_content(raw: str) -> str:
    """What stands before the comment. A `#` between two quotes begins none: GPU_REQ = "gmodel=Tesla#16G"."""
    content, found, rest = raw.partition("#")
    while found and content.count('"') % 2 and '"' in rest:
        more, found, rest = rest.partition("#")
        content += "#" + more
    return content


def _conf_content(raw: str) -> str:
    """In lsf.conf a '#' starts a comment only outside quotes and after a blank (or first): paths may hold one."""
    quote = ""
    for position, character in enumerate(raw if "#" in raw else ""):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and not raw[max(position - 1, 0) : position].strip():
            return raw[:position]
    return raw


def _first_word(text: str) -> tuple[str, str]:
    """First word, lower case, and what follows it."""
    words = text.split(None, 1)
    return words[0].casefold(), words[1] if len(words) > 1 else ""


def _cells(line: ConfigLine, findings: Findings) -> list[Cell] | None:
    """Values of a table line: words, or anything in balanced parentheses. None (with a problem) when unbalanced."""
    cells: list[Cell] = []
    text, position = line.text, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == "(":
            end = _closing(text, position)
            if end is None:
                findings.error(line.at, f"'(' is not closed in '{show(text[position:])}'")
                return None
            cells.append(Cell(text[position + 1 : end].strip(), True))
            position = end + 1
            if position < len(text) and not text[position].isspace():
                findings.error(line.at, f"a blank is missing before '{show(text[position:])}'")
                return None
        else:
            end = position
            while end < len(text) and not text[end].isspace():
                end += 1
            cells.append(Cell(text[position:end]))
            position = end
    return cells


def _closing(text: str, start: int) -> int | None:
    """Position of the parenthesis that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    return None


def _unquote(value: str) -> str | None:
    """The value without its quotes; None when quotes do not pair up or blanks are unquoted."""
    if value[:1] in ('"', "'"):
        inner = value[1:-1]
        return inner if len(value) >= 2 and value[-1] == value[0] and value[0] not in inner else None
    return None if len(value.split()) > 1 or '"' in value or "'" in value else value
