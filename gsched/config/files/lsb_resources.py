"""lsb.resources: limits on what users, projects, queues and hosts may hold together, budgets of GPU hours, and how a
resource is reserved.

Source: lsb.resources(5), sections Limit, ReservationUsage and ResourceReservation; GPU_HOURS and WINDOW are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.units import parse_mib
from gsched.config.files.host_groups import HostNames
from gsched.config.files.lsb_users import UserNames
from gsched.config.files.service_classes import amounts_of, read_pool, read_pools
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, KeyValue, is_table, read_entries, read_table
from gsched.config.grammar.tables import TableSchema, cell, read_cell, read_columns, read_key, refuse_filled
from gsched.config.grammar.unsupported import REFUSED_LIMIT
from gsched.config.grammar.values import KeyValues, integer, plain_text, real, with_text
from gsched.config.grammar.windows import amounts, parse_span, parse_windows
from gsched.config.names.grouping import NameChoice, choose
from gsched.config.parameters.requirements import GPUS_OF_LSF
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, Resource
from gsched.model.queues.application import Application
from gsched.model.queues.guarantee import GuaranteePool, ServiceClass
from gsched.model.queues.limit import GPUS, JOBS, PARTS, PER_PROCESSOR, SLOTS, Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.reservation_policy import ReservationPolicy

MAX_LIMITS = 10_000

_COUNT = integer(0, 2**31 - 2)
_AMOUNT = real(0, 1e15)
_PAIR = re.compile(r"\s*\[([^\[\],]*),([^\[\],]*)\]\s*,?\s*")
_SIZES = ("mem", "swp", "tmp")
PROCESSORS = "SLOTS_PER_PROCESSOR"
_AMOUNTS = ("SLOTS", PROCESSORS, "JOBS", "MEM", "SWP", "TMP", "NGPUS", "NGPUS_PHYSICAL", "RESOURCE", "GPU_HOURS")
_PERCENTS = {"MEM": "mem%", "SWP": "swp%", "TMP": "tmp%"}
_METHODS = {"PER_JOB": "job", "PER_TASK": "task", "PER_SLOT": "task", "PER_HOST": "host"}
_USAGE = TableSchema(required=("RESOURCE", "METHOD"), optional=("RESERVE",))
_NOT_YET = (
    "hostexport",
    "sharedresourceexport",
    "powerpolicy",
    "gpu_policies",
)

_Expand = Callable[[str], NameChoice]


class NamedMembers(msgspec.Struct, frozen=True):
    """Names that limits may refer to."""

    users: UserNames
    hosts: HostNames
    queues: Mapping[str, Queue]
    resources: Mapping[str, Resource]
    unit: str = "M"
    """The letter of LSF_UNIT_FOR_LIMITS."""
    applications: Mapping[str, Application] = msgspec.field(default_factory=dict)
    service_classes: Mapping[str, ServiceClass] = msgspec.field(default_factory=dict)
    condition: Callable[[str], str] = str
    """Reads a select expression, or raises BadRequest or RequirementError."""


class Resources(msgspec.Struct):
    """What lsb.resources says."""

    limits: list[Limit] = msgspec.field(default_factory=list)
    limit_settings: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Name of a limit -> its section as it was written."""
    methods: dict[str, str] = msgspec.field(default_factory=dict)
    """Resource -> "job", "task" or "host"; LSF's ngpus_physical is what -gpu counts."""
    pools: list[GuaranteePool] = msgspec.field(default_factory=list)
    reservation_policies: list[ReservationPolicy] = msgspec.field(default_factory=list)


def read_resources(sections: Sequence[ConfigSection], named: NamedMembers, findings: Findings) -> Resources:
    """lsb.resources' sections as one value. Every problem goes to `findings`."""
    read = Resources()
    places: dict[str, SourcePlace] = {}
    pools: list[ConfigSection] = []
    for section in sections:
        kind = section.name.casefold()
        if kind == "limit":
            for settings, at, is_row in _settings(section, findings):
                limit = _limit(settings, at, is_row, len(places), named, findings)
                _add(limit, settings.written(), at, read, places, findings)
        elif kind == "reservationusage":
            _read_usage(section, named.resources, read, findings)
        elif kind == "resourcereservation":
            _add_policy(section, named, read, findings)
        elif kind == "guaranteedresourcepool":
            pools.append(section)
        elif kind in _NOT_YET:
            refuse_filled(section, findings)
        else:
            known = "it holds Limit, ReservationUsage, ResourceReservation and GuaranteedResourcePool"
            findings.error(section.at, f"unknown section {section.name} in lsb.resources; {known}")
    amounts = amounts_of(named.resources, named.unit)

    def pool(section: ConfigSection) -> GuaranteePool | None:
        return read_pool(section, named.hosts, named.queues, named.service_classes, amounts, named.condition, findings)

    read.pools = read_pools(pools, pool, findings)
    return read


