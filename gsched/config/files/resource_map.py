"""ResourceMap: which hosts have which resource. The LOCATION grammar and its meaning.

    LOCATION = INSTANCES | "(" INSTANCES ")"
    INSTANCES = one or more of  [VALUE@][HOST ...]  or  [VALUE@HOST ...]
    HOST = a name, default, all, all ~NAME, others

Source: lsf.cluster(5). A Numeric resource of which an instance belongs to several hosts is a shared one: what jobs take
on any of them is taken from the same number (gsched.model.hosts.shared_resource).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.files.lsf_shared import SharedFile
from gsched.config.grammar.findings import Findings, show, suggestion
from gsched.config.grammar.sections import ConfigSection, TableRow
from gsched.config.grammar.tables import TableSchema, cell, read_columns
from gsched.config.grammar.values import number
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, Resource, ResourceType
from gsched.model.hosts.shared_resource import SharedInstance

_COLUMNS = TableSchema(required=("RESOURCENAME", "LOCATION"))
# VALUE@[HOSTS] and [VALUE@HOSTS] mean the same. Blanks around '@' are LSF's too.
_INSTANCE = re.compile(
    r"\s*(?:(?P<before>[^\s@\[\]()]+)\s*@\s*)?\[(?:\s*(?P<inside>[^\s@\[\]()]+)\s*@)?(?P<hosts>[^@\[\]()]*)\]"
)


class Instance(msgspec.Struct, frozen=True):
    """One instance of a resource: its static value as written ("" if none) and its host words."""

    value: str
    hosts: tuple[str, ...]


class MappedResource(msgspec.Struct):
    """What ResourceMap adds: `hosts` are the hosts with the values that they got by it."""

    hosts: dict[str, HostConfig]
    mapped: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    shared: dict[str, tuple[SharedInstance, ...]] = msgspec.field(default_factory=dict)


_Resolved = tuple[Instance, tuple[str, ...], bool]
"""An instance, its hosts, whether each host has its own."""


def parse_location(text: str) -> tuple[Instance, ...]:
    """Instances of a LOCATION (without its outer parentheses). Raises BadRequest."""
    instances: list[Instance] = []
    text, position = text.strip(), 0
    while position < len(text):
        found = _INSTANCE.match(text, position)
        if found is None:
            raise BadRequest(f"'{show(text[position:].strip())}' is not of the form [HOST ...] or VALUE@[HOST ...]")
        if found["before"] and found["inside"]:
            raise BadRequest(f"'{show(found.group().strip())}' has two values")
        hosts = tuple(found["hosts"].split())
        if not hosts:
            raise BadRequest("an instance without hosts: []")
        instances.append(Instance(found["before"] or found["inside"] or "", hosts))
        position = found.end()
    if not instances:
        raise BadRequest("LOCATION is empty; every host has its own with ([default])")
    return tuple(instances)


def read_resource_map(
    sections: Sequence[ConfigSection], shared: SharedFile, hosts: Mapping[str, HostConfig], findings: Findings
) -> MappedResource:
    """All ResourceMap sections. A host's own RESOURCES win over the map."""
    placement = MappedResource(dict(hosts))
    seen: dict[str, TableRow] = {}
    for section in sections:
        for row in read_columns(section, _COLUMNS, findings):
            name = cell(row, "RESOURCENAME").text
            try:
                if name in seen:
                    _compare(row, seen[name], findings)
                    continue
                _place(row, _defined(name, shared), placement)
                seen[name] = row
            except BadRequest as error:
                findings.error(row.at, error.text)
                seen.setdefault(name, row)
    for name, resource in shared.resources.items():
        if resource.interval_s is not None and name not in seen:
            findings.note(shared.places[name], f"{name} is in no ResourceMap: no host has it")
    return placement


def _compare(row: TableRow, first: TableRow, findings: Findings) -> None:
    """A row that maps a resource again. Raises BadRequest when it says something else than the first."""
    name = cell(row, "RESOURCENAME").text
    here, there = (parse_location(cell(each, "LOCATION").text) for each in (row, first))
    if here != there:
        raise BadRequest(f"resource {name} is mapped twice, and not alike (first at line {first.at.line})")
    findings.note(row.at, f"resource {name} is mapped again, as at line {first.at.line}: this changes nothing")


def _defined(name: str, shared: SharedFile) -> Resource:
    resource = shared.resources.get(name)
    if resource is None:
        if name in BUILTIN:
            raise BadRequest(f"{name} is a built-in resource that every host has; it cannot be mapped")
        raise BadRequest(f"resource {show(name)} is not defined in lsf.shared{suggestion(name, shared.resources)}")
    return resource


def _place(row: TableRow, resource: Resource, placement: MappedResource) -> None:
    instances = parse_location(cell(row, "LOCATION").text)
    if resource.type is ResourceType.BOOLEAN:
        raise BadRequest(f"{resource.name} is Boolean: name it in the RESOURCES of the hosts that have it")
    resolved = _resolve(resource.name, instances, placement.hosts)
    if resource.interval_s is not None:
        _place_dynamic(resource, instances, resolved, placement)
    else:
        _place_static(resource, instances, resolved, placement)


