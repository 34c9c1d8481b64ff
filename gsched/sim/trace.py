"""Traces of jobs in our own form and the Standard Workload Format: read, written, made up from a seed. It runs nothing.

A table of our own (CSV with the names of `TraceJob` as its header, or JSON lines with them as keys) and the Standard
Workload Format of the Parallel Workloads Archive (fields 2, 4, 5, 8, 9, 10, 12). Times are seconds. Forms of other
systems are in gsched.sim.workload.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobSpec

_HIDDEN_KIB_PER_MIB = 1024.0
MOST_AMOUNT = 1e10
"""Seconds (three hundred years), MiB and others that a trace may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace."""

    arrives_s: float
    """After the beginning of the trace."""
    runs_s: float
    """How long it runs if nobody ends it."""
    limit_s: int | None = None
    """Run limit; None: none."""
    slots: int = 1
    gpus: int = 0
    """On each of its hosts, in exclusive process mode."""
    mem_mib: float = 0.0
    """On each of its hosts."""
    mem_s: int | None = None
    """How long the memory is reserved; None: to the end."""
    mem_decays: bool = False
    """The reservation falls evenly over that time."""
    spread: bool = False
    """Its slots may be on several hosts."""
    tasks_per_host: int | None = None
    """Slots on each of its hosts exactly, where they may be on several; None: as many as there is room for."""
    priority: int | None = None
    """-sp; None: the cluster's default."""
    queue: str = "normal"
    user: str = "user"
    rerunnable: bool = False
    exclusive: bool = False
    save_s: int | None = None
    """--signal: so long it may take to save its state when it is asked to; it goes on from there. None: it saves none.
    """
    estimate_s: int | None = None
    """-We: how long it is expected to run; None: nobody says."""
    gpu_req: str = ""
    """-gpu, in place of what `gpus` asks for."""
    res_req: str = ""
    """-R, beside what the other columns ask for."""
    name: str = ""
    project: str = ""
    application: str = ""
    line: int = field(default=0, compare=False)
    """Where it stands in its file; 0: nowhere. No column."""

    def spec(self) -> JobSpec:
        """The submission."""
        wanted = [f"ngpus_excl_p={self.gpus}"] if self.gpus and not self.gpu_req else []
        held = "" if self.mem_s is None else f":duration={self.mem_s}s:decay={int(self.mem_decays)}"
        wanted += [f"mem={_plain(self.mem_mib)}{held}"] if self.mem_mib else []
        parts = [f"rusage[{','.join(wanted)}]"] if wanted else []
        parts += ["span[hosts=1]"] if self.slots > 1 and not self.spread else []
        parts += [f"span[ptile={self.tasks_per_host}]"] if self.spread and self.tasks_per_host else []
        parts += [self.res_req] if self.res_req else []
        return JobSpec(
            command="sim",
            name=self.name,
            project=self.project or "default",
            application=self.application,
            user=self.user,
            queue=self.queue,
            slots=self.slots,
            res_req=" ".join(parts),
            run_limit_s=self.limit_s,
            priority=self.priority,
            rerunnable=self.rerunnable or None,
            exclusive=self.exclusive,
            gpu_req=self.gpu_req,
            estimate_s=self.estimate_s,
            warning_signal="TERM" if self.save_s else "",
            warning_s=self.save_s,
            saves_on_signal=bool(self.save_s),
        )


