"""The hosts of bsub's -m: `"gpu01! gpu02+2 rack1+1 others"`, and of the file of -hostfile, which is not opened here.

Names are not looked up: groups are the master's to know. Source: bsub(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobSpec

_WORD = re.compile(r"(?P<name>[^\s+!~]+)(?:(?P<first>!)|(?P<plus>\+)(?P<level>[0-9]{1,6})?)?", re.ASCII)
_PLAIN_ONLY = ("all", "others")


@dataclass(slots=True)
class AskedHosts:
    """Hosts and groups in order with their levels (0: none given); `first`: candidates for the first execution host."""

    levels: dict[str, int] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    others: bool = False
    everywhere: bool = False
    """`all` stood there: with nothing else it means no restriction, with others the same as `others`."""


def read_hosts(text: str) -> AskedHosts:
    """What -m asks for. Raises BadRequest naming the word that is wrong."""
    asked = AskedHosts()
    for word in text.split():
        _take(word, asked)
    if not text.strip():
        raise BadRequest("option -m needs the name of a host or host group")
    if asked.others and not asked.levels:
        raise BadRequest("-m: 'others' means those that are not named: name at least one host beside it")
    asked.others = asked.others or (asked.everywhere and bool(asked.levels))
    return asked


def _take(word: str, asked: AskedHosts) -> None:
    if word.startswith("~"):
        raise BadRequest(f"-m: leaving out hosts ('{word[:40]}') is not supported yet; use -R \"select[hname!=...]\"")
    found = _WORD.fullmatch(word)
    if found is None:
        raise BadRequest(f"-m: '{word[:40]}' is not of the form HOST, HOST+LEVEL or HOST!")
    name = found["name"]
    if name in _PLAIN_ONLY:
        if word != name:
            raise BadRequest(f"-m: '{word[:40]}': '{name}' takes neither + nor !")
        asked.others = asked.others or name == "others"
        asked.everywhere = asked.everywhere or name == "all"
        return
    level = int(found["level"] or 1) if found["plus"] else 0
    is_first = found["first"] is not None
    if name in asked.levels and (asked.levels[name], name in asked.first) != (level, is_first):
        raise BadRequest(f"-m: '{name}' is named twice and differently")
    if is_first and name not in asked.first:
        asked.first.append(name)
    asked.levels[name] = level


MOST_SLOTS = 1_000_000
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})", re.ASCII)

ReadHostFile = Callable[[str], str]
"""Path as it was given -> the file's text. Raises BadRequest where it cannot be read."""


def no_host_file(path: str) -> str:
    """For who reads options away from the files that they name. Raises BadRequest."""
    raise BadRequest(f"-hostfile {path[:60]}: the file is read where a job is submitted, and not here")


def read_host_file(path: str, text: str) -> dict[str, int]:
    """Host -> slots, in the order of the file; a host that stands there again gets the sum. Raises BadRequest naming
    the line that is wrong.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        slots = words[1] if len(words) > 1 else "1"
        is_count = slots.isascii() and slots.isdigit() and 0 < int(slots[:9]) <= MOST_SLOTS
        if len(words) > 2 or not is_count or _HOST_NAME.fullmatch(words[0]) is None:
            raise BadRequest(f"-hostfile: {path[:60]}, line {number}: '{line.strip()[:60]}' is not HOST [SLOTS]")
        found[words[0]] = found.get(words[0], 0) + int(slots)
    if not found:
        raise BadRequest(f"-hostfile: {path[:60]} names no host")
    return found


def requirement_of(hosts: dict[str, int]) -> str:
    """What puts just so many slots on each of these hosts."""
    if len(hosts) == 1:
        return "span[hosts=1]"
    return " + ".join(f"{slots}*{{select[hname=={host}]}}" for host, slots in hosts.items())


_PART_OF_FILE = re.compile(r"([0-9]+)\*\{select\[hname==([^\]\s]+)\]\}")


def host_file_of(spec: JobSpec) -> dict[str, int]:
    """Host -> slots of a job that was asked for with -hostfile; empty: it was not."""
    if spec.first_hosts != spec.hosts[:1] or not spec.hosts:
        return {}
    found = {host: int(slots) for slots, host in _PART_OF_FILE.findall(spec.res_req)} or {spec.hosts[0]: spec.slots}
    return found if tuple(found) == spec.hosts and requirement_of(found) == spec.res_req else {}
