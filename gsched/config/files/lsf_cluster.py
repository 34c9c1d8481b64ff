"""lsf.cluster.NAME: intervals, administrators and hosts (its ResourceMap is read by `resource_map`).

Source: lsf.cluster(5). A host's row of lsb.hosts is joined later; nothing here knows slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.files.lsf_shared import SharedFile
from gsched.config.files.resource_map import read_resource_map
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, TableRow, read_entries
from gsched.config.grammar.tables import THRESHOLDS, TableSchema, cell, read_cell, read_columns, read_key, refuse_filled
from gsched.config.grammar.unsupported import REFUSED_CLUSTER, WITHOUT_EFFECT_CLUSTER
from gsched.config.grammar.values import KeyValues, host_name, integer, number, plain_text, seconds, user_name
from gsched.config.parameters.elim_settings import Elims, read_elim_arguments, read_elims
from gsched.config.parameters.thresholds import threshold
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import BUILTIN, Resource, ResourceType
from gsched.model.hosts.shared_resource import SharedInstance
from gsched.model.queues.queue import Threshold
from gsched.resreq.judging.host_types import LINUX, LINUX_TYPES

_HOST = TableSchema(
    required=("HOSTNAME",),
    optional=("model", "type", "server", "RESOURCES", *THRESHOLDS),
    refused={
        "nd": "the number of disks",
        "RUNWINDOW": "hosts take jobs at any time",
        "REXPRI": "use NICE of a queue",
    },
)


class ClusterFile(msgspec.Struct):
    """What lsf.cluster says."""

    exchange_s: float = 15.0
    exchange_at: SourcePlace | None = None
    elims: Elims = msgspec.field(default_factory=Elims)
    administrators: tuple[str, ...] = ()
    hosts: dict[str, HostConfig] = msgspec.field(default_factory=dict)
    mapped: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    shared: dict[str, tuple[SharedInstance, ...]] = msgspec.field(default_factory=dict)


def read_cluster(path: str, sections: Sequence[ConfigSection], shared: SharedFile, findings: Findings) -> ClusterFile:
    """lsf.cluster's sections as one value, checked against lsf.shared. Every problem goes to `findings`."""
    cluster = ClusterFile()
    maps: list[ConfigSection] = []
    administrators: list[str] = []
    for section in sections:
        match section.name.casefold():
            case "parameters":
                _read_parameters(section, cluster, findings)
            case "clusteradmins":
                settings = KeyValues(read_entries(section, findings), findings, where="section ClusterAdmins")
                administrators += settings.take("ADMINISTRATORS", _users, [])
                settings.finish({}, {})
            case "host":
                _read_hosts(section, cluster, shared, findings)
            case "resourcemap":
                maps.append(section)
            case "remoteclusters":
                refuse_filled(section, findings)
            case _:
                known = "it holds Parameters, ClusterAdmins, Host and ResourceMap"
                findings.error(section.at, f"unknown section {section.name} in lsf.cluster; {known}")
    if not any(host.server for host in cluster.hosts.values()):
        findings.error(
            SourcePlace(path), "no server host is defined (section Host: HOSTNAME model type server RESOURCES)"
        )
    cluster.administrators = tuple(dict.fromkeys(administrators))
    if not administrators:
        findings.note(SourcePlace(path), "no administrators are named (section ClusterAdmins)")
    # Last, whatever the order in the file: the map speaks about hosts.
    placement = read_resource_map(maps, shared, cluster.hosts, findings)
    cluster.mapped, cluster.shared, cluster.hosts = placement.mapped, placement.shared, placement.hosts
    return cluster


def _read_parameters(section: ConfigSection, cluster: ClusterFile, findings: Findings) -> None:
    settings = KeyValues(read_entries(section, findings), findings, where="section Parameters of lsf.cluster")
    cluster.exchange_s = settings.take("EXINTERVAL", seconds(0.05), cluster.exchange_s)
    cluster.exchange_at = settings.place("EXINTERVAL") or cluster.exchange_at
    cluster.elims = read_elim_arguments(settings, read_elims(settings, cluster.elims))
    settings.finish(REFUSED_CLUSTER, WITHOUT_EFFECT_CLUSTER)


def _read_hosts(section: ConfigSection, cluster: ClusterFile, shared: SharedFile, findings: Findings) -> None:
    for row in read_columns(section, _HOST, findings):
        name = read_key(row, "HOSTNAME", host_name, findings)
        host = _host(row, name or "?", shared, findings)
        if name is not None and name in cluster.hosts:
            findings.error(row.at, f"host {name} is defined twice (first at {cluster.hosts[name].source})")
        elif name is not None:
            cluster.hosts[name] = host