def _add_policy(section: ConfigSection, named: NamedMembers, read: Resources, findings: Findings) -> None:
    """A section ResourceReservation."""
    settings = KeyValues(read_entries(section, findings), findings, where="section ResourceReservation")
    name = settings.take("NAME", _name, "")
    if not name and settings.place("NAME") is None:
        findings.error(section.at, "the policy of reservations has no NAME")
    users_text, users = settings.take("USERS", with_text(named.users.consumers), ("", NameChoice(())))
    hosts_text, hosts = settings.take("HOSTS", with_text(named.hosts.choose), ("", NameChoice(())))
    times_text, windows = settings.take("TIME_WINDOW", with_text(parse_windows), ("", ()))
    settings.finish({}, {})
    if any(each.name == name for each in read.reservation_policies):
        findings.error(section.at, f"the policy of reservations {show(name)} is defined twice")
    elif name:
        read.reservation_policies.append(
            ReservationPolicy(
                name=name,
                users=users.names or None,
                excluded_users=users.excluded,
                hosts=hosts.names or None,
                excluded_hosts=hosts.excluded,
                windows=windows,
                users_text=users_text,
                hosts_text=hosts_text,
                times_text=times_text,
            )
        )


def _add(
    limit: Limit,
    written: tuple[str, ...],
    at: SourcePlace,
    read: Resources,
    places: dict[str, SourcePlace],
    findings: Findings,
) -> None:
    if limit.name in places:
        findings.error(at, f"limit {show(limit.name)} is defined twice (first at {places[limit.name]})")
    elif len(places) >= MAX_LIMITS:
        findings.error(at, f"more than {MAX_LIMITS} limits")
    else:
        places[limit.name] = at
        read.limits.append(limit)
        read.limit_settings[limit.name] = written


def _settings(section: ConfigSection, findings: Findings) -> Iterator[tuple[KeyValues, SourcePlace, bool]]:
    """(settings, place, whether it is a row of a table) of each limit in a section, horizontal or vertical."""
    if not is_table(section):
        yield KeyValues(read_entries(section, findings), findings, where="section Limit"), section.at, False
        return
    table = read_table(section, findings)
    for row in table.rows if table is not None else ():
        if findings.is_full(row.at.path):
            return
        words = {keyword: cell(row, keyword) for keyword in table.keywords} if table is not None else {}
        entries = [KeyValue(key, value.text, row.at) for key, value in words.items() if not value.is_empty]
        yield KeyValues(entries, findings, where="section Limit"), row.at, True


def _limit(
    settings: KeyValues, at: SourcePlace, is_row: bool, number: int, named: NamedMembers, findings: Findings
) -> Limit:
    # Rows without a name get one, as in LSF.
    name = settings.take("NAME", _name, f"NONAME{number:03d}")
    if not is_row and settings.place("NAME") is None:
        findings.error(at, "the limit has no NAME")
    consumers: dict[str, Consumers | None] = {
        "USERS": _consumers(settings, "USER", named.users.consumers, findings),
        "QUEUES": _consumers(settings, "QUEUE", lambda text: choose(text, _queue(named.queues)), findings),
        "HOSTS": _consumers(settings, "HOST", named.hosts.choose, findings),
        "PROJECTS": _consumers(settings, "PROJECT", lambda text: choose(text, _project), findings),
        "APPS": _consumers(settings, "APP", lambda text: choose(text, _profile(named.applications)), findings),
    }
    held = _amounts(settings, named, findings)
    hours = settings.take("GPU_HOURS", _AMOUNT, None)
    window = settings.take("WINDOW", parse_span, 0.0)
    settings.finish(REFUSED_LIMIT, {})
    _check_budget(settings, consumers, at, findings)
    _check_processors(settings, consumers["HOSTS"], findings)
    _check_parts(settings, held, consumers["HOSTS"], findings)
    if all(settings.place(each) is None for each in _AMOUNTS):
        findings.error(at, f"limit {show(name)} limits nothing; SLOTS, JOBS, ngpus, MEM, RESOURCE … are missing")
    return Limit(
        name=name,
        users=consumers["USERS"],
        queues=consumers["QUEUES"],
        hosts=consumers["HOSTS"],
        projects=consumers["PROJECTS"],
        applications=consumers["APPS"],
        amounts=held,
        gpu_hours=hours,
        budget_window_s=window,
        source=str(at),
    )


