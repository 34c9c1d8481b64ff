"""What a job could ask for otherwise: fewer GPUs, slots and amounts, another queue, no -m, a shorter run limit.

Each way is a list of steps from the least change to the most. Whether one lets the job start is not known here: that is
tried (`change_search`). A change is made of the job's own spec, as gmod would make it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from gsched.base.errors import RequirementError
from gsched.base.ids import show_job
from gsched.model.jobs.job import JobSpec
from gsched.model.views.explanation import StartChange, StartSuggestion
from gsched.resreq.ast import Requirement, Reservation
from gsched.resreq.parsing.gpu import parse_gpu, print_size
from gsched.resreq.parsing.printer import print_requirement
from gsched.resreq.parsing.syntax import parse_any

MOST_QUEUES = 8
"""Other queues that are tried, those of the highest priority."""
MOST_STEPS = 64
"""Steps of one way; of longer ones some are left out."""
_SIZES = frozenset({"mem", "swp", "tmp"})
"""Resources whose amounts are sizes in MiB."""
_MINUTE_S = 60
_CANCEL = {"hosts": "-mn", "exclusive": "-xn", "reservation": "-Un", "res_req": "-Rn"}
"""What of gmod takes the option back."""


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change. `loss`: how much the user gives up by it, 0 nothing to 1 all; it orders suggestions."""

    what: str
    value: str
    """As people read it; empty: what was asked for is left out."""
    loss: float
    make: Callable[[JobSpec], Mapping[str, Any]]
    """Spec -> the fields that change, with their values."""


@dataclass(frozen=True, slots=True)
class ChangeWay:
    """One thing that could be asked for otherwise."""

    what: str
    steps: tuple[ChangeStep, ...]


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A spec with some changes made."""

    spec: JobSpec
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What is not as in the job's own spec."""

    @classmethod
    def of(cls, spec: JobSpec, steps: Iterable[ChangeStep]) -> ChangedJob:
        """The job with these changes, made one after the other."""
        fields: dict[str, Any] = {}
        for step in steps:
            made = dict(step.make(spec))
            spec = msgspec.structs.replace(spec, **made)
            fields |= made
        return cls(spec, fields)


def suggestion(job_id: int, own: JobSpec, steps: Iterable[ChangeStep], hosts: tuple[str, ...]) -> StartSuggestion:
    """The changes as they are told; `job_id` 0: the job has not been submitted."""
    chosen = list(steps)
    options = " ".join(_options(ChangedJob.of(own, chosen), is_submitted=job_id > 0))
    changes = tuple(StartChange(what=each.what, value=each.value) for each in chosen)
    command = f"gmod {options} {_quoted_job(job_id)}" if job_id else options
    return StartSuggestion(changes=changes, options=options, command=command if job_id else "", hosts=hosts)


def _quoted_job(job_id: int) -> str:
    shown = show_job(job_id)
    return f"'{shown}'" if "[" in shown else shown


def _options(changed: ChangedJob, *, is_submitted: bool) -> Iterator[str]:
    """Options of gmod, or of gsub where those that take something back are left out."""
    spec, fields = changed.spec, changed.fields
    for name, option in (("gpu_req", "-gpu"), ("res_req", "-R")):
        if fields.get(name):
            yield f"{option} {_quoted(fields[name])}"
    if "slots" in fields:
        yield f"-n {spec.slots}{f',{spec.max_slots}' if spec.max_slots > spec.slots else ''}"
    if "queue" in fields:
        yield f"-q {spec.queue}"
    if "run_limit_s" in fields:
        yield f"-W {shown_minutes(spec.run_limit_s or 0)}"
    if is_submitted:
        yield from (_CANCEL[name] for name in _CANCEL if name in fields and not fields[name])


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text or "$" in text else f'"{text}"'


