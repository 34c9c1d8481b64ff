"""HOSTS of a queue: which hosts its jobs may use, and which they prefer.

    HOSTS = none | all [~NAME ...] | NAME[+LEVEL] ... [others[+LEVEL]] [~NAME ...]

NAME is a host, a host group, a compute unit or a pattern. Source: lsb.queues(5), HOSTS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.files.host_groups import HostNames
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import integer

_LEVEL = integer(0, 2**31 - 2)


class QueueHosts(msgspec.Struct, frozen=True):
    """`hosts` None: all; empty: none. `levels` holds preferences above 0."""

    hosts: tuple[str, ...] | None = None
    levels: Mapping[str, int] = {}


def queue_hosts(text: str, names: HostNames) -> QueueHosts:
    """The meaning of HOSTS. Raises BadRequest."""
    words = text.split()
    for word in words:
        if word.startswith("allremote") or "@" in word:
            raise BadRequest(f"'{show(word)}': hosts of other clusters are not supported yet")
        if word.startswith("none") and words != ["none"] and word not in names.hosts:
            raise BadRequest(f"'{show(text)}': beside none nothing may stand")
    if words == ["none"]:
        return QueueHosts(())
    if words == ["all"]:
        return QueueHosts()
    if not words or all(word.startswith("~") for word in words):
        raise BadRequest(f"'{show(text)}' is neither a list of hosts nor of the form all ~HOST ...")
    excluded = {host for word in words if word.startswith("~") for host in names.expand(word[1:])}
    levels = _levels([word for word in words if not word.startswith("~")], names, text)
    left = {host: level for host, level in levels.items() if host not in excluded}
    if not left:
        raise BadRequest(f"'{show(text)}' leaves no host")
    return QueueHosts(tuple(left), {host: level for host, level in left.items() if level})


def _levels(words: Sequence[str], names: HostNames, text: str) -> dict[str, int]:
    """Host -> level of preference for the words that do not leave hosts out; the highest counts."""
    levels: dict[str, int] = {}
    others: list[int] = []
    for word in words:
        name, plus, level = word.partition("+")
        preference = _LEVEL(level) if level else int(bool(plus))
        if name == "others":
            others.append(preference)
        elif name == "all" and (plus or len(words) > 1):
            raise BadRequest(f"'{show(text)}' is neither a list of hosts nor of the form all ~HOST ...")
        else:
            levels.update({host: max(preference, levels.get(host, 0)) for host in names.expand(name)})
    if others and (len(others) > 1 or not levels):
        raise BadRequest(f"'{show(text)}': others stands once, beside other hosts")
    rest = names.servers if others else ()
    return levels | {host: others[0] for host in rest if host not in levels}