def _check_budget(
    settings: KeyValues, consumers: Mapping[str, Consumers | None], at: SourcePlace, findings: Findings
) -> None:
    hours, window = settings.place("GPU_HOURS"), settings.place("WINDOW")
    if hours is not None and window is None:
        findings.error(hours, "GPU_HOURS needs the time over which they count: WINDOW = 7d, say")
    if window is not None and hours is None:
        findings.error(window, "WINDOW belongs to GPU_HOURS, which is not set")
    if hours is not None and consumers["HOSTS"] is not None:
        findings.error(at, "GPU_HOURS are counted for users, projects and queues, not for hosts")
    if hours is not None and consumers["APPS"] is not None:
        findings.error(at, "GPU_HOURS are counted for users, projects and queues, not for application profiles")


def _check_processors(settings: KeyValues, hosts: Consumers | None, findings: Findings) -> None:
    """LSF passes over a section whose hosts are not told apart; here that is said."""
    at = settings.place(PROCESSORS)
    if at is not None and (hosts is None or not hosts.per):
        findings.error(at, f"{PROCESSORS} is counted host by host: PER_HOST is missing")
    if at is not None and settings.place("SLOTS") is not None:
        findings.error(at, f"SLOTS and {PROCESSORS} cannot both be set in one limit")


def _check_parts(settings: KeyValues, held: Mapping[str, object], hosts: Consumers | None, findings: Findings) -> None:
    """A part of what a host has is a number only host by host, as LSF says too."""
    for key, part in _PERCENTS.items():
        at = settings.place(key)
        if part in held and at is not None and (hosts is None or not hosts.per):
            findings.error(at, f"{key}: a part of what a host has is counted host by host: PER_HOST is missing")


def _consumers(settings: KeyValues, kind: str, expand: _Expand, findings: Findings) -> Consumers | None:
    """USERS or PER_USER, QUEUES or PER_QUEUE …"""
    together, each = f"{kind}S", f"PER_{kind}"
    found = {name: settings.take(name, expand, None) for name in (together, each)}
    at = settings.place(each)
    if at is not None and settings.place(together) is not None:
        findings.error(at, f"{together} and {each} cannot both be set in one limit")
    for name, choice in found.items():
        if choice is not None:
            return Consumers(choice.names, choice.excluded, name == each)
    return None


def _amounts(settings: KeyValues, named: NamedMembers, findings: Findings) -> dict[str, tuple[Amount, ...]]:
    size = _size(named.unit)
    found: dict[str, tuple[Amount, ...]] = {}
    for key, percent in _PERCENTS.items():
        said = settings.take(key, amounts(lambda text: _part(text) if text.endswith("%") else size(text)), None)
        for name, is_part in ((PARTS[percent], False), (percent, True)):
            chosen = tuple(each for each in said or () if isinstance(each.amount, _Percent) is is_part)
            if chosen:
                found[name] = chosen
    readers: dict[str, tuple[str, Callable[[str], float]]] = {
        "SLOTS": (SLOTS, _COUNT),
        PROCESSORS: (PER_PROCESSOR, real(0, 1e6)),
        "JOBS": (JOBS, _COUNT),
        "ngpus": (GPUS, _AMOUNT),
        GPUS_OF_LSF: (GPUS, _AMOUNT),
    }
    for key, (name, read) in readers.items():
        _put(found, name, settings.take(key, amounts(read), None), settings.place(key), findings)
    for name, amount in settings.take("RESOURCE", lambda text: _pairs(text, named), ()):
        _put(found, name, (Amount(amount),), settings.place("RESOURCE"), findings)
    return found


def _put(
    found: dict[str, tuple[Amount, ...]],
    name: str,
    value: tuple[Amount, ...] | None,
    at: SourcePlace | None,
    findings: Findings,
) -> None:
    if value is None or at is None:
        return
    if name in found:
        findings.error(at, f"{name} is limited twice")
    else:
        found[name] = value


