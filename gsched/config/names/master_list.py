"""The hosts of masters: LSF_MASTER_LIST of lsf.conf, or LSF_MANAGEMENT_LIST, which is its newer name.

Source: lsf.conf(5). Whether the hosts are those of the cluster is said where all files are known. It must never choose
between two lists that differ.
"""

from __future__ import annotations

import msgspec

from gsched.base.envdir import MASTER_LISTS
from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace
from gsched.config.grammar.values import KeyValues, host_name


class MasterList(msgspec.Struct, frozen=True):
    """The hosts in order, the parameter that names them, and where it stands; `at` None: it is not set."""

    hosts: tuple[str, ...] = ()
    name: str = MASTER_LISTS[0]
    at: SourcePlace | None = None


def read_master_list(settings: KeyValues, findings: Findings) -> MasterList:
    """The list under either name. Two that differ are an error; the older name holds then."""
    found: list[MasterList] = []
    for name in MASTER_LISTS:
        hosts, at = settings.take(name, _hosts, ()), settings.place(name)
        if at is not None:
            found.append(MasterList(hosts, name, at))
    if len(found) > 1 and found[0].hosts != found[1].hosts and all(each.hosts for each in found):
        first, second = found
        text = f"{second.name} is another name of {first.name}, which names other hosts at {first.at}"
        findings.error(second.at or SourcePlace(""), text)
    return found[0] if found else MasterList()


def _hosts(text: str) -> tuple[str, ...]:
    names = tuple(host_name(word) for word in text.split())
    if not names:
        raise BadRequest("it names no host")
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise BadRequest(f"{twice} is named twice")
    return names
