"""What is seen of hosts, for the store: enough for a look at the past, little enough to be kept for ever.

What decides where jobs may run (who is there, GPUs, their modes and problems, load beyond a threshold) is recorded as
soon as it changes; what others keep on GPUs, and what elims report, once a minute at most; all else, which moves all
the time, every SAMPLE_S. A record holds what has changed since the one before, and every WHOLE_S all of all hosts.

It lives in the engine's thread, after everything that somebody waits for. It must never decide anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from gsched.base.packed_values import pack
from gsched.base.value_delta import delta_of
from gsched.core.dispatch.load_control import busy_reasons
from gsched.core.engine import Engine
from gsched.core.resources.host_entries import HostEntry
from gsched.core.resources.kept_observations import KeptObservation, kept_observation
from gsched.core.resources.observed_hosts import Observation
from gsched.core.resources.resource_values import host_values
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import GpuReport, HostConfig, LoadReport
from gsched.model.hosts.topology import Topology
from gsched.model.ledgers.devices import offer_of
from gsched.store.tables.schema import HostRecordRow

SAMPLE_S = 900.0
BRISK_S = 60.0
WHOLE_S = 6 * 3600.0
GATHER_S = 60.0
"""How long records that do not hurry are gathered: together they take less room."""
AT_ONCE = 50
"""Hosts that are recorded in one turn though nothing hurries."""
_NOTHING: dict[str, Any] = {}


@dataclass(slots=True)
class _Known:
    """What was seen of a host last, and what of it is recorded."""

    basis: tuple[bool, bool, LoadReport | None, GpuReport | None, Topology | None]
    urgent: tuple[object, ...]
    brisk: tuple[object, ...]
    recorded: KeptObservation | None = None
    recorded_at: float = float("-inf")
    due: float = 0.0
    """When what was seen is to be recorded; 0: it is recorded."""


class HostRecorder:
    """Records of one master's run. Times are UTC seconds."""

    def __init__(self, seq: int, now: float) -> None:
        self._hosts: dict[str, _Known] = {}
        self._waiting: set[str] = set()
        """Hosts of which something is to be recorded later."""
        self._entries: list[HostEntry] = []
        self._rows: list[HostRecordRow] = [HostRecordRow(now, seq, 1, pack([]))]  # nothing is known of any host
        self._flush_at = now
        self._whole_at = now + WHOLE_S
        self._due = float("inf")

    def note(self, engine: Engine, touched: Iterable[str], seq: int, now: float) -> None:
        """Look at these hosts, which have been published, and at those that are due."""
        for name in touched:
            self._see(engine, name, seq, now)
        if now >= self._due:
            due = [name for name in self._waiting if self._hosts[name].due <= now][:AT_ONCE]
            for name in due:
                self._record(name, engine.observations.of(name), seq, now)
            self._due = min((self._hosts[name].due for name in self._waiting), default=float("inf"))
        if now >= self._whole_at or self._whole_at > now + WHOLE_S:  # the clock may have been set back
            self._record_all(engine, seq, now)

    def is_due(self, now: float) -> bool:
        """Whether something is to be stored now."""
        return bool(self._rows or self._entries) and (now >= self._flush_at or self._flush_at > now + GATHER_S)

    def take(self) -> list[HostRecordRow]:
        """All that was recorded and not taken yet."""
        self._close_row()
        rows, self._rows = self._rows, []
        self._flush_at = float("inf")
        return rows

    def put_back(self, rows: list[HostRecordRow], now: float) -> None:
        """They could not be stored: they are to be taken once more, after a while."""
        self._rows = rows + self._rows
        self._flush_at = now + GATHER_S

    def _see(self, engine: Engine, name: str, seq: int, now: float) -> None:
        host, seen = engine.config.hosts.get(name), engine.observations.of(name)
        basis = (seen.connected, seen.lost, seen.load, seen.gpus, seen.topology)
        known = self._hosts.get(name)
        if known is not None and all(a is b for a, b in zip(known.basis, basis, strict=True)):
            return
        urgent, brisk = _urgent(host, engine.config, seen), _brisk(seen)
        if known is None:
            known = self._hosts[name] = _Known(basis, urgent, brisk)
        elif urgent == known.urgent:
            wait_s = SAMPLE_S if brisk == known.brisk else BRISK_S
            due = max(now, known.recorded_at + wait_s)
            known.due = min(known.due, due) if known.due else due
            known.basis = basis
            self._waiting.add(name)
            self._due = min(self._due, known.due)
            return
        known.basis, known.urgent = basis, urgent
        self._record(name, seen, seq, now)
        self._flush_at = now

    def _record(self, name: str, seen: Observation, seq: int, now: float) -> None:
        known, kept = self._hosts[name], kept_observation(seen)
        before = _NOTHING if known.recorded is None else msgspec.to_builtins(known.recorded)
        delta = delta_of(before, msgspec.to_builtins(kept))
        known.recorded, known.recorded_at, known.due, known.brisk = kept, now, 0.0, _brisk(seen)
        self._waiting.discard(name)
        if delta is not None:
            self._entries.append((name, now, seq, delta))
            self._flush_at = min(self._flush_at, now + GATHER_S)

    def _record_all(self, engine: Engine, seq: int, now: float) -> None:
        self._close_row()
        self._whole_at = now + WHOLE_S
        entries: list[HostEntry] = []
        for name, known in self._hosts.items():
            known.recorded, known.recorded_at, known.due = kept_observation(engine.observations.of(name)), now, 0.0
            delta = delta_of(_NOTHING, msgspec.to_builtins(known.recorded))
            entries += [] if delta is None else [(name, now, seq, delta)]
        self._waiting.clear()
        self._rows.append(HostRecordRow(now, seq, 1, pack(entries)))
        self._flush_at = min(self._flush_at, now + GATHER_S)

    def _close_row(self) -> None:
        if self._entries:
            _, at, seq, _ = self._entries[0]
            self._rows.append(HostRecordRow(at, seq, 0, pack(self._entries)))
            self._entries = []


def _urgent(host: HostConfig | None, config: ClusterConfig, seen: Observation) -> tuple[object, ...]:
    """What decides at once."""
    gpus = offer_of(seen.gpus)
    if gpus is not None:
        gpus = msgspec.structs.replace(
            gpus, gpus=tuple(msgspec.structs.replace(gpu, foreign_mib=None) for gpu in gpus.gpus)
        )
    problems = [(gpu.problem, gpu.xids, gpu.hit) for gpu in seen.gpus.gpus] if seen.gpus is not None else None
    busy: frozenset[str] = frozenset()
    if host is not None and (host.thresholds or config.can_suspend):
        busy = frozenset(busy_reasons(host, config.queues, host_values(config, host, seen), config))
    load = None if seen.load is None else (seen.load.ncpus, seen.load.notes, seen.load.external.keys())
    return (seen.connected, seen.lost, seen.version, seen.only_user, gpus, problems, seen.topology, busy, load)


def _brisk(seen: Observation) -> tuple[object, ...]:
    """What may decide, and moves."""
    return (offer_of(seen.gpus), None if seen.load is None else seen.load.external)