def _pairs(text: str, named: NamedMembers) -> tuple[tuple[str, float], ...]:
    """`[name, value] ...` of RESOURCE."""
    pairs: list[tuple[str, float]] = []
    position = 0
    while position < len(text):
        found = _PAIR.match(text, position)
        if found is None:
            raise BadRequest(f"'{show(text[position:])}' is not of the form [RESOURCE, AMOUNT]")
        name = _consumable(found[1].strip(), named.resources)
        pairs.append((name, (_size(named.unit) if name in _SIZES else _AMOUNT)(found[2].strip())))
        position = found.end()
    return tuple(pairs)


def _consumable(name: str, resources: Mapping[str, Resource]) -> str:
    """The name under which a limit counts a resource. Raises BadRequest."""
    if name in (GPUS, GPUS_OF_LSF):
        return GPUS
    if name in GPU_COUNTERS:
        raise BadRequest(f"{name}: limit ngpus instead, which counts GPUs however they were asked for")
    resource = BUILTIN.get(name) or resources.get(name)
    if resource is None:
        near = suggestion(name, (*BUILTIN, *resources, GPUS_OF_LSF))
        raise BadRequest(f"resource {show(name)} is not defined in lsf.shared{near}")
    if not resource.consumable:
        raise BadRequest(f"resource {name} is not consumable: jobs cannot hold it")
    return name


def _queue(queues: Mapping[str, Queue]) -> Callable[[str], tuple[str, ...]]:
    def expand(word: str) -> tuple[str, ...]:
        if word != "all" and word not in queues:
            raise BadRequest(f"queue {show(word)} is not defined in lsb.queues{suggestion(word, queues)}")
        return (word,)

    return expand


def _profile(applications: Mapping[str, Application]) -> Callable[[str], tuple[str, ...]]:
    def expand(word: str) -> tuple[str, ...]:
        if word != "all" and word not in applications:
            near = suggestion(word, applications)
            raise BadRequest(f"application profile {show(word)} is not defined in lsb.applications{near}")
        return (word,)

    return expand


def _project(word: str) -> tuple[str, ...]:
    return (plain_text(word),)


def _name(text: str) -> str:
    if len(text.split()) != 1 or len(text) > 60:
        raise BadRequest(f"'{show(text)}' is not one word of at most 60 characters")
    return plain_text(text)


class _Percent(float):
    """An amount that is so many percent of what a host has."""


def _part(text: str) -> float:
    return _Percent(real(0, 100)(text.removesuffix("%").rstrip()))


def _size(unit: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        if text.endswith("%"):
            what = "a part of what a host has is written MEM = 50%, SWP or TMP, with PER_HOST"
            raise BadRequest(f"'{show(text)}': {what}")
        return parse_mib(text, unit)

    return read


def _read_usage(section: ConfigSection, resources: Mapping[str, Resource], read: Resources, findings: Findings) -> None:
    for row in read_columns(section, _USAGE, findings):
        name = read_key(row, "RESOURCE", lambda text: _reserved(text, resources), findings)
        method = read_cell(row, "METHOD", _method, "", findings)
        if cell(row, "RESERVE").text.casefold() in ("n", "no"):
            findings.error(row.at, "RESERVE: N is not supported yet: what the first pending job needs is kept for it")
        elif not cell(row, "RESERVE").is_empty and cell(row, "RESERVE").text.casefold() not in ("y", "yes"):
            findings.error(row.at, f"RESERVE: '{show(cell(row, 'RESERVE').text)}' is neither Y nor N")
        if cell(row, "METHOD").is_empty:
            findings.error(row.at, "METHOD: PER_JOB, PER_TASK or PER_HOST is missing")
        elif name == GPUS_OF_LSF and method == "job":
            findings.error(row.at, f"METHOD: {GPUS_OF_LSF} is counted PER_HOST or PER_TASK")
        elif name is not None and name in read.methods:
            findings.error(row.at, f"RESOURCE: {name} is given twice")
        elif name is not None and method:
            read.methods[name] = method


def _reserved(text: str, resources: Mapping[str, Resource]) -> str:
    """A resource that a job can reserve; what -gpu counts keeps LSF's name, which is no resource of hosts."""
    return text if text == GPUS_OF_LSF or text in GPU_COUNTERS else _consumable(text, resources)


def _method(text: str) -> str:
    found = _METHODS.get(text.upper())
    if found is None:
        raise BadRequest(f"'{show(text)}' is none of PER_JOB, PER_TASK and PER_HOST")
    return found