def shown_minutes(seconds: float) -> str:
    """`2:00`, as -W takes it."""
    minutes = int(seconds // _MINUTE_S)
    return f"{minutes // 60}:{minutes % 60:02d}"


# -- ways -------------------------------------------------------------------------------------------------------------


def ways_of(spec: JobSpec, queues: Iterable[str], gaps_s: Iterable[float]) -> list[ChangeWay]:
    """All ways that the job has. `queues`: others that take it; `gaps_s`: how long room is left before something that
    is planned begins.
    """
    found = [*_left_out(spec), *_gpus(spec), *_requirement(spec)]
    if spec.slots > 1:
        found.append(ChangeWay("slots", tuple(_slots(spec))))
    found += [
        ChangeWay("queue", (ChangeStep("queue", name, 0.1 + 0.001 * place, _setting(queue=name)),))
        for place, name in enumerate(list(queues)[:MOST_QUEUES])
    ]
    limits = tuple(_run_limits(spec, gaps_s))
    return [way for way in (*found, ChangeWay("run_limit", limits)) if way.steps]


def _setting(**values: Any) -> Callable[[JobSpec], Mapping[str, Any]]:
    return lambda spec: values


def _left_out(spec: JobSpec) -> Iterator[ChangeWay]:
    if spec.hosts:
        without = _setting(hosts=(), host_levels=(), other_hosts=False, first_hosts=())
        yield ChangeWay("hosts", (ChangeStep("hosts", "", 0.05, without),))
    if spec.exclusive:
        yield ChangeWay("exclusive", (ChangeStep("exclusive", "", 0.15, _setting(exclusive=False)),))
    if spec.reservation:
        yield ChangeWay("reservation", (ChangeStep("reservation", "", 0.2, _setting(reservation="")),))


def _slots(spec: JobSpec) -> Iterator[ChangeStep]:
    for number in thinned(range(spec.slots - 1, 0, -1)):
        most = spec.max_slots if spec.max_slots > number else 0
        yield ChangeStep("slots", str(number), 0.5 + _part(number, spec.slots), _setting(slots=number, max_slots=most))


def _part(new: float, old: float) -> float:
    return 0.4 * (1 - new / old)


def thinned(values: Iterable[int]) -> list[int]:
    """At most MOST_STEPS of them, the first and the last among them."""
    found = list(values)
    if len(found) <= MOST_STEPS:
        return found
    places = {round(place * (len(found) - 1) / (MOST_STEPS - 1)) for place in range(MOST_STEPS)}
    return [found[place] for place in sorted(places)]


def _gpus(spec: JobSpec) -> Iterator[ChangeWay]:
    """Of -gpu: fewer GPUs, less memory of each, any model, not alone."""
    text = spec.gpu_req or spec.combined_gpu_req
    try:
        asked = parse_gpu(text) if text else None
    except RequirementError:
        return
    if asked is None:
        return
    if asked.num > 1 and not asked.most:
        per = "/task" if asked.per == "task" else ""
        yield ChangeWay(
            "gpus",
            tuple(
                _of_gpu("gpus", "num", f"{number}{per}", str(number), 0.6 + _part(number, asked.num))
                for number in thinned(range(asked.num - 1, 0, -1))
            ),
        )
    if asked.gmem_mib:
        steps = (
            _of_gpu("gmem", "gmem", print_size(size), print_size(size), 0.2 + _part(size, asked.gmem_mib))
            for size in lower_amounts(asked.gmem_mib)
        )
        yield ChangeWay("gmem", tuple(steps))
    if asked.gmodel:
        yield ChangeWay("gmodel", (_of_gpu("gmodel", "gmodel", None, "", 0.3),))
    if asked.mode == "exclusive_process" or asked.j_exclusive:
        yield ChangeWay("alone", (ChangeStep("alone", "", 0.35, _shared),))


def _of_gpu(what: str, key: str, value: str | None, shown: str, loss: float) -> ChangeStep:
    return ChangeStep(what, shown, loss, lambda spec: {"gpu_req": with_gpu_option(_gpu_text(spec), {key: value})})


def _shared(spec: JobSpec) -> Mapping[str, Any]:
    return {"gpu_req": with_gpu_option(_gpu_text(spec), {"mode": "shared", "j_exclusive": "no"})}


def _gpu_text(spec: JobSpec) -> str:
    return spec.gpu_req or spec.combined_gpu_req


def with_gpu_option(text: str, values: Mapping[str, str | None]) -> str:
    """The -gpu text with other values of these options; None leaves one out."""
    kept = [option for option in text.split(":") if option.partition("=")[0].strip() not in values]
    return ":".join([*kept, *(f"{key}={value}" for key, value in values.items() if value is not None)]) or "num=1"


def lower_amounts(amount: float) -> list[float]:
    """Round amounts below this one, from the next to the smallest that still means something."""
    if amount <= MOST_STEPS and float(amount).is_integer():
        return [float(each) for each in range(int(amount) - 1, 0, -1)]
    unit = 1024.0 if amount >= 8192 else 128.0 if amount >= 1024 else amount / 16
    most = math.ceil(amount / unit) - 1
    return [each * unit for each in thinned(range(most, 0, -1))]


def _requirement(spec: JobSpec) -> Iterator[ChangeWay]:
    """Of -R: less of what it reserves, or without select[]. Compound and alternative requirements stay."""
    try:
        asked = parse_any(spec.res_req) if spec.res_req else None
    except RequirementError:
        return
    if not isinstance(asked, Requirement) or asked.rusage_alternatives:
        return
    if asked.select is not None:
        yield ChangeWay("select", (ChangeStep("select", "", 0.3, _without_select),))
    for place, item in enumerate(asked.rusage):
        if item.phases or item.amount <= 0:
            continue
        what = f"rusage[{item.name}]"
        yield ChangeWay(
            what,
            tuple(
                ChangeStep(
                    what,
                    _amount_text(item.name, amount),
                    (0.6 if item.name.startswith("ngpus") else 0.2) + _part(amount, item.amount),
                    _with_amount(place, amount),
                )
                for amount in lower_amounts(item.amount)
            ),
        )


def _without_select(spec: JobSpec) -> Mapping[str, Any]:
    return _edited(spec, lambda asked: replace(asked, select=None))


def _with_amount(place: int, amount: float) -> Callable[[JobSpec], Mapping[str, Any]]:
    def less(item: Reservation) -> Reservation:
        return replace(item, amount=amount, text=_amount_text(item.name, amount))

    def edit(asked: Requirement) -> Requirement:
        return replace(asked, rusage=tuple(less(item) if at == place else item for at, item in enumerate(asked.rusage)))

    return lambda spec: _edited(spec, edit)


def _edited(spec: JobSpec, edit: Callable[[Requirement], Requirement]) -> Mapping[str, Any]:
    asked = parse_any(spec.res_req)
    assert isinstance(asked, Requirement)
    return {"res_req": print_requirement(edit(asked))}


def _amount_text(name: str, amount: float) -> str:
    return print_size(amount) if name in _SIZES else f"{amount:.10g}"


def _run_limits(spec: JobSpec, gaps_s: Iterable[float]) -> Iterator[ChangeStep]:
    """Whole minutes that end before something planned begins, the longest first."""
    old = spec.run_limit_s
    minutes = {int(gap // _MINUTE_S) for gap in gaps_s}
    for value in thinned(sorted((each for each in minutes if each >= 1), reverse=True)):
        limit = value * _MINUTE_S
        if old is None or limit < old:
            loss = 0.2 + (0.5 if old is None else _part(limit, old))
            yield ChangeStep("run_limit", shown_minutes(limit), loss, _setting(run_limit_s=limit))
