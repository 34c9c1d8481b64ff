"""lsb.hosts: job slots, thresholds and windows of hosts; its groups and compute units are read by `host_groups`.

Source: lsb.hosts(5); the columns GPU_MODE and INTERFACE are gsched's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.idset import parse_idset
from gsched.config.files.host_groups import HostNames, read_compute_units, read_host_groups
from gsched.config.files.lsb_users import UserNames
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import ConfigSection, TableRow
from gsched.config.grammar.tables import TableSchema, read_cell, read_columns, read_key, refuse_filled
from gsched.config.grammar.values import host_name, integer
from gsched.config.grammar.windows import parse_windows
from gsched.config.names.external_groups import GroupProgram
from gsched.config.names.grouping import is_pattern
from gsched.config.parameters.retries import exit_rate
from gsched.config.parameters.thresholds import load_names, threshold
from gsched.model.hosts.host import ComputeMode, HostConfig
from gsched.model.hosts.resource import Resource
from gsched.model.hosts.topology import MAX_PROCESSORS
from gsched.model.queues.queue import Threshold
from gsched.model.queues.window import Window

_Load = Callable[[str], Threshold]

_DEVICE = re.compile(r"[A-Za-z0-9_.:,@-]{1,200}", re.ASCII)
_UNLIMITED = -1
_MAX_SLOTS = 1_000_000
_REFUSED = dict.fromkeys(("CHKPNT", "MIG"), "a job saves its state itself: gsub --signal")


class _Row(msgspec.Struct, frozen=True):
    """What a row says about a host. `is_own`: it names the host itself, not a group."""

    max_slots: int | None = None
    user_slots: int | None = None
    mode: ComputeMode | None = None
    interface: tuple[str, ...] = ()
    thresholds: Mapping[str, Threshold] = {}
    window: tuple[Window, ...] = ()
    affinity: tuple[int, ...] | None = None
    exit_rate: int | None = None
    at: SourcePlace | None = None
    is_own: bool = False


class HostsFile(msgspec.Struct):
    """What lsb.hosts says, joined with lsf.cluster's hosts."""

    hosts: dict[str, HostConfig]
    names: HostNames
    compute_units: dict[str, dict[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)


def read_hosts(
    sections: Sequence[ConfigSection],
    hosts: Mapping[str, HostConfig],
    users: UserNames,
    resources: Mapping[str, Resource],
    unit_types: Sequence[str],
    unit: str,
    findings: Findings,
    egroup: GroupProgram | None = None,
) -> HostsFile:
    """`hosts` with what their rows say. A host's own row counts, else its group's, else the row `default`; without
    any it has as many slots as CPUs. `users` are whom groups may have as administrators; `unit_types` are
    COMPUTE_UNIT_TYPES, the default one first; `unit` is the letter of LSF_UNIT_FOR_LIMITS. Members that a program
    lists are asked of `egroup`; None: of nobody.
    """
    by_kind: dict[str, list[ConfigSection]] = {"host": [], "hostgroup": [], "computeunit": []}
    for section in sections:
        kind = section.name.casefold()
        if kind in by_kind:
            by_kind[kind].append(section)
        elif kind == "hostpartition":
            refuse_filled(section, findings)
        else:
            known = "it holds Host, HostGroup and ComputeUnit"
            findings.error(section.at, f"unknown section {section.name} in lsb.hosts; {known}")
    names = HostNames(hosts, users)
    # Groups first, whatever the order in the file: rows of hosts and compute units name them.
    read_host_groups(by_kind["hostgroup"], names, findings, egroup)
    units = read_compute_units(by_kind["computeunit"], names, unit_types, findings)
    rows: dict[str, _Row] = {}
    for section in by_kind["host"]:
        _read_rows(section, names, _readers(resources, unit), rows, findings)
    default = rows.get("default", _Row())
    return HostsFile({name: _joined(host, rows.get(name, default)) for name, host in hosts.items()}, names, units)


def _joined(host: HostConfig, row: _Row) -> HostConfig:
    return msgspec.structs.replace(
        host,
        max_slots=row.max_slots,
        user_slots=row.user_slots,
        compute_mode=row.mode,
        interface=row.interface,
        thresholds={**host.thresholds, **row.thresholds},
        dispatch_window=row.window,
        affinity=row.affinity,
        exit_rate=row.exit_rate,
    )


def _read_rows(
    section: ConfigSection, names: HostNames, loads: Mapping[str, _Load], rows: dict[str, _Row], findings: Findings
) -> None:
    """Adds the section's rows to `rows`: host name, or "default" -> row."""
    columns = TableSchema(
        required=("HOST_NAME",),
        optional=("MXJ", "JL/U", "GPU_MODE", "INTERFACE", "DISPATCH_WINDOW", "AFFINITY", "EXIT_RATE", *loads),
        refused=_REFUSED,
    )
    for row in read_columns(section, columns, findings):
        name = read_key(row, "HOST_NAME", _named, findings)
        values = _row(row, loads, name is not None and name in names.hosts, findings)
        if name is None:
            continue
        if name == "default":
            if name in rows:
                findings.error(row.at, f"the row default is given twice (first at line {_line(rows[name])})")
            else:
                rows[name] = values
            continue
        try:
            _assign(names.expand(name), values, rows)
        except BadRequest as error:
            findings.error(row.at, error.text)


def _assign(hosts: Sequence[str], row: _Row, rows: dict[str, _Row]) -> None:
    for host in hosts:
        other = rows.get(host)
        if other is not None and other.is_own == row.is_own:
            what = "rows" if row.is_own else "rows of groups"
            raise BadRequest(f"host {host} has two {what} (first at {other.at})")
        if other is None or row.is_own:
            rows[host] = row


def _readers(resources: Mapping[str, Resource], unit: str) -> dict[str, _Load]:
    """The readers of the thresholds that a row may hold, by column."""
    return {name: threshold(name, resources, unit) for name in load_names(resources)}


def _row(row: TableRow, loads: Mapping[str, _Load], is_own: bool, findings: Findings) -> _Row:
    # An empty MXJ is "no limit", a missing column is "as many as CPUs": LSF's two defaults.
    unset = _UNLIMITED if "mxj" in row.cells else None
    found = {name: read_cell(row, name, read, None, findings) for name, read in loads.items()}
    return _Row(
        read_cell(row, "MXJ", _max_slots, unset, findings),
        read_cell(row, "JL/U", integer(0, _MAX_SLOTS), None, findings),
        read_cell(row, "GPU_MODE", _mode, None, findings),
        read_cell(row, "INTERFACE", _interface, (), findings),
        {name: each for name, each in found.items() if each is not None},
        read_cell(row, "DISPATCH_WINDOW", parse_windows, (), findings),
        read_cell(row, "AFFINITY", _affinity, None, findings),
        read_cell(row, "EXIT_RATE", exit_rate, None, findings),
        row.at,
        is_own,
    )


def _line(row: _Row) -> int:
    return row.at.line if row.at else 0


def _named(text: str) -> str:
    return text if text == "default" or is_pattern(text) else host_name(text)


def _max_slots(text: str) -> int | None:
    return None if text == "!" else integer(0, _MAX_SLOTS)(text)


def _affinity(text: str) -> tuple[int, ...] | None:
    """Y, N or a list of CPUs."""
    if text.casefold() in ("y", "yes", "n", "no"):
        return () if text.casefold().startswith("y") else None
    try:
        return parse_idset(",".join(text.replace(",", " ").split()), limit=MAX_PROCESSORS)
    except BadRequest:
        raise BadRequest(f"'{show(text)}' is none of Y, N and a list of CPUs such as (0-3 8)") from None


def _interface(text: str) -> tuple[str, ...]:
    """`ib0`, or with UCX's devices `(ib0 mlx5_0:1 mlx5_1:1)`."""
    words = tuple(text.split())
    if not words or not all(_DEVICE.fullmatch(word) for word in words):
        raise BadRequest(f"'{show(text)}' is no name of an interface, as ib0, with UCX's devices behind it")
    return words


def _mode(text: str) -> ComputeMode:
    try:
        return ComputeMode(text.casefold())
    except ValueError:
        modes = ", ".join(mode.value for mode in ComputeMode)
        raise BadRequest(f"'{show(text)}' is none of {modes}") from None
