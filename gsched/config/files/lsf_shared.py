"""lsf.shared: the cluster's name, host types and models, and the resources that the site defines.

Source: lsf.shared(5). Nothing here knows hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import ConfigSection, TableRow
from gsched.config.grammar.tables import TableSchema, cell, read_cell, read_columns, read_key
from gsched.config.grammar.values import cluster_name, integer, number, yes_or_no
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, Resource, ResourceType, gpu_counter_claims
from gsched.resreq.parsing.names import ALIASES

_LSF_RESERVED = """
    cpu cpuf io logins ls idle maxmem maxswp maxtmp type model status it mem ncpus nprocs ncores nthreads ndisks pg
    r15m r15s r1m swap swp tmp ut local dchost jobvm
"""
_RESERVED = frozenset(_LSF_RESERVED.split()) | frozenset(BUILTIN) | frozenset(ALIASES)
_FORBIDDEN = set(":.()[+-*/!&|<>@=,]#\"'~$")
_TYPES = {kind.value.casefold(): kind for kind in ResourceType}

_CLUSTER = TableSchema(required=("ClusterName",), refused={"Servers": "the master is the first server of lsf.cluster"})
_HOST_TYPE = TableSchema(required=("TYPENAME",))
_HOST_MODEL = TableSchema(required=("MODELNAME", "CPUFACTOR"), optional=("ARCHITECTURE",))
_RESOURCE = TableSchema(
    required=("RESOURCENAME",),
    optional=("TYPE", "INTERVAL", "INCREASING", "CONSUMABLE", "RELEASE", "DESCRIPTION"),
)


class SharedFile(msgspec.Struct):
    """What lsf.shared says. `models` maps a host model to its CPU factor; `types` holds names in file order, and where
    each is defined."""

    cluster: str | None = None
    cluster_at: SourcePlace | None = None
    types: dict[str, SourcePlace] = msgspec.field(default_factory=dict)
    models: dict[str, float] = msgspec.field(default_factory=dict)
    model_places: dict[str, SourcePlace] = msgspec.field(default_factory=dict)
    resources: dict[str, Resource] = msgspec.field(default_factory=dict)
    places: dict[str, SourcePlace] = msgspec.field(default_factory=dict)
    """Where each resource is defined."""


def read_shared(sections: Sequence[ConfigSection], findings: Findings) -> SharedFile:
    """lsf.shared's sections as one value. Every problem goes to `findings`."""
    shared = SharedFile()
    readers = {
        "cluster": _read_cluster,
        "hosttype": _read_types,
        "hostmodel": _read_models,
        "resource": _read_resources,
    }
    for section in sections:
        reader = readers.get(section.name.casefold())
        if reader is None:
            findings.error(
                section.at,
                f"unknown section {section.name} in lsf.shared; it holds Cluster, HostType, HostModel and Resource",
            )
        else:
            reader(section, shared, findings)
    return shared


def _read_cluster(section: ConfigSection, shared: SharedFile, findings: Findings) -> None:
    for row in read_columns(section, _CLUSTER, findings):
        name = read_key(row, "ClusterName", cluster_name, findings)
        if name is None:
            continue
        if shared.cluster == name and shared.cluster_at is not None:
            _note_again(row, f"cluster {name}", shared.cluster_at, findings)
        elif shared.cluster is not None:
            findings.error(
                row.at, f"a second cluster ({name}): several clusters in one lsf.shared are not supported yet"
            )
        else:
            shared.cluster, shared.cluster_at = name, row.at


def _read_types(section: ConfigSection, shared: SharedFile, findings: Findings) -> None:
    for row in read_columns(section, _HOST_TYPE, findings):
        name = read_key(row, "TYPENAME", _type_or_model, findings)
        if name is not None and name in shared.types:
            _note_again(row, f"host type {name}", shared.types[name], findings)
        elif name is not None:
            shared.types[name] = row.at


def _read_models(section: ConfigSection, shared: SharedFile, findings: Findings) -> None:
    rows = list(read_columns(section, _HOST_MODEL, findings))
    places = shared.model_places
    for row in rows:
        name = read_key(row, "MODELNAME", _type_or_model, findings)
        factor = read_cell(row, "CPUFACTOR", _cpu_factor, 1.0, findings)
        if name is None:
            continue
        if name not in shared.models:
            shared.models[name], places[name] = factor, row.at
        elif shared.models[name] == factor:
            _note_again(row, f"host model {name}", places[name], findings)
        else:
            findings.error(
                row.at,
                f"host model {name} is defined twice, and not alike: CPUFACTOR is {factor:g} here and "
                f"{shared.models[name]:g} at {places[name]}",
            )
    if any(not cell(row, "ARCHITECTURE").is_empty for row in rows):
        findings.note(
            section.at,
            "ARCHITECTURE has no effect: a host whose model is ! has CPU factor 1, name its model in lsf.cluster",
        )


