"""Groups of hosts and compute units of lsb.hosts, and what a host's, group's or unit's name stands for.

Source: lsb.hosts(5), HostGroup and ComputeUnit; lsb.params(5), COMPUTE_UNIT_TYPES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.files.lsb_users import UserNames, group_administrators
from gsched.config.grammar.findings import Findings, show, suggestion
from gsched.config.grammar.sections import ConfigSection, TableRow
from gsched.config.grammar.tables import TableSchema, cell, read_cell, read_columns, read_key
from gsched.config.grammar.values import group_name
from gsched.config.names.external_groups import OF_HOSTS, GroupProgram, is_stand_in, listed
from gsched.config.names.grouping import MAX_GROUPS, Definition, NameChoice, choose, is_pattern, matching, resolve
from gsched.model.hosts.host import HostConfig

_GROUP = TableSchema(
    required=("GROUP_NAME", "GROUP_MEMBER"),
    optional=("CONDENSE", "GROUP_ADMIN"),
    refused={"GROUP_POINTS": "hosts of a group are chosen by order[...]"},
)
_UNIT = TableSchema(required=("NAME", "MEMBER", "TYPE"), optional=("CONDENSE", "ADMIN"))


class HostNames(msgspec.Struct):
    """All names under which server hosts can be named. `groups` and `units` are resolved."""

    hosts: Mapping[str, HostConfig]
    users: UserNames = msgspec.field(default_factory=UserNames)
    """Who may be named as an administrator."""
    groups: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    units: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Of both, as they were written."""
    admins: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Of both: users that may open and close their hosts."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the hosts that run jobs, in file order."""
        return tuple(host.name for host in self.hosts.values() if host.server)

    def expand(self, word: str) -> tuple[str, ...]:
        """The hosts that a host's, group's or unit's name or a pattern stands for. Raises BadRequest."""
        found = self.groups.get(word) or self.units.get(word)
        return found if found is not None else self.leaf(word)

    def leaf(self, word: str) -> tuple[str, ...]:
        """The hosts that `all`, a host's name or a pattern stands for. Raises BadRequest."""
        if word == "all":
            return self.servers
        if is_pattern(word):
            found = matching(word, self.servers)
            if not found:
                raise BadRequest(f"no server host of lsf.cluster matches '{show(word)}'")
            return found
        if word in self.groups or word in self.units:
            raise BadRequest(f"group {show(word)} has no hosts")
        if word not in self.hosts:
            near = suggestion(word, (*self.hosts, *self.groups, *self.units))
            raise BadRequest(f"host {show(word)} is not defined in lsf.cluster, nor a group of lsb.hosts{near}")
        if not self.hosts[word].server:
            raise BadRequest(f"host {word} is a client (server 0) and runs no jobs")
        return (word,)

    def choose(self, text: str) -> NameChoice:
        """What a list of hosts and groups, `all` or `all ~host ...` means. Raises BadRequest."""
        # Nothing but `all` itself may mean all: a group that happens to hold every host stays a list of hosts.
        chosen = choose(text, lambda word: ("all",) if word == "all" else self.expand(word))
        if not chosen.names and set(chosen.excluded).issuperset(self.servers) and chosen.excluded:
            raise BadRequest(f"'{show(text)}' leaves no host")
        return chosen


def read_host_groups(
    sections: Sequence[ConfigSection], names: HostNames, findings: Findings, egroup: GroupProgram | None = None
) -> None:
    """HostGroup sections into `names.groups`; members that a program lists are asked of `egroup`, None: of nobody."""
    definitions: dict[str, Definition] = {}
    for section in sections:
        for row in read_columns(section, _GROUP, findings):
            _define(row, "GROUP_NAME", "GROUP_MEMBER", names, definitions, findings)
    for name, (at, words) in [(name, (each.at, each.words)) for name, each in definitions.items()]:
        members = listed(words, egroup, OF_HOSTS, name, at, findings)
        definitions[name] = Definition(at, members)
        names.members[name] = members
    names.groups.update(dict.fromkeys(definitions, ()))
    leaf = names.leaf
    names.groups.update(
        resolve("host group", definitions, lambda word: (word,) if is_stand_in(word) else leaf(word), findings)
    )


def read_compute_units(
    sections: Sequence[ConfigSection], names: HostNames, types: Sequence[str], findings: Findings
) -> dict[str, dict[str, tuple[str, ...]]]:
    """ComputeUnit sections: type -> unit -> hosts, and all units into `names.units`.

    `types` are COMPUTE_UNIT_TYPES, the default one first; where there are any, a unit's type must be one of them.
    """
    definitions: dict[str, Definition] = {}
    type_of: dict[str, str] = {}
    for section in sections:
        for row in read_columns(section, _UNIT, findings):
            type_ = read_key(row, "TYPE", group_name, findings)
            name = _define(row, "NAME", "MEMBER", names, definitions, findings)
            if type_ is not None and types and type_ not in types:
                near = suggestion(type_, types)
                findings.error(row.at, f"TYPE: {type_} is not one of COMPUTE_UNIT_TYPES in lsb.params{near}")
            elif type_ is not None and name is not None:
                type_of[name] = type_
    units = resolve("compute unit", definitions, names.expand, findings)
    names.units.update(units)
    by_type: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in types if name in type_of.values()}
    for name, type_ in type_of.items():
        by_type.setdefault(type_, {})[name] = units[name]
    _check_apart(by_type, definitions, findings)
    return by_type


def _define(
    row: TableRow, key: str, members: str, names: HostNames, definitions: dict[str, Definition], findings: Findings
) -> str | None:
    """Adds the row's group to `definitions`; its name, None (reported) when it cannot be used."""
    name = read_key(row, key, group_name, findings)
    words = tuple(cell(row, members).text.split())
    if not cell(row, "CONDENSE").is_empty and cell(row, "CONDENSE").text.casefold() not in ("n", "no"):
        findings.note(row.at, "CONDENSE has no effect: hosts are always listed one by one")
    if not words or words == ("-",):
        findings.error(row.at, f"{members}: no host is named")
    elif key == "NAME" and any("!" in word for word in words):
        findings.error(
            row.at, f"{members}: '!': units that a program lists (egroup) are not supported yet; name a group"
        )
    elif name is None:
        pass
    elif name in definitions:
        findings.error(row.at, f"{key}: {name} is defined twice (first at {definitions[name].at})")
    elif name in names.hosts or name in names.groups:
        what = "host" if name in names.hosts else "host group"
        findings.error(row.at, f"{key}: {name} is the name of a {what} already")
    elif len(definitions) >= MAX_GROUPS:
        findings.error(row.at, f"more than {MAX_GROUPS} groups")
    else:
        definitions[name] = Definition(row.at, words)
        names.members[name] = words
        column = "ADMIN" if key == "NAME" else "GROUP_ADMIN"
        names.admins[name] = read_cell(row, column, group_administrators(names.users), (), findings)
        return name
    return None


def _check_apart(
    by_type: Mapping[str, Mapping[str, tuple[str, ...]]], definitions: Mapping[str, Definition], findings: Findings
) -> None:
    """A host belongs to one unit of a type at most."""
    for type_, units in by_type.items():
        unit_of: dict[str, str] = {}
        for unit, hosts in units.items():
            twice = next((host for host in hosts if host in unit_of), None)
            if twice is not None:
                at = definitions[unit].at
                findings.error(at, f"host {twice} is in two compute units of type {type_}: {unit_of[twice]} and {unit}")
            unit_of.update(dict.fromkeys(hosts, unit))
