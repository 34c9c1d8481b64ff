"""lsb.queues: one section per queue. Source: lsb.queues(5).

A queue's RES_REQ is checked with the grammar that jobs' requirements are read with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.base.units import parse_run_limit
from gsched.config.findings import Findings, show, suggestion
from gsched.config.sections import Section, read_entries
from gsched.config.unsupported import REFUSED_QUEUE
from gsched.config.values import Settings, integer, plain_text, queue_name, user_name
from gsched.model.host import HostConfig
from gsched.model.queue import Queue
from gsched.model.resource import BUILTIN, Resource, ResourceType, gpu_counter_claims
from gsched.resreq.names import canonical, check_names
from gsched.resreq.syntax import parse

_LIMIT = integer(0, 2**31 - 2)


def read_queues(
    sections: Sequence[Section],
    hosts: Mapping[str, HostConfig],
    resources: Mapping[str, Resource],
    findings: Findings,
) -> dict[str, Queue]:
    """All queues by name in file order. Every problem goes to `findings`; that there is no queue is the caller's."""
    queues: dict[str, Queue] = {}
    for section in sections:
        if findings.is_full(section.at.path):
            break
        if section.name.casefold() != "queue":
            findings.error(section.at, f"unknown section {section.name} in lsb.queues; it holds Queue")
            continue
        queue = _read_queue(section, hosts, resources, findings)
        if queue is not None and queue.name in queues:
            findings.error(section.at, f"queue {queue.name} is defined twice (first at {queues[queue.name].source})")
        elif queue is not None:
            queues[queue.name] = queue
    return queues


def _read_queue(
    section: Section, hosts: Mapping[str, HostConfig], resources: Mapping[str, Resource], findings: Findings
) -> Queue | None:
    settings = Settings(read_entries(section, findings), findings, where="section Queue")
    name = settings.take("QUEUE_NAME", queue_name, "")
    if not name and settings.place("QUEUE_NAME") is None:
        findings.error(section.at, "the queue has no QUEUE_NAME")
    no_limits: tuple[int | None, int | None] = (None, None)
    run_limit, default_run_limit = settings.take("RUNLIMIT", _run_limits, no_limits)
    queue = Queue(
        name=name,
        priority=settings.take("PRIORITY", integer(1, 2**31 - 2), 1),
        description=settings.take("DESCRIPTION", plain_text, ""),
        nice=settings.take("NICE", integer(-20, 19), 0),
        hosts=settings.take("HOSTS", lambda text: _hosts(text, hosts), None),
        users=settings.take("USERS", _users, None),
        job_limit=settings.take("QJOB_LIMIT", _LIMIT, None),
        user_limit=settings.take("UJOB_LIMIT", _LIMIT, None),
        host_limit=settings.take("HJOB_LIMIT", _LIMIT, None),
        run_limit_s=run_limit,
        default_run_limit_s=default_run_limit,
        res_req=settings.take("RES_REQ", lambda text: _requirement(text, resources), ""),
        source=str(section.at),
    )
    settings.finish(REFUSED_QUEUE, {})
    return queue if name else None


def _run_limits(text: str) -> tuple[int | None, int | None]:
    """(maximum, default) in seconds of `[default] maximum`."""
    words = text.split()
    if any("/" in word for word in words):
        raise BadRequest(f"'{show(text)}': a run limit normalized by a host is not supported yet")
    if len(words) not in (1, 2):
        raise BadRequest(f"'{show(text)}' is not of the form [default] maximum")
    limits = [parse_run_limit(word) for word in words]
    if limits[0] > limits[-1]:
        raise BadRequest(f"the default {words[0]} exceeds the maximum {words[-1]}")
    return limits[-1], limits[0] if len(limits) == 2 else None


def _hosts(text: str, hosts: Mapping[str, HostConfig]) -> tuple[str, ...] | None:
    """Host names in the order written, or None for `all`; `all ~h` is worked out here."""
    words = text.split()
    if words == ["all"]:
        return None
    for word in words:
        name = word.removeprefix("~")
        if "+" in word or word in ("others", "none", "allremote") or "@" in word:
            raise BadRequest(f"'{show(word)}': host preferences and others, none, allremote are not supported yet")
        if name != "all" and name not in hosts:
            near = suggestion(name, hosts)
            raise BadRequest(f"host {show(name)} is not defined in lsf.cluster (groups are not supported yet){near}")
        if name != "all" and not hosts[name].server:
            raise BadRequest(f"host {name} is a client (server 0) and runs no jobs")
    excluded = {word[1:] for word in words if word.startswith("~")}
    if not excluded and "all" not in words:
        return tuple(dict.fromkeys(words))
    if words[0] != "all" or len(excluded) == 0 or any(not word.startswith("~") for word in words[1:]):
        raise BadRequest(f"'{show(text)}' is neither a list of hosts nor of the form all ~HOST ...")
    left = tuple(host.name for host in hosts.values() if host.server and host.name not in excluded)
    if not left:
        raise BadRequest(f"'{show(text)}' leaves no host")
    return left


def _users(text: str) -> tuple[str, ...] | None:
    words = text.split()
    if words == ["all"]:
        return None
    return tuple(dict.fromkeys(user_name(word) for word in words))


def _requirement(text: str, resources: Mapping[str, Resource]) -> str:
    """The text, once it is known that jobs can be held to it. Raises RequirementError or BadRequest."""
    requirement = parse(text)
    known = {**BUILTIN, **resources}
    check_names(requirement, known.__contains__, known, is_text=lambda name: known[name].type is ResourceType.STRING)
    for item in requirement.rusage:
        resource = known[canonical(item.name)]
        if resource.name not in gpu_counter_claims() and not resource.consumable:
            raise BadRequest(f"rusage[{resource.name}]: the resource is not consumable, jobs cannot reserve it")
    return text