def _host(row: TableRow, name: str, shared: SharedFile, findings: Findings) -> HostConfig:
    model = read_cell(row, "model", plain_text, "!", findings)
    if model != "!" and model not in shared.models:
        known = suggestion(model, shared.models)
        findings.error(row.at, f"host model {show(model)} is not defined in lsf.shared (HostModel){known}", "model")
    type_ = read_cell(row, "type", plain_text, "!", findings)
    if type_ != "!" and type_ not in (*shared.types, LINUX, *LINUX_TYPES):
        known = suggestion(type_, shared.types)
        findings.error(row.at, f"host type {show(type_)} is not defined in lsf.shared (HostType){known}", "type")
    flags: dict[str, None] = {}
    values: dict[str, float | str] = {}
    exclusive: dict[str, None] = {}
    for word in cell(row, "RESOURCES").text.split():
        if findings.is_full(row.at.path):
            break
        _read_host_resource(row, word.removeprefix("!"), shared, flags, values, findings)
        if word.startswith("!"):
            _read_exclusive(row, word[1:], shared, exclusive, findings)
    busy = {each: read_cell(row, each, _busy(each), None, findings) for each in THRESHOLDS}
    return HostConfig(
        name=name,
        model=model,
        type=type_,
        server=bool(read_cell(row, "server", integer(0, 1), 1, findings)),
        cpu_factor=shared.models.get(model, 1.0),
        resources=tuple(flags),
        values=values,
        exclusive_resources=tuple(exclusive),
        thresholds={each: found for each, found in busy.items() if found is not None},
        source=str(row.at),
    )


def _busy(index: str) -> Callable[[str], Threshold]:
    """A reader of the one value beyond which the host is busy: no job starts there. Sizes are in MB."""
    read = threshold(index, BUILTIN, "M")

    def of_host(text: str) -> Threshold:
        if "/" in text:
            raise BadRequest(f"'{show(text)}' is not one value; lsb.hosts takes loadSched/loadStop")
        return read(text)

    return of_host


def _read_host_resource(
    row: TableRow,
    word: str,
    shared: SharedFile,
    flags: dict[str, None],
    values: dict[str, float | str],
    findings: Findings,
) -> None:
    """One word of RESOURCES without its `!`: `flag` or `name=value`."""
    if word == "-":
        return
    name, equals, text = word.partition("=")
    resource = shared.resources.get(name)
    if resource is None:
        what = "is built in and found out by the agent" if name in BUILTIN else "is not defined in lsf.shared"
        findings.error(row.at, f"RESOURCES: {show(name)} {what}{suggestion(name, shared.resources)}", "RESOURCES", word)
    elif name in flags or name in values:
        findings.error(row.at, f"RESOURCES: {name} is given twice", "RESOURCES", word)
    elif resource.type is ResourceType.BOOLEAN:
        if equals:
            what = "is Boolean and takes no value; naming it means the host has it"
            findings.error(row.at, f"RESOURCES: {name} {what}", "RESOURCES", word)
        elif name.startswith("define_ncpus_"):
            what = "is not supported yet: slots are set by MXJ in lsb.hosts"
            findings.error(row.at, f"RESOURCES: {name} {what}", "RESOURCES", word)
        else:
            flags[name] = None
    else:
        try:
            values[name] = _static_value(resource, text)
        except BadRequest as error:
            findings.error(row.at, f"RESOURCES: {error.text}", "RESOURCES", word)


def _read_exclusive(
    row: TableRow, name: str, shared: SharedFile, exclusive: dict[str, None], findings: Findings
) -> None:
    """`!flag`: only jobs that ask for the flag may use the host."""
    resource = shared.resources.get(name.partition("=")[0])
    if resource is None or resource.type is ResourceType.BOOLEAN:
        exclusive[name] = None
    else:
        findings.error(
            row.at,
            f"RESOURCES: '!{show(name)}': only a Boolean resource can keep a host for itself",
            "RESOURCES",
            f"!{name}",
        )


def _static_value(resource: Resource, text: str) -> float | str:
    if resource.interval_s is not None:
        raise BadRequest(f"{resource.name} has an INTERVAL, so elims report it: place it with ResourceMap instead")
    if not text:
        raise BadRequest(f"{resource.name} needs a value: {resource.name}=VALUE")
    return number(text) if resource.type is ResourceType.NUMERIC else plain_text(text)


def _users(text: str) -> list[str]:
    return [user_name(word) for word in text.split()]
