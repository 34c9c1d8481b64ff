"""JOB_FINISH records of lsb.acct, as LSF 9.1 and 10.1 write them: a line each, read field by field.

A record of an older LSF is one that ends earlier: the fields that it does not have, have their defaults. What a newer
one has behind the last field here is passed over. Source: lsb.acct(5) of LSF 10.1 and 9.1.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gsched.base.errors import BadRequest

AcctValue = str | int | float
Record = dict[str, "AcctValue | list[tuple[AcctValue, ...]]"]
"""Name of a field -> value; of a field that says how many there are of something: these, a tuple each."""

VERSION = "10.1"
KIND = "JOB_FINISH"
MOST_CHARACTERS = 1 << 20
"""Of one record; LSF's own readers take less."""
EXIT, DONE = 32, 64


@dataclass(frozen=True, slots=True)
class RecordField:
    """`kind`: s text, d whole number, f number. `parts`: it says how many groups of such fields follow."""

    name: str
    kind: str = "d"
    parts: str = ""
    default: AcctValue = 0


def _fields(text: str, kind: str = "d", default: AcctValue = 0) -> tuple[RecordField, ...]:
    return tuple(RecordField(name, kind, default=default) for name in text.split())


def _texts(text: str) -> tuple[RecordField, ...]:
    return _fields(text, "s", "")


FIELDS = (
    *_fields("eventTime jobId userId options numProcessors submitTime beginTime termTime startTime"),
    *_texts("userName queue resReq dependCond preExecCmd fromHost cwd inFile outFile errFile jobFile"),
    RecordField("askedHosts", parts="s"),
    RecordField("execHosts", parts="s"),
    RecordField("jStatus"),
    RecordField("hostFactor", "f", default=1.0),
    *_texts("jobName command"),
    *_fields(
        "ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap", "f", -1.0
    ),
    *_fields("ru_inblock ru_oublock ru_ioch ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw ru_exutime", "f", -1.0),
    *_texts("mailUser projectName"),
    *_fields("exitStatus maxNumProcessors"),
    *_texts("loginShell timeEvent"),
    *_fields("idx maxRMem maxRSwap"),
    *_texts("inFileSpool commandSpool"),
)
"""What every record has."""
LATER_FIELDS = (
    *_texts("rsvId sla"),
    RecordField("exceptMask"),
    *_texts("additionalInfo"),
    RecordField("exitInfo"),
    *_texts("warningAction"),
    RecordField("warningTimePeriod", default=-1),
    *_texts("chargedSAAP licenseProject app postExecCmd"),
    RecordField("runtimeEstimation"),
    *_texts("jobGroupName requeueEvalues"),
    RecordField("options2"),
    *_texts("resizeNotifyCmd"),
    RecordField("lastResizeTime"),
    *_texts("longRsvId jobDescription"),
    RecordField("submitExt", parts="ss"),
    RecordField("hostRusage", parts="sdddd"),
    *_fields("options3 runLimit avgMem"),
    *_texts("effectiveResReq srcCluster"),
    RecordField("srcJobId"),
    *_texts("dstCluster"),
    *_fields("dstJobId forwardTime flowId acJobWaitTime totalProvisionTime"),
    *_texts("outdir"),
    RecordField("runTime"),
    *_texts("subcwd"),
    RecordField("networkAlloc", parts="sd"),
    *_texts("affinity"),
    *_fields("serialJobEnergy cpi gips gbs gflops", "f", 0.0),
    RecordField("allocSlots", parts="s"),
    RecordField("ineligiblePendTime"),
    RecordField("indexRanges", parts="ddd"),
    RecordField("requeueTime"),
)
"""What came with later versions, in order."""
# Behind these, 10.1 has the use of GPUs by host, storage and other pairs of names and values; nothing here reads them.

_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s"]+))(?=\s|$)')
_NUMBERS = {
    "d": re.compile(r"[+-]?[0-9]{1,19}"),
    "f": re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"),
}


def read_record(line: str) -> Record | None:
    """The record of a line; None for one of another kind (JOB_RESIZE, EVENT_ADRSV_FINISH), a comment and an empty line.

    Raises BadRequest with the field that is wrong.
    """
    if not line.strip() or line.startswith("#"):
        return None
    if len(line) > MOST_CHARACTERS:
        raise BadRequest(f"it has more than {MOST_CHARACTERS} characters")
    if "\0" in line:
        raise BadRequest("it holds a NUL character")  # which PostgreSQL takes in no text
    tokens = _Tokens(line)
    kind = tokens.text("the kind of the record")
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{2,40}", kind):
        raise BadRequest("it begins with no kind of record, such as JOB_FINISH")
    if kind != KIND:
        return None
    tokens.text("the version")
    record: Record = {field.name: tokens.value(field) for field in FIELDS}
    for field in LATER_FIELDS:
        record[field.name] = _default(field) if tokens.is_over() else tokens.value(field)
    return record


def _default(field: RecordField) -> AcctValue | list[tuple[AcctValue, ...]]:
    return [] if field.parts else field.default


class _Tokens:
    """The fields of a line, one after the other."""

    def __init__(self, line: str) -> None:
        self._line, self._at = line, 0

    def is_over(self) -> bool:
        return not self._line[self._at : self._at + 1000].strip() and not self._line[self._at :].strip()

    def value(self, field: RecordField) -> AcctValue | list[tuple[AcctValue, ...]]:
        if not field.parts:
            return self._one(field.name, field.kind)
        count = self._one(field.name, "d")
        assert isinstance(count, int)
        if not 0 <= count <= len(self._line):
            raise BadRequest(f"{field.name}: {count} is no number of them")
        return [tuple(self._one(field.name, kind) for kind in field.parts) for _ in range(count)]

    def _one(self, name: str, kind: str) -> AcctValue:
        text = self.text(name)
        if kind == "s":
            return text
        if not _NUMBERS[kind].fullmatch(text):
            raise BadRequest(f"{name}: '{_shown(text)}' is no {'whole ' if kind == 'd' else ''}number")
        found = int(text) if kind == "d" else float(text)
        if not math.isfinite(found):
            raise BadRequest(f"{name}: {_shown(text)} is too large")
        return found

    def text(self, name: str) -> str:
        found = _TOKEN.match(self._line, self._at)
        if found is None:
            over = not self._line[self._at :].strip()
            raise BadRequest(f"it ends before {name}" if over else f"{name}: a quote is missing")
        self._at = found.end()
        quoted, plain = found.groups()
        return quoted.replace('""', '"') if quoted is not None else plain


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:40])


def write_record(record: Mapping[str, object]) -> str:
    """The line of a record, without its end; fields that it does not have get their defaults."""
    words = [_quoted(KIND), _quoted(VERSION)]
    for field in (*FIELDS, *LATER_FIELDS):
        words += _words(field, record.get(field.name, _default(field)))
    return " ".join(words)


def _words(field: RecordField, value: object) -> Iterator[str]:
    if not field.parts:
        yield _word(field.kind, value)
        return
    assert isinstance(value, list)
    yield str(len(value))
    for group in value:
        for kind, each in zip(field.parts, group, strict=True):
            yield _word(kind, each)


def _word(kind: str, value: object) -> str:
    if kind == "s":
        return _quoted(str(value))
    if kind == "d":
        return str(int(value))  # type: ignore[call-overload]
    return f"{float(value):.4f}"  # type: ignore[arg-type]


def _quoted(text: str) -> str:
    # A record is a line: what would break it becomes a blank, as in LSF's own.
    clean = "".join(" " if each in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029\0" else each for each in text)
    return '"' + clean.replace('"', '""') + '"'
