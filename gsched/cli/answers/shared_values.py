"""Values of resources with the hosts that have them, for -s of ghosts, gload and glshosts. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gsched.base.errors import BadRequest
from gsched.cli.render.hosts.shared_tables import SharedValue
from gsched.model.views.view import HostView, SharedView


def shared_resources(
    hosts: Iterable[HostView], shared: Iterable[SharedView], names: Sequence[str], *, static: bool = False
) -> list[SharedValue]:
    """The named resources, or all, that lsf.cluster's ResourceMap or Host section places: a line for each instance.

    A text that several hosts have is one line; `static`: all that is configured, without what elims report and whatever
    is reserved. Raises BadRequest for a name that no host has.
    """
    found: dict[tuple[str, str, str], SharedValue] = {}
    for host in hosts:
        for row in _of_host(host, static=static):
            own = row.hosts[0] if row.hosts else ""
            known = found.setdefault((row.name, row.value, own), row)
            if not own or known is not row:
                known.hosts.append(host.name)
    rows = [*found.values(), *(row for each in shared for row in _of_several(each, static=static))]
    known_names = {row.name for row in rows}
    for name in names:
        if name not in known_names:
            raise BadRequest(f"{name}: Bad resource name")
    return sorted((row for row in rows if not names or row.name in names), key=lambda row: row.name)


def _of_host(host: HostView, *, static: bool) -> Iterator[SharedValue]:
    """What the host has for itself; a text, which others may have too, comes without a host."""
    shared = {each.name for each in host.shared}
    counted = {each.name: each for each in host.externals if each.name not in shared}
    for name, value in host.values.items():
        if name not in shared and (static or name not in counted):
            hosts = [] if isinstance(value, str) else [host.name]
            yield SharedValue(name=name, value=_text(value), reserved="", hosts=hosts)
    for each in () if static else counted.values():
        value = each.text or _text(each.total)
        yield SharedValue(name=each.name, value=value, reserved=_text(each.reserved), hosts=[host.name])


def _of_several(each: SharedView, *, static: bool) -> Iterator[SharedValue]:
    if static and each.static:
        yield SharedValue(name=each.name, value=_text(each.there), reserved="", hosts=[*each.hosts])
    elif not static:
        yield SharedValue(name=each.name, value=_text(each.total), reserved=_text(each.reserved), hosts=[*each.hosts])


def _text(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.1f}"
