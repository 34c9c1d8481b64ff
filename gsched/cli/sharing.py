"""Values of resources with the hosts that have them, for -s of ghosts, gload and glshosts. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.base.errors import BadRequest
from gsched.cli.render.shared import SharedValue
from gsched.model.view import HostView


def shared_resources(hosts: Iterable[HostView], names: Sequence[str], *, static: bool = False) -> list[SharedValue]:
    """The named resources, or all, that lsf.cluster's ResourceMap or Host section places.

    A static value that several hosts have is one line; `static` leaves out what elims report, one line per host.
    Raises BadRequest for a name that no host has.
    """
    found: dict[tuple[str, str, str], SharedValue] = {}
    for host in hosts:
        rows = [(name, _text(value), "", "") for name, value in host.values.items()]
        if not static:
            rows += [
                (each.name, each.text or _text(each.total), _text(each.reserved), host.name) for each in host.externals
            ]
        for name, value, reserved, own in rows:
            row = found.setdefault((name, value, own), SharedValue(name=name, value=value, reserved=reserved, hosts=[]))
            row.hosts.append(host.name)
    known = {name for name, _, _ in found}
    for name in names:
        if name not in known:
            raise BadRequest(f"{name}: Bad resource name")
    return sorted((row for row in found.values() if not names or row.name in names), key=lambda row: row.name)


def _text(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.1f}"