def _resolve(name: str, instances: Sequence[Instance], hosts: Mapping[str, HostConfig]) -> list[_Resolved]:
    """The instances with `default`, `all` and `others` replaced."""
    servers = [host.name for host in hosts.values() if host.server]
    named = {word for instance in instances for word in instance.hosts}
    resolved: list[_Resolved] = []
    taken: dict[str, None] = {}
    for instance in instances:
        own = instance.hosts == ("default",)
        if own and len(instances) > 1:
            raise BadRequest(f"{name}: [default] stands for every host and cannot be joined with other instances")
        members = tuple(servers) if own else _members(name, instance.hosts, servers, hosts, named)
        for member in members:
            if member in taken:
                raise BadRequest(f"{name}: host {member} is in two instances")
            taken[member] = None
        resolved.append((instance, members, own))
    return resolved


def _members(
    name: str, words: Sequence[str], servers: Sequence[str], hosts: Mapping[str, HostConfig], named: set[str]
) -> tuple[str, ...]:
    """Hosts of one instance that is not [default]."""
    if words == ("others",):
        return tuple(server for server in servers if server not in named)
    if words[0] == "all":
        excluded = {word.removeprefix("~") for word in words[1:]}
        if any(not word.startswith("~") for word in words[1:]):
            raise BadRequest(f"{name}: only '~HOST' may follow all in '{show(' '.join(words))}'")
        for host in sorted(excluded):
            _known(name, host, hosts)
        return tuple(server for server in servers if server not in excluded)
    for word in words:
        if word in ("default", "others", "all") or word.startswith("~"):
            raise BadRequest(f"{name}: '{show(word)}' cannot stand beside host names in '{show(' '.join(words))}'")
        _known(name, word, hosts)
    return tuple(dict.fromkeys(words))


def _known(name: str, host: str, hosts: Mapping[str, HostConfig]) -> None:
    if host not in hosts:
        raise BadRequest(f"{name}: host {show(host)} is not defined in section Host{suggestion(host, hosts)}")
    if not hosts[host].server:
        raise BadRequest(f"{name}: host {host} is a client (server 0) and runs no jobs")


def _place_dynamic(
    resource: Resource,
    instances: Sequence[Instance],
    resolved: Sequence[_Resolved],
    placement: MappedResource,
) -> None:
    for instance in instances:
        if instance.value:
            raise BadRequest(
                f"{resource.name} has an INTERVAL, so elims report it: '{show(instance.value)}@' is not wanted"
            )
    if _is_shared(resolved):
        if resource.name in GPU_COUNTERS:
            raise BadRequest(f"{resource.name} counts the GPUs of a host, which no other has: use ([default])")
        if resource.type is ResourceType.STRING:
            raise BadRequest(
                f"{resource.name}: a text that elims report for several hosts together is not supported yet; "
                "use ([default]) or one host in each instance"
            )
        _share(resource, [(members, None, _is_of_all(instance)) for instance, members, _ in resolved], placement)
        return
    names = {member for _, members, _ in resolved for member in members}
    placement.mapped[resource.name] = tuple(host for host in placement.hosts if host in names)


def _place_static(
    resource: Resource,
    instances: Sequence[Instance],
    resolved: Sequence[_Resolved],
    placement: MappedResource,
) -> None:
    if not all(instance.value for instance in instances):
        raise BadRequest(f"{resource.name} has no INTERVAL, so its value must be given: VALUE@[HOST ...]")
    if resource.type is ResourceType.NUMERIC and _is_shared(resolved):
        valued = [(members, number(each.value), _is_of_all(each)) for each, members, _ in resolved]
        _share(resource, valued, placement)
        return
    for instance, members, _ in resolved:
        value = instance.value if resource.type is ResourceType.STRING else number(instance.value)
        for host in members:
            config = placement.hosts[host]
            if resource.name not in config.values:
                given = {**config.values, resource.name: value}
                placement.hosts[host] = msgspec.structs.replace(config, values=given)


def _is_shared(resolved: Sequence[_Resolved]) -> bool:
    return any(len(members) > 1 and not own for _, members, own in resolved)


def _is_of_all(instance: Instance) -> bool:
    return instance.hosts[0] == "all"


def _share(
    resource: Resource, valued: Sequence[tuple[tuple[str, ...], float | None, bool]], placement: MappedResource
) -> None:
    """All instances of a shared resource; a host whose RESOURCES give it a value is an instance of its own."""
    own = {
        host: value
        for host, config in placement.hosts.items()
        if isinstance(value := config.values.get(resource.name), float)
    }
    parts = [(tuple(host for host in members if host not in own), value, of_all) for members, value, of_all in valued]
    parts += [((host,), value, False) for host, value in own.items()]
    placement.shared[resource.name] = tuple(
        SharedInstance(
            resource=resource.name,
            number=number,
            hosts=hosts,
            value=value,
            consumable=resource.consumable,
            of_all=of_all,
        )
        for number, (hosts, value, of_all) in enumerate(part for part in parts if part[0])
    )
