"""lsb.serviceclasses, and the section GuaranteedResourcePool of lsb.resources: who is guaranteed what.

Goals of time (DEADLINE, VELOCITY, THROUGHPUT) are refused by name; what contradicts itself whatever happens is told.
Source: lsb.serviceclasses(5), lsb.resources(5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.base.units import parse_mib
from gsched.config.files.host_groups import HostNames
from gsched.config.files.lsb_users import UserNames
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, read_entries
from gsched.config.grammar.unsupported import REFUSED_SERVICE_CLASS, WITHOUT_EFFECT_POOL, WITHOUT_EFFECT_SERVICE_CLASS
from gsched.config.grammar.values import KeyValues, group_name, integer, number, plain_text, real, yes_or_no
from gsched.config.parameters.requirements import GPUS_OF_LSF
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, Resource
from gsched.model.queues.guarantee import WHOLE_HOSTS, GuaranteePool, LoanPolicy, Portion, ServiceClass
from gsched.model.queues.limit import GPUS, SLOTS, Consumers

_PART = re.compile(r"\s*([A-Za-z_]+)\s*\[([^\[\]]*)\]\s*")
_GOAL = re.compile(r"\s*\[?\s*([A-Za-z_]+)\s*([^\]\[]*)\]?\s*")
_TIMED = {
    "VELOCITY": "a pool of lsb.resources keeps so many slots free for the class",
    "THROUGHPUT": "a pool of lsb.resources keeps slots free for the class",
    "DEADLINE": "the run window and the priority of a queue bring jobs to an end in time",
}
_KINDS = ("QUEUES", "USERS", "FAIRSHARE_GROUPS", "APPS", "PROJECTS")


def read_service_classes(
    sections: Sequence[ConfigSection],
    users: UserNames,
    queues: Iterable[str],
    applications: Iterable[str],
    findings: Findings,
) -> dict[str, ServiceClass]:
    """All service classes by name in file order. Every problem goes to `findings`."""
    found: dict[str, ServiceClass] = {}
    known = {"QUEUES": ("queue", tuple(queues)), "APPS": ("application profile", tuple(applications))}
    for section in sections:
        if findings.is_full(section.at.path):
            break
        if section.name.casefold() != "serviceclass":
            findings.error(section.at, f"unknown section {section.name} in lsb.serviceclasses; it holds ServiceClass")
            continue
        read = _read(section, users, known, findings)
        if not read.name:
            continue
        if read.name in found or read.name in users.groups:
            first = f"service class, first at {found[read.name].source}" if read.name in found else "user group"
            findings.error(section.at, f"NAME: {read.name} is the name of a {first}")
            continue
        found[read.name] = read
    return found


def _read(
    section: ConfigSection, users: UserNames, known: Mapping[str, tuple[str, tuple[str, ...]]], findings: Findings
) -> ServiceClass:
    """The class; its name is empty when it has none that can be used (which is reported)."""
    settings = KeyValues(read_entries(section, findings), findings, where="section ServiceClass")
    name = settings.take("NAME", group_name, "")
    if settings.place("NAME") is None:
        findings.error(section.at, "the service class has no NAME")
    settings.take("GOALS", _goal, None)
    if settings.place("GOALS") is None:
        findings.error(section.at, "the service class has no GOALS: [GUARANTEE] belongs here")
    access = settings.take("ACCESS_CONTROL", lambda text: _access(text, users, known), {})
    group = settings.take("USER_GROUP", _consumers(users), None)
    if group is not None and access.get("USERS") is not None:
        findings.error(section.at, "USER_GROUP and USERS of ACCESS_CONTROL say the same: leave one of them out")
    found = ServiceClass(
        name=name,
        description=settings.take("DESCRIPTION", plain_text, ""),
        queues=_words(access.get("QUEUES")),
        users=access.get("USERS") or group,
        share_groups=_words(access.get("FAIRSHARE_GROUPS")),
        applications=_words(access.get("APPS")),
        projects=_words(access.get("PROJECTS")),
        access=settings.take("ACCESS_CONTROL", lambda text: " ".join(text.split()), ""),
        auto_attach=settings.take("AUTO_ATTACH", yes_or_no, False),
        source=str(section.at),
    )
    settings.finish(REFUSED_SERVICE_CLASS, WITHOUT_EFFECT_SERVICE_CLASS)
    return found


def _words(consumers: Consumers | None) -> tuple[str, ...] | None:
    return None if consumers is None else consumers.names


def _consumers(users: UserNames) -> Callable[[str], Consumers]:
    def read(text: str) -> Consumers:
        chosen = users.consumers(text)
        return Consumers(chosen.names, chosen.excluded)

    return read


def _goal(text: str) -> str:
    found = _GOAL.fullmatch(text)
    word = found[1].upper() if found is not None else ""
    if word in _TIMED:
        raise BadRequest(f"a goal of {word} is not supported yet: {_TIMED[word]}")
    if found is None or word != "GUARANTEE" or found[2].strip():
        raise BadRequest(f"'{show(text)}' is not [GUARANTEE]")
    return word


def _access(text: str, users: UserNames, known: Mapping[str, tuple[str, tuple[str, ...]]]) -> dict[str, Consumers]:
    """`QUEUES[q1 q2] USERS[ann physics] ...`. Raises BadRequest."""
    found: dict[str, Consumers] = {}
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise BadRequest(f"'{show(text[position:])}' is not of the form {'[...], '.join(_KINDS)}[...]")
        kind, names, position = part[1].upper(), part[2].split(), part.end()
        if kind == "LIC_PROJECTS":
            raise BadRequest("LIC_PROJECTS: there is no licence scheduler")
        if kind not in _KINDS:
            raise BadRequest(f"unknown kind {show(kind)}{suggestion(kind, _KINDS)}")
        if kind in found:
            raise BadRequest(f"{kind} is given twice")
        if not names:
            raise BadRequest(f"{kind}[] names nobody")
        found[kind] = _named(kind, part[2], names, users, known)
    return found


def _named(
    kind: str, text: str, names: list[str], users: UserNames, known: Mapping[str, tuple[str, tuple[str, ...]]]
) -> Consumers:
    if kind == "USERS":
        return _consumers(users)(text)
    if kind == "FAIRSHARE_GROUPS":
        for name in names:
            if name not in users.groups:
                raise BadRequest(f"user group {show(name)} is not defined in lsb.users{suggestion(name, users.groups)}")
    what, there = known.get(kind, ("", ()))
    for name in names if what else ():
        if name not in there:
            raise BadRequest(f"{what} {show(name)} is not defined{suggestion(name, there)}")
    return Consumers(tuple(dict.fromkeys(names)))


# -- guaranteed pools -----------------------------------------------------------------------------------------------

MAX_POOLS = 1000
_SIZES = ("mem", "swp", "tmp")
_SHARE = re.compile(r"\s*\[\s*([^\s,\[\]]+)\s*[,\s]\s*([^\s,\[\]]+)\s*\]\s*,?\s*")
_POLICY = re.compile(r"\s*([A-Za-z_]+)\s*(?:\[([^\[\]]*)\])?\s*")
_TYPE = re.compile(r"(slots|hosts|package|resource)\s*(?:\[(.*)\])?", re.IGNORECASE)
_WRITTEN = ("DISTRIBUTION", "HOSTS", "RES_SELECT", "LOAN_POLICIES", "ADMINISTRATORS")

AmountReader = Callable[[str, str], tuple[str, float]]
"""(resource, text of its amount) -> its canonical name, the amount. Raises BadRequest."""


def amounts_of(resources: Mapping[str, Resource], unit: str) -> AmountReader:
    """How amounts of a package are read; sizes without a unit are in `unit`, a letter."""

    def read(name: str, text: str) -> tuple[str, float]:
        canonical = _countable(name, resources)
        return canonical, parse_mib(text, unit) if canonical in _SIZES else real(0, 1e15)(text)

    return read


def _countable(name: str, resources: Mapping[str, Resource]) -> str:
    if name in (GPUS, GPUS_OF_LSF):
        return GPUS
    if name == SLOTS:
        return SLOTS
    if name in GPU_COUNTERS:
        raise BadRequest(f"{name}: guarantee {GPUS} instead, which counts GPUs however they are asked for")
    resource = BUILTIN.get(name) or resources.get(name)
    if resource is None:
        near = suggestion(name, (SLOTS, GPUS, GPUS_OF_LSF, *BUILTIN, *resources))
        raise BadRequest(f"resource {show(name)} is not defined in lsf.shared{near}")
    if not resource.consumable:
        raise BadRequest(f"resource {name} is not consumable: jobs cannot hold it")
    return name


def read_pool(
    section: ConfigSection,
    hosts: HostNames,
    queues: Mapping[str, object],
    classes: Mapping[str, object],
    amounts: AmountReader,
    condition: Callable[[str], str],
    findings: Findings,
) -> GuaranteePool | None:
    """One section; None (reported) when it cannot be used. `classes`: the service classes of lsb.serviceclasses."""
    entries = read_entries(section, findings)
    settings = KeyValues(entries, findings, where="section GuaranteedResourcePool")
    name = settings.take("NAME", group_name, "")
    kind, unit = settings.take("TYPE", lambda text: _type(text, amounts), ("", {SLOTS: 1.0}))
    chosen = settings.take("HOSTS", hosts.choose, None)
    shares = settings.take("DISTRIBUTION", lambda text: _distribution(text, classes), {})
    loans = settings.take("LOAN_POLICIES", lambda text: _loans(text, queues), None)
    written = {entry.key.upper(): " ".join(entry.value.split()) for entry in entries}
    pool = GuaranteePool(
        name=name,
        kind=kind,
        unit=unit,
        hosts=Consumers(chosen.names, chosen.excluded) if chosen is not None else Consumers(),
        select=settings.take("RES_SELECT", condition, ""),
        shares=shares,
        loans=loans,
        slots_per_host=settings.take("SLOTS_PER_HOST", integer(1, 2**31 - 2), None),
        description=settings.take("DESCRIPTION", plain_text, ""),
        written={key: written[key] for key in _WRITTEN if key in written},
        source=str(section.at),
    )
    settings.finish({}, WITHOUT_EFFECT_POOL)
    for key in ("NAME", "TYPE", "DISTRIBUTION"):
        if settings.place(key) is None:
            findings.error(section.at, f"the guaranteed pool {show(name) + ' ' if name else ''}has no {key}")
    _check(pool, settings, hosts.hosts, findings)
    return pool if name and kind and shares else None


def _check(pool: GuaranteePool, settings: KeyValues, hosts: Mapping[str, HostConfig], findings: Findings) -> None:
    """More than there can be is told here; each class gets its own as far as it goes."""
    at = settings.place("DISTRIBUTION") or settings.place("NAME")
    if at is None:
        return
    percent = sum(each.amount for each in pool.shares.values() if each.is_percent)
    whole = sum(each.amount for each in pool.shares.values() if not each.is_percent)
    most = _most_units(pool, hosts)
    if percent > 100:
        findings.note(at, f"DISTRIBUTION: {percent:.10g}% of the pool are guaranteed: owners get it as it becomes free")
    elif most is not None and whole + percent / 100 * most > most:
        said = (
            f"{whole + percent / 100 * most:.10g} {pool.noun} are guaranteed and the pool has {most:.10g} at the most"
        )
        findings.note(at, f"DISTRIBUTION: {said}: owners get it as it becomes free")
    per_host = settings.place("SLOTS_PER_HOST")
    if per_host is not None and (pool.kind or SLOTS) != SLOTS:
        findings.error(per_host, f"SLOTS_PER_HOST belongs to TYPE = slots, not to {pool.kind}")


def _most_units(pool: GuaranteePool, hosts: Mapping[str, HostConfig]) -> float | None:
    """Units that the pool can have at the most; None when nobody knows before hosts report."""
    members = [host for name, host in hosts.items() if host.server and pool.hosts.has(name)]
    if pool.is_of_hosts:
        return float(len(members))
    if pool.unit == {SLOTS: 1.0} and all(host.max_slots is not None and host.max_slots >= 0 for host in members):
        return float(sum(host.max_slots or 0 for host in members))
    return None


def _type(text: str, amounts: AmountReader) -> tuple[str, dict[str, float]]:
    """TYPE, and what a unit is made of (nothing: a whole host)."""
    found = _TYPE.fullmatch(text)
    kind, inside = (found[1].lower(), found[2]) if found is not None else ("", None)
    if kind in (SLOTS, WHOLE_HOSTS) and inside is None:
        return kind, {SLOTS: 1.0} if kind == SLOTS else {}
    if kind == "resource" and inside:
        name, _ = amounts(inside.strip(), "1")
        return f"resource[{inside.strip()}]", {name: 1.0}
    if kind != "package" or not inside:
        what = "none of slots, hosts, package[slots=N:mem=SIZE...] and resource[NAME]"
        raise BadRequest(f"'{show(text)}' is {what}")
    unit: dict[str, float] = {}
    for part in inside.split(":"):
        name, equals, amount = (each.strip() for each in part.partition("="))
        if not equals:
            raise BadRequest(f"'{show(part)}' is not of the form RESOURCE=AMOUNT")
        canonical, value = amounts(name, amount)
        if canonical in unit:
            raise BadRequest(f"{canonical} is given twice")
        if value <= 0:
            raise BadRequest(f"{name}={show(amount)}: a package has some of each of its resources")
        unit[canonical] = value
    return f"package[{''.join(inside.split())}]", unit


def _distribution(text: str, classes: Mapping[str, object]) -> dict[str, Portion]:
    """`([gold, 25%] [silver, 10])`, with or without the parentheses."""
    inside = text.strip()
    if inside.startswith("(") and inside.endswith(")"):
        inside = inside[1:-1].strip()
    shares: dict[str, Portion] = {}
    position = 0
    while position < len(inside):
        found = _SHARE.match(inside, position)
        if found is None:
            raise BadRequest(f"'{show(inside[position:])}' is not of the form [SERVICE_CLASS, AMOUNT[%]]")
        name, position = found[1], found.end()
        if name not in classes:
            near = suggestion(name, classes)
            raise BadRequest(f"service class {show(name)} is not defined in lsb.serviceclasses{near}")
        if name in shares:
            raise BadRequest(f"service class {name} is given twice")
        shares[name] = _portion(found[2])
    if not shares:
        raise BadRequest("it guarantees nothing: [SERVICE_CLASS, AMOUNT[%]] is missing")
    return shares


def _portion(text: str) -> Portion:
    is_percent = text.endswith("%")
    amount = number(text.removesuffix("%").strip())
    if amount < 0 or (is_percent and amount > 100):
        raise BadRequest(f"'{show(text)}' is no amount, nor a part of up to 100%")
    return Portion(amount, is_percent)


def _loans(text: str, queues: Mapping[str, object]) -> LoanPolicy:
    """`QUEUES[short night] DURATION[60] CLOSE_ON_DEMAND RETAIN[10%] IDLE_BUFFER[5]`, in any order."""
    said: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        found = _POLICY.match(text, position)
        if found is None or found.end() == position:
            raise BadRequest(f"'{show(text[position:])}' is no policy of loans")
        word, position = found[1].upper(), found.end()
        if word in said:
            raise BadRequest(f"{word} is given twice")
        said[word] = found[2]
    known = ("QUEUES", "DURATION", "CLOSE_ON_DEMAND", "RETAIN", "IDLE_BUFFER")
    for word, value in said.items():
        if word not in known:
            raise BadRequest(f"unknown policy {show(word)}{suggestion(word, known)}")
        if (word == "CLOSE_ON_DEMAND") is not (value is None):
            raise BadRequest(
                f"{word} stands {'without' if value else 'with'} brackets: {word}{'' if value else '[...]'}"
            )
    names, at_once, is_all = _queues(said.get("QUEUES"), queues)
    duration, retain, buffer = said.get("DURATION"), said.get("RETAIN"), said.get("IDLE_BUFFER")
    return LoanPolicy(
        queues=names,
        all_queues=is_all,
        at_once=at_once,
        duration_s=60.0 * integer(1, 10**7)(duration.strip()) if duration is not None else None,
        close_on_demand="CLOSE_ON_DEMAND" in said,
        retain=_portion(retain.strip()) if retain is not None else None,
        idle_buffer=_portion(buffer.strip()) if buffer is not None else None,
    )


def _queues(text: str | None, queues: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """(names, those with `!` before them, whether all queues are meant) of QUEUES[...]."""
    if text is None:
        raise BadRequest("QUEUES[QUEUE ...] is missing: it says whose jobs may borrow; QUEUES[all] lends to all")
    words = text.split()
    names = dict.fromkeys(word.removeprefix("!") for word in words)
    if not names:
        raise BadRequest("QUEUES[] names no queue")
    for name in names:
        if name != "all" and name not in queues:
            raise BadRequest(f"queue {show(name)} is not defined in lsb.queues{suggestion(name, queues)}")
    is_all = "all" in names
    at_once = tuple(word[1:] for word in words if word.startswith("!"))
    if "all" in at_once:
        at_once = tuple(queues)
    return tuple(name for name in names if name != "all"), at_once, is_all


def read_pools(
    sections: Sequence[ConfigSection],
    read: Callable[[ConfigSection], GuaranteePool | None],
    findings: Findings,
) -> list[GuaranteePool]:
    """All pools in the order of the file."""
    places: dict[str, SourcePlace] = {}
    pools: list[GuaranteePool] = []
    for section in sections:
        if findings.is_full(section.at.path):
            break
        pool = read(section)
        if pool is None:
            continue
        if pool.name in places:
            findings.error(section.at, f"pool {pool.name} is defined twice (first at {places[pool.name]})")
        elif len(pools) >= MAX_POOLS:
            findings.error(section.at, f"more than {MAX_POOLS} guaranteed pools")
        else:
            places[pool.name] = section.at
            pools.append(pool)
    return pools
