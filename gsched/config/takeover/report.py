"""What became of each line of LSF's files, in words: a line each, and how many there are of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gsched.config.config_folder import CLUSTER_PREFIX, NOT_READ
from gsched.config.grammar import unsupported
from gsched.config.grammar.findings import show
from gsched.config.grammar.lsf_differences import DIFFERENCES
from gsched.config.grammar.sections import cells_of
from gsched.config.takeover.edited_file import EditedFile, Statement
from gsched.config.takeover.taking_over import Takeover


class LineStanding(StrEnum):
    """What becomes of a line."""

    SAME = "same"
    TRANSLATED = "translated"
    NOTED = "noted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of LSF's files. `line` 0: the whole file."""

    path: str
    line: int
    standing: LineStanding
    text: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.standing}: {self.text}"


_AS_HERE = {
    "lsf.conf": unsupported.AS_HERE_CONF,
    "lsb.params": unsupported.AS_HERE_PARAMS,
    "lsb.queues": unsupported.AS_HERE_QUEUE,
    "lsb.applications": unsupported.AS_HERE_APPLICATION,
}
_NO_FILE = "not read: gsched has no file of that kind"
_HOSTS = "not read: names of hosts are the system's; each host must know them (/etc/hosts)"


def report_of(new: Takeover) -> list[ReportLine]:
    """A line for each that says something, in the order of the files."""
    found: list[ReportLine] = []
    for file in new.files.values():
        found += _of_file(new, file)
    for path in new.others:
        text = _HOSTS if path.rsplit("/", 1)[-1] == "hosts" else _NO_FILE
        found.append(ReportLine(path, 0, LineStanding.NOTED, text))
    return [*found, *(ReportLine(new.conf_dir, 0, LineStanding.NOTED, text) for text in new.about_files)]


def summary(lines: list[ReportLine]) -> str:
    """`12 lines: 9 same, 1 translated, 1 noted, 1 refused`."""
    counts = Counter(line.standing for line in lines)
    return f"{len(lines)} lines: " + ", ".join(f"{counts[each]} {each}" for each in LineStanding)


def _of_file(new: Takeover, file: EditedFile) -> Iterator[ReportLine]:
    if file.name in new.latin:
        yield ReportLine(file.source, 0, LineStanding.TRANSLATED, "it was not UTF-8, and is written in it")
    for text in new.notes.get((file.name, 0), ()):
        yield ReportLine(file.source, 0, LineStanding.NOTED, text)
    found = [*_of_directives(file)]
    if file.name not in NOT_READ:
        found += [line for statement in file.statements for line in _of_statement(new, file, statement)]
    yield from sorted(found, key=lambda line: line.line)
    for text in _of_additions(file):
        yield ReportLine(file.source, 0, LineStanding.TRANSLATED, text)


def _of_additions(file: EditedFile) -> Iterator[str]:
    for line in file.added:
        if "=" in line and not line.startswith("#"):
            yield f"not set; {line.strip()} is written"
    if any(line.startswith("# Where a parameter is not set") for line in file.added):
        yield "defaults of LSF that are not gsched's are written as comments at the end"


def _of_directives(file: EditedFile) -> Iterator[ReportLine]:
    for line, instead in file.raw_instead.items():
        if not any(first <= line <= last for first, (last, _) in file.raw_reasons.items()):
            yield ReportLine(file.source, line, LineStanding.TRANSLATED, f"{_raw(file, line)}: {instead}")
    for line, (_, reason) in file.raw_reasons.items():
        yield ReportLine(file.source, line, LineStanding.REFUSED, f"{_raw(file, line)}: {reason}")


def _raw(file: EditedFile, line: int) -> str:
    return show(file.lines[line - 1].strip())


def _of_statement(new: Takeover, file: EditedFile, statement: Statement) -> Iterator[ReportLine]:
    section = statement.section
    at, said = statement.number, show(statement.line.text)
    if any(first <= at <= last for first, (last, _) in file.raw_reasons.items()):
        return  # its block has been told of
    if section is not None and section.reason:
        if statement.kind == "begin":
            yield ReportLine(file.source, at, LineStanding.REFUSED, f"section {show(section.name)}: {section.reason}")
        return
    reasons = _reasons(statement)
    if reasons:
        yield ReportLine(file.source, at, LineStanding.REFUSED, f"{said}: {'; '.join(dict.fromkeys(reasons))}")
    elif statement.kind not in ("begin", "end", "header"):
        standing, text = _standing(new, file, statement)
        yield ReportLine(file.source, at, standing, f"{said}: {text}" if text else said)


def _reasons(statement: Statement) -> list[str]:
    """Why it, or a part of it, is left out."""
    reasons = [statement.reason] if statement.reason else list(statement.cleared.values())
    if statement.is_partial:
        reasons.append(statement.because)
    section = statement.section
    if section is None or not section.dropped or statement.kind not in ("row", "header"):
        return reasons
    cells = cells_of(statement.line) or []
    for name, cell in zip(section.columns, cells, strict=False):
        if name in section.dropped and not cell.is_empty:
            reasons.append(section.dropped[name])
    return reasons


def _standing(new: Takeover, file: EditedFile, statement: Statement) -> tuple[LineStanding, str]:
    if statement.instead:
        return LineStanding.TRANSLATED, statement.because
    notes = new.notes.get((file.name, statement.number), [])
    kind = _kind(file, statement)
    if notes:
        words, _ = _AS_HERE.get(kind, {}).get(statement.key.upper(), (frozenset(), ""))
        so = bool(words) and "n" not in words and words.issuperset(statement.value.casefold().split())
        return (LineStanding.TRANSLATED if so else LineStanding.NOTED), "; ".join(notes)
    differs = _difference(kind, statement)
    return (LineStanding.TRANSLATED, differs) if differs else (LineStanding.SAME, "")


def _kind(file: EditedFile, statement: Statement) -> str:
    """The file as the tables of names have it; of an included one by the section alone."""
    if file.name.startswith(CLUSTER_PREFIX):
        return "lsf.cluster"
    if "/" not in file.name:
        return file.name
    by_section = {"queue": "lsb.queues", "application": "lsb.applications", "parameters": "lsb.params"}
    return by_section.get(statement.section.name.casefold(), "") if statement.section is not None else "lsb.queues"


def _difference(kind: str, statement: Statement) -> str:
    if statement.kind == "value":
        return DIFFERENCES.get(kind, {}).get(statement.key.upper(), "")
    section = statement.section
    if section is None:
        return ""
    table = DIFFERENCES.get(f"{kind}/{section.name}", {})
    cells = zip(section.columns, cells_of(statement.line) or [], strict=False)
    return "; ".join(table[name.upper()] for name, cell in cells if name.upper() in table and not cell.is_empty)