def _read_resources(section: ConfigSection, shared: SharedFile, findings: Findings) -> None:
    for row in read_columns(section, _RESOURCE, findings):
        name = read_key(row, "RESOURCENAME", _resource_name, findings)
        resource = _resource(row, name or "?", findings)
        if name is None:
            continue
        if name in shared.resources:
            _compare(row, shared.resources[name], resource, shared.places[name], findings)
            continue
        shared.resources[name] = resource
        shared.places[name] = row.at
        if name in GPU_COUNTERS:
            _check_counter(row, resource, findings)


def _note_again(row: TableRow, what: str, first: SourcePlace, findings: Findings) -> None:
    findings.note(row.at, f"{what} is defined again, as at {first}: this changes nothing")


_COMPARED: dict[str, Callable[[Resource], str]] = {
    "TYPE": lambda resource: resource.type.value,
    "INTERVAL": lambda resource: "()" if resource.interval_s is None else str(resource.interval_s),
    "INCREASING": lambda resource: "Y" if resource.increasing else "N",
    "CONSUMABLE": lambda resource: "Y" if resource.consumable else "N",
    "RELEASE": lambda resource: "Y" if resource.release else "N",
}


def _compare(row: TableRow, first: Resource, second: Resource, at: SourcePlace, findings: Findings) -> None:
    """Stanzas of LSF's manuals are pasted below those that are there already: what says the same does no harm."""
    for column, shown in _COMPARED.items():
        if shown(first) != shown(second):
            findings.error(
                row.at,
                f"resource {first.name} is defined twice, and not alike: {column} is {shown(second)} here and "
                f"{shown(first)} at {at}",
            )
            return
    _note_again(row, f"resource {first.name}", at, findings)


def _resource(row: TableRow, name: str, findings: Findings) -> Resource:
    type_ = read_cell(row, "TYPE", _type, None, findings)
    if type_ is None:  # a wrong one has been reported; taken for Numeric, it brings no further complaints
        type_ = ResourceType.BOOLEAN if cell(row, "TYPE").is_empty else ResourceType.NUMERIC
    interval = read_cell(row, "INTERVAL", integer(1, 86_400), None, findings)
    increasing = read_cell(row, "INCREASING", yes_or_no, None, findings)
    consumable = read_cell(row, "CONSUMABLE", yes_or_no, None, findings)
    release = read_cell(row, "RELEASE", yes_or_no, True, findings)
    if type_ is ResourceType.BOOLEAN and interval is not None:
        findings.error(row.at, f"{name}: a Boolean resource with an INTERVAL is not supported yet; use Numeric 0 and 1")
    if type_ is not ResourceType.NUMERIC:
        for column, value in (("INCREASING", increasing), ("CONSUMABLE", consumable)):
            if value is not None:
                findings.note(row.at, f"{name}: {column} means nothing for a {type_.value} resource")
        increasing, consumable = False, False
    if consumable is None:
        consumable = interval is None or not increasing
    if consumable and cell(row, "RELEASE").text.strip() and release:
        findings.note(row.at, f"{name}: RELEASE Y has no effect yet: a suspended job keeps what it holds")
    return Resource(
        name=name,
        type=type_,
        interval_s=interval,
        increasing=bool(increasing),
        consumable=consumable,
        release=release,
        description=cell(row, "DESCRIPTION").text,
        source=str(row.at),
    )


def _check_counter(row: TableRow, resource: Resource, findings: Findings) -> None:
    """The counters of elim.gpu are projections of the host's devices; their definition must fit that."""
    if resource.type is not ResourceType.NUMERIC or resource.interval_s is None:
        findings.error(
            row.at, f"{resource.name} counts GPUs: its TYPE must be Numeric and its INTERVAL a number of seconds"
        )
    elif not resource.consumable and resource.name in gpu_counter_claims():
        findings.note(
            row.at,
            f"{resource.name}: claims on GPUs are counted whatever CONSUMABLE says (it says N), so jobs may claim it",
        )


def _resource_name(text: str) -> str:
    if text in _RESERVED:
        raise BadRequest(f"'{text}' is the name of a built-in resource and cannot be defined again")
    bad = sorted(character for character in set(text) if character in _FORBIDDEN or not character.isprintable())
    if bad:
        raise BadRequest(f"'{show(text)}' may not hold {show(' '.join(bad))}")
    if len(text) > 39:
        raise BadRequest(f"'{show(text)}' is longer than 39 characters")
    if text[0] in "0123456789" or re.match(r"inf|nan", text, re.IGNORECASE):
        raise BadRequest(f"'{show(text)}' may not start with a digit, inf or nan")
    return text


def _type(text: str) -> ResourceType:
    found = _TYPES.get(text.casefold())
    if found is None:
        raise BadRequest(f"'{show(text)}' is none of Boolean, String and Numeric")
    return found


def _type_or_model(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,38}", text):
        raise BadRequest(f"'{show(text)}' cannot be a name here: letters, digits and _ . + -, at most 39 characters")
    return text


def _cpu_factor(text: str) -> float:
    factor = number(text)
    if not 0 < factor <= 1e6:
        raise BadRequest(f"'{show(text)}' is not a factor above 0")
    return factor
