"""lsb.hosts: job slots of hosts. Source: lsb.hosts(5); the column GPU_MODE is gsched's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.findings import Findings, Place, show, suggestion
from gsched.config.sections import Row, Section, is_table, read_table
from gsched.config.tables import THRESHOLDS, Columns, cell, read_cell, read_columns, read_key
from gsched.config.values import host_name, integer
from gsched.model.host import ComputeMode, HostConfig

_COLUMNS = Columns(
    required=("HOST_NAME",),
    optional=("MXJ", "JL/U", "GPU_MODE"),
    refused={
        **dict.fromkeys(THRESHOLDS, "load thresholds"),
        "DISPATCH_WINDOW": "hosts take jobs at any time",
        "CHKPNT": "",
        "MIG": "",
        "EXIT_RATE": "",
        "AFFINITY": "",
    },
)
_OTHER_SECTIONS = ("HostGroup", "HostPartition", "ComputeUnit")

_UNLIMITED = -1
_MAX_SLOTS = 1_000_000


class _Slots(msgspec.Struct, frozen=True):
    """What a row says about a host."""

    max_slots: int | None
    user_slots: int | None
    mode: ComputeMode | None
    at: Place | None = None


def read_hosts(
    sections: Sequence[Section], hosts: Mapping[str, HostConfig], findings: Findings
) -> dict[str, HostConfig]:
    """`hosts` with their slots. A host without a row gets the row `default`, without that as many slots as CPUs."""
    rows: dict[str, _Slots] = {}
    default = _Slots(None, None, None)
    for section in sections:
        kind = section.name.casefold()
        if kind in (name.casefold() for name in _OTHER_SECTIONS):
            refuse_filled(section, findings)
        elif kind != "host":
            findings.error(section.at, f"unknown section {section.name} in lsb.hosts; it holds Host")
        else:
            default = _read_rows(section, hosts, rows, default, findings)
    slots = {name: rows.get(name, default) for name in hosts}
    return {
        name: msgspec.structs.replace(
            host,
            max_slots=slots[name].max_slots,
            user_slots=slots[name].user_slots,
            compute_mode=slots[name].mode,
        )
        for name, host in hosts.items()
    }


def refuse_filled(section: Section, findings: Findings) -> None:
    """A section that is known but not supported: an empty one, or one with only a keyword line, says nothing."""
    filled = section.body[1:] if is_table(section) else section.body
    if filled:
        findings.error(filled[0].at, f"section {section.name} is not supported yet; it must be empty")
    else:
        read_table(section, findings)


def _read_rows(
    section: Section, hosts: Mapping[str, HostConfig], rows: dict[str, _Slots], default: _Slots, findings: Findings
) -> _Slots:
    """Adds the section's rows to `rows`; returns the row `default`, this section's or the one so far."""
    for row in read_columns(section, _COLUMNS, findings):
        if cell(row, "HOST_NAME").text == "default":
            if default.at is not None:
                findings.error(row.at, f"the row default is given twice (first at line {default.at.line})")
            default = _slots(row, findings)
            continue
        name = read_key(row, "HOST_NAME", host_name, findings)
        slots = _slots(row, findings)
        if name is None:
            continue
        if name not in hosts:
            findings.error(row.at, f"host {name} is not defined in lsf.cluster{suggestion(name, hosts)}")
        elif not hosts[name].server:
            findings.error(row.at, f"host {name} is a client in lsf.cluster (server 0) and runs no jobs")
        elif name in rows:
            findings.error(row.at, f"host {name} has two rows (first at {rows[name].at})")
        else:
            rows[name] = slots
    return default


def _slots(row: Row, findings: Findings) -> _Slots:
    # An empty MXJ is "no limit", a missing column is "as many as CPUs": LSF's two defaults.
    unset = _UNLIMITED if "mxj" in row.cells else None
    return _Slots(
        read_cell(row, "MXJ", _max_slots, unset, findings),
        read_cell(row, "JL/U", integer(0, _MAX_SLOTS), None, findings),
        read_cell(row, "GPU_MODE", _mode, None, findings),
        row.at,
    )


def _max_slots(text: str) -> int | None:
    return None if text == "!" else integer(0, _MAX_SLOTS)(text)


def _mode(text: str) -> ComputeMode:
    try:
        return ComputeMode(text.casefold())
    except ValueError:
        modes = ", ".join(mode.value for mode in ComputeMode)
        raise BadRequest(f"'{show(text)}' is none of {modes}") from None
