"""ResourceMap: which hosts have which resource. The LOCATION grammar and its meaning.

    LOCATION = INSTANCES | "(" INSTANCES ")"
    INSTANCES = one or more of  [VALUE@][HOST ...]  or  [VALUE@HOST ...]
    HOST = a name, default, all, all ~NAME, others

Source: lsf.cluster(5). A resource that elims report needs an instance per host; several hosts that share one value
are supported for static values only, and everything else is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.findings import Findings, show, suggestion
from gsched.config.sections import Row, Section
from gsched.config.shared import Shared
from gsched.config.tables import Columns, cell, read_columns
from gsched.config.values import number
from gsched.model.host import HostConfig
from gsched.model.resource import BUILTIN, Resource, ResourceType

_COLUMNS = Columns(required=("RESOURCENAME", "LOCATION"))
# VALUE@[HOSTS] and [VALUE@HOSTS] mean the same. Blanks around '@' are LSF's too.
_INSTANCE = re.compile(
    r"\s*(?:(?P<before>[^\s@\[\]()]+)\s*@\s*)?\[(?:\s*(?P<inside>[^\s@\[\]()]+)\s*@)?(?P<hosts>[^@\[\]()]*)\]"
)


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a resource: its static value as written ("" if none) and its host words."""

    value: str
    hosts: tuple[str, ...]


@dataclass(slots=True)
class Placement:
    """What ResourceMap adds: `hosts` are the hosts with the values that they got by it."""

    hosts: dict[str, HostConfig]
    mapped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shared_values: dict[str, dict[str, float]] = field(default_factory=dict)


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
    sections: Sequence[Section], shared: Shared, hosts: Mapping[str, HostConfig], findings: Findings
) -> Placement:
    """All ResourceMap sections. A host's own RESOURCES win over the map."""
    placement = Placement(dict(hosts))
    seen: dict[str, Row] = {}
    for section in sections:
        for row in read_columns(section, _COLUMNS, findings):
            name = cell(row, "RESOURCENAME").text
            try:
                if name in seen:
                    raise BadRequest(f"resource {name} is mapped twice (first at line {seen[name].at.line})")
                _place(row, _defined(name, shared), placement)
                seen[name] = row
            except BadRequest as error:
                findings.error(row.at, error.text)
                seen.setdefault(name, row)
    for name, resource in shared.resources.items():
        if resource.interval_s is not None and name not in seen:
            findings.note(shared.places[name], f"{name} is in no ResourceMap: no host has it")
    return placement


def _defined(name: str, shared: Shared) -> Resource:
    resource = shared.resources.get(name)
    if resource is None:
        if name in BUILTIN:
            raise BadRequest(f"{name} is a built-in resource that every host has; it cannot be mapped")
        raise BadRequest(f"resource {show(name)} is not defined in lsf.shared{suggestion(name, shared.resources)}")
    return resource


def _place(row: Row, resource: Resource, placement: Placement) -> None:
    instances = parse_location(cell(row, "LOCATION").text)
    if resource.type is ResourceType.BOOLEAN:
        raise BadRequest(f"{resource.name} is Boolean: name it in the RESOURCES of the hosts that have it")
    resolved = _resolve(resource.name, instances, placement.hosts)
    if resource.interval_s is not None:
        _place_dynamic(resource, instances, resolved, placement)
    else:
        _place_static(resource, instances, resolved, placement)


def _resolve(
    name: str, instances: Sequence[Instance], hosts: Mapping[str, HostConfig]
) -> list[tuple[Instance, tuple[str, ...], bool]]:
    """(instance, its hosts, whether each host has its own) with `default`, `all` and `others` replaced."""
    servers = [host.name for host in hosts.values() if host.server]
    named = {word for instance in instances for word in instance.hosts}
    resolved: list[tuple[Instance, tuple[str, ...], bool]] = []
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
    resolved: Sequence[tuple[Instance, tuple[str, ...], bool]],
    placement: Placement,
) -> None:
    for instance in instances:
        if instance.value:
            raise BadRequest(
                f"{resource.name} has an INTERVAL, so elims report it: '{show(instance.value)}@' is not wanted"
            )
    for _, members, own in resolved:
        if len(members) > 1 and not own:
            raise BadRequest(
                f"{resource.name}: a value that elims report for several hosts together ({show(' '.join(members))}) "
                "is not supported yet; use ([default]) or one host in each instance"
            )
    names = {member for _, members, _ in resolved for member in members}
    placement.mapped[resource.name] = tuple(host for host in placement.hosts if host in names)


def _place_static(
    resource: Resource,
    instances: Sequence[Instance],
    resolved: Sequence[tuple[Instance, tuple[str, ...], bool]],
    placement: Placement,
) -> None:
    if not all(instance.value for instance in instances):
        raise BadRequest(f"{resource.name} has no INTERVAL, so its value must be given: VALUE@[HOST ...]")
    values: dict[str, float | str] = {}
    together: dict[str, float] = {}
    for instance, members, own in resolved:
        if resource.type is ResourceType.STRING:
            values.update(dict.fromkeys(members, instance.value))
            continue
        value = number(instance.value)
        if own or len(members) == 1:
            values.update(dict.fromkeys(members, value))
        else:
            together.update(dict.fromkeys(members, value))
    if together and resource.consumable:
        raise BadRequest(
            f"{resource.name}: counting what jobs take from one value of several hosts is not supported yet; "
            "say CONSUMABLE N in lsf.shared, or give each host its own value"
        )
    for host, given in values.items():
        config = placement.hosts[host]
        if resource.name not in config.values:
            placement.hosts[host] = msgspec.structs.replace(config, values={**config.values, resource.name: given})
    if together:
        own_values = {host for host in together if resource.name in placement.hosts[host].values}
        placement.shared_values[resource.name] = {host: v for host, v in together.items() if host not in own_values}
