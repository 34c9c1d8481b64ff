"""The caller's time zone: commands print local time as `date` would for the person who called.

The zone never comes from the process the command runs in. Source of the forms of TZ: tzset(3), POSIX 8.3.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

DATABASE = "/usr/share/zoneinfo/"
SYSTEM_ZONE = Path("/etc/localtime")


def zone_of(environment: Mapping[str, str]) -> tzinfo:
    """The zone that TZ names, else the host's. What cannot be understood is UTC, as for the C library."""
    name = environment.get("TZ")
    return _system_zone() if name is None else _named_zone(name.removeprefix(":").removeprefix(DATABASE))


@functools.lru_cache(maxsize=64)
def _named_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        pass
    try:
        return _rule_zone(name)
    except (ValueError, IndexError):
        return UTC


def _rule_zone(rule: str) -> tzinfo:
    """The zone of a rule such as `KST-9` or `CET-1CEST,M3.5.0,M10.5.0/3`. Raises ValueError.

    It is handed over as an otherwise empty zone file, whose last line is such a rule (RFC 8536, section 3.3).
    """
    if not rule or not rule.isascii() or "\n" in rule:
        raise ValueError(rule)
    # One local time type (offset 0, no summer time, name at 0) is required; counts in the order of the RFC.
    counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
    header = b"TZif2" + bytes(15) + counts
    block = bytes(6) + b"UTC\0"
    return ZoneInfo.from_file(io.BytesIO((header + block) * 2 + b"\n" + rule.encode() + b"\n"), key=rule)


@functools.lru_cache(maxsize=1)
def _system_zone() -> tzinfo:
    try:
        with SYSTEM_ZONE.open("rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (OSError, ValueError):
        return UTC