def _plain(amount: float) -> str:
    """The number as -R reads it: without an exponent."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")


COLUMNS = tuple(each.name for each in fields(TraceJob) if each.name != "line")


def read_trace(text: str) -> list[TraceJob]:
    """The jobs of a trace in either of the forms, in order of arrival. Raises TraceFault."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.startswith("{"):
        jobs = [_from_row(json_row(line, number), number) for number, line in _lines(text)]
    elif is_swf(first):
        jobs = [job for number, line in _lines(text) if (job := _from_swf(line, number)) is not None]
    else:
        jobs = list(_from_table(text))
    return sorted(jobs, key=lambda job: job.arrives_s)


class TraceFault(BadRequest):
    """A line that is no job. `line` counts from 1; `fault` is what is wrong with it."""

    def __init__(self, line: int, fault: str) -> None:
        super().__init__(f"line {line} of the trace{fault if fault[:1] in ' :' else ': ' + fault}")
        self.line = line
        self.fault = fault.lstrip(" :")


def is_swf(first: str) -> bool:
    """Whether a file whose first line is this one is in the Standard Workload Format."""
    return first.startswith(";") or bool(first and first.split()[0].isdigit() and "," not in first)


def write_trace(jobs: Iterable[TraceJob]) -> str:
    """The jobs as CSV that `read_trace` reads back."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for job in jobs:
        writer.writerow(
            {name: "" if value is None else value for name, value in asdict(job).items() if name in COLUMNS}
        )
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What random traces are made of."""

    jobs: int = 20
    most_slots: int = 4
    most_gpus: int = 0
    most_mem_mib: float = 0.0
    gaps_s: Sequence[float] = (0.0, 0.0, 1.0, 5.0, 20.0)
    longest_s: int = 60
    exact: float = 0.5
    """Share of jobs that run as long as they may."""
    unlimited: float = 0.0
    """Share of jobs without a run limit."""
    spread: float = 0.0
    """Share of jobs whose slots may be on several hosts; these may want `most_spread` slots."""
    most_spread: int = 8
    queues: Sequence[str] = ("normal",)
    users: Sequence[str] = ("ann", "bob")
    rerunnable: float = 0.0
    exclusive: float = 0.0
    mem_ends: float = 0.0
    """Share of jobs that reserve memory for a time only; in half of them it decays."""


def random_trace(seed: int, recipe: Recipe) -> list[TraceJob]:
    """A trace that depends on the seed and the recipe only."""
    chance = random.Random(seed)
    jobs = []
    arrives = 0.0
    for _ in range(recipe.jobs):
        arrives += chance.choice(recipe.gaps_s)
        spread = chance.random() < recipe.spread
        limit = chance.randint(1, recipe.longest_s)
        jobs.append(
            TraceJob(
                arrives_s=arrives,
                runs_s=float(limit if chance.random() < recipe.exact else chance.randint(1, limit)),
                limit_s=None if chance.random() < recipe.unlimited else limit,
                slots=chance.randint(1, recipe.most_spread if spread else recipe.most_slots),
                gpus=chance.randint(0, recipe.most_gpus),
                mem_mib=float(chance.choice((0, 0, 1, 2))) * recipe.most_mem_mib / 2,
                spread=spread,
                queue=chance.choice(recipe.queues),
                user=chance.choice(recipe.users),
                rerunnable=chance.random() < recipe.rerunnable,
                exclusive=chance.random() < recipe.exclusive,
            )
        )
        if recipe.mem_ends and chance.random() < recipe.mem_ends:
            held = chance.randint(1, recipe.longest_s)
            jobs[-1] = replace(jobs[-1], mem_s=held, mem_decays=chance.random() < 0.5)
    return jobs


def json_row(line: str, number: int) -> dict[str, Any]:
    """One JSON object. Raises BadRequest."""
    try:
        row = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise TraceFault(number, f" is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise TraceFault(number, " is not a JSON object")
    return row


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)
    return float(value)


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(value)
    return str(value)


def _int_or_none(value: Any) -> int | None:
    return None if value is None else _int(value)


_READERS: dict[str, Callable[[Any], Any]] = {"float": _float, "int": _int, "int | None": _int_or_none, "str": _text}


def _check_column(name: str, number: int) -> None:
    if name not in COLUMNS:
        raise TraceFault(number, f": there is no column {name}; known are {', '.join(COLUMNS)}")


def _from_row(row: dict[str, Any], number: int) -> TraceJob:
    known = {each.name: str(each.type) for each in fields(TraceJob) if each.name in COLUMNS}
    values: dict[str, Any] = {}
    for name, value in row.items():
        _check_column(name, number)
        try:
            values[name] = _flag(value) if known[name] == "bool" else _READERS[known[name]](value)
        except (ValueError, OverflowError):
            raise TraceFault(number, f": {name} cannot be {str(value)[:60]!r}") from None
    return _checked(values, number)


def _from_table(text: str) -> Iterator[TraceJob]:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        names = rows.fieldnames or ()
        for place, name in enumerate(names):
            _check_column(name, rows.line_num)
            if name in names[:place]:
                raise TraceFault(rows.line_num, f": there are two columns {name}")
        for row in rows:
            if None in row:
                raise TraceFault(rows.line_num, " has more fields than the first line has columns")
            if None in row.values():
                raise TraceFault(rows.line_num, " has fewer fields than the first line has columns")
            yield _from_row({name: value for name, value in row.items() if value}, rows.line_num)
    except csv.Error as error:
        raise TraceFault(rows.line_num + 1, f" is not CSV: {error}") from None


def _flag(value: Any) -> bool:
    words = {"true": True, "1": True, "y": True, "false": False, "0": False, "n": False}
    found = words.get(str(value).lower())
    if found is None:
        raise ValueError(value)
    return found


def _from_swf(line: str, number: int) -> TraceJob | None:
    """A job of the Standard Workload Format; comments and jobs that never ran are left out."""
    if line.startswith(";"):
        return None
    try:
        found = [float(word) for word in line.split()]
    except ValueError:
        raise TraceFault(number, " is not in the Standard Workload Format") from None
    if len(found) < 18:
        raise TraceFault(number, f" has {len(found)} fields, the Standard Workload Format has 18")
    slots = int(found[7] if found[7] > 0 else found[4])
    if found[3] < 0 or slots < 1:
        return None
    values: dict[str, Any] = {
        "arrives_s": found[1],
        "runs_s": found[3],
        "limit_s": int(found[8]) if found[8] > 0 else None,
        "slots": slots,
        "mem_mib": max(0.0, found[9]) / _HIDDEN_KIB_PER_MIB * slots,
        "spread": True,
        "user": f"user{int(found[11])}",
    }
    return _checked(values, number)


def _checked(values: dict[str, Any], number: int) -> TraceJob:
    missing = [name for name in ("arrives_s", "runs_s") if name not in values]
    if missing:
        raise TraceFault(number, f" has no {missing[0]}")
    job = TraceJob(**values, line=number)
    for name in ("arrives_s", "runs_s", "gpus", "mem_mib"):
        amount = getattr(job, name)
        if not 0 <= amount <= MOST_AMOUNT:  # nor nan
            raise TraceFault(number, f": {name} is {amount}, it must be a number from 0 to {MOST_AMOUNT:.0f}")
    for name in ("slots", "limit_s", "mem_s", "tasks_per_host", "priority", "save_s"):
        value = getattr(job, name)
        if value is not None and not 1 <= value <= MOST_AMOUNT:
            raise TraceFault(number, f": {name} is {str(value)[:60]}, it must be from 1 to {MOST_AMOUNT:.0f}")
    return job
