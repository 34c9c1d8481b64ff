"""Administrators close single GPUs for new jobs, and open them: `gadmin gpuclose`, `gpuopen`.

Jobs that hold such a GPU are never touched. Who may is as for hosts (`administration.control_hosts`). A GPU that an
error closes is closed by the agent (`agent.gpu.gpu_health`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec

from gsched.base.coded_text import has_code, sentence
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.authorization import cluster_denied, host_denied
from gsched.core.command import ControlGpus
from gsched.core.control.administration import hosts_ruled_by
from gsched.core.decision import Decision
from gsched.core.instruction import OpenGpu
from gsched.model.event import GpuClosed, GpuOpened
from gsched.model.gpus.gpu_use import is_mig_device
from gsched.model.hosts.host import Gpu
from gsched.model.views.view import Answer

_PLACE = re.compile(r"(.+):([0-9]{1,6})", re.ASCII)
_LATEST = 221_876_841_600.0
"""The year 9001, UTC seconds: what is later may not be a date in every zone."""

_VERDICTS = ("gpu.check_failed", "gpu.check_code", "gpu.check_hangs", "gpu.check_not_run")
"""Why the site's health program closes a GPU."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A GPU that the caller means."""

    name: str
    """As he named it."""
    host: str
    uuid: str
    index: int
    gpu: Gpu | None
    """As it was seen last; None when it is not there."""


def control_gpus(command: ControlGpus, decision: Decision) -> None:
    """Reply: an Answer for each name, its text why an opened one takes no jobs all the same. All of them or none."""
    if command.action not in ("open", "close"):
        raise BadRequest(f"'{command.action}' is not something that can be done to a GPU")
    if not command.gpus:
        raise BadRequest("no GPU is named: HOST:INDEX or a UUID")
    ruled = hosts_ruled_by(command.user, decision.config)
    if not command.is_admin and not ruled:
        raise PermissionDenied(cluster_denied(decision.config))
    if command.until is not None and command.until <= decision.now:
        raise BadRequest("the time until which the GPU is to be closed is past")
    if command.until is not None and command.until > _LATEST:
        raise BadRequest("the time until which the GPU is to be closed is after the year 9000")
    inventory = _Inventory(decision)
    named = [inventory.find(name) for name in command.gpus]
    for each in named:
        if not command.is_admin and each.host not in ruled:
            raise PermissionDenied(f"{each.name}: {host_denied(each.host, decision.config)}")
    for each in named:
        _apply(each, command, decision)
    decision.reply = [Answer(name=each.name, text=_still_closed(each, command, decision)) for each in named]


def open_overdue(decision: Decision) -> set[str]:
    """Open those whose time has come; returns their hosts."""
    overdue = [each for each in decision.state.closed_gpus.values() if each.until is not None]
    overdue = [each for each in overdue if (each.until or 0.0) <= decision.now]
    for each in overdue:
        decision.record(GpuOpened(at=decision.now, host=each.host, uuid=each.uuid, index=each.index, by=""))
    return {each.host for each in overdue}


def _apply(named: _Named, command: ControlGpus, decision: Decision) -> None:
    host, uuid, index, now = named.host, named.uuid, named.index, decision.now
    if command.action == "close":
        closed = GpuClosed(at=now, host=host, uuid=uuid, index=index, by=command.user, comment=command.comment)
        decision.record(msgspec.structs.replace(closed, until=command.until))
        return
    gpu = named.gpu
    if gpu is not None and gpu.problem and decision.observed(host).connected:
        decision.instruct(OpenGpu(host, uuid))
    if (host, uuid) in decision.state.closed_gpus or (gpu is not None and _is_let_go(gpu)):
        decision.record(GpuOpened(at=now, host=host, uuid=uuid, index=index, by=command.user))


def _still_closed(named: _Named, command: ControlGpus, decision: Decision) -> str:
    """What keeps jobs from an opened GPU that its agent was not told to let go."""
    gpu = named.gpu
    if command.action == "close" or gpu is None or (_is_let_go(gpu) and decision.observed(named.host).connected):
        return ""
    return sentence(gpu.problem)


def _is_let_go(gpu: Gpu) -> bool:
    """Whether its agent offers it again when it is told that the GPU is well."""
    return bool(gpu.fault) or has_code(gpu.problem, *_VERDICTS)


class _Inventory:
    """All GPUs of the cluster by their names: those that are seen, and closed ones that are not there now."""

    def __init__(self, decision: Decision) -> None:
        self._hosts = decision.config.hosts.keys()
        self._known = set()
        self._of_uuid: dict[str, list[_Named]] = {}
        self._at: dict[tuple[str, int], _Named] = {}
        for host in self._hosts:
            report = decision.observed(host).gpus
            if report is not None:
                self._known.add(host)
            for gpu in report.gpus if report is not None else ():
                self._enter(_Named(gpu.uuid, host, gpu.uuid, gpu.index, gpu))
        for closure in decision.state.closed_gpus.values():
            if all(each.host != closure.host for each in self._of_uuid.get(closure.uuid, ())):
                self._enter(_Named(closure.uuid, closure.host, closure.uuid, closure.index, None))

    def _enter(self, gpu: _Named) -> None:
        self._of_uuid.setdefault(gpu.uuid, []).append(gpu)
        self._at.setdefault((gpu.host, gpu.index), gpu)

    def find(self, name: str) -> _Named:
        """The GPU that `HOST:INDEX` or a UUID names. Raises BadRequest."""
        place = _PLACE.fullmatch(name)
        if place is not None:
            return replace(self._find_at(name, place[1], int(place[2])), name=name)
        if ":" in name:
            raise BadRequest(f"{name}: Bad GPU name: HOST:INDEX or a UUID")
        if is_mig_device(name):
            raise BadRequest(f"{name}: a part of a GPU cannot be closed by itself; name the GPU")
        found = self._of_uuid.get(name, [])
        if not found:
            raise BadRequest(f"{name}: no host has this GPU (HOST:INDEX or a UUID, as ghosts -gpu -l shows them)")
        if len(found) > 1:
            places = ", ".join(f"{each.host}:{each.index}" for each in found)
            raise BadRequest(f"{name}: several hosts have a GPU of this name: {places}")
        return found[0]

    def _find_at(self, name: str, host: str, index: int) -> _Named:
        if host not in self._hosts:
            raise BadRequest(f"{host}: Bad host name")
        found = self._at.get((host, index))
        if found is None and host not in self._known:
            raise BadRequest(f"{name}: the GPUs of host {host} are not known now")
        if found is None:
            raise BadRequest(f"{name}: host {host} has no GPU {index}")
        return found
