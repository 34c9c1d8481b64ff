"""What agents have said about their hosts: volatile, never an event, gone with the process.

After a restart of the master a host is unknown until its agent has said hello; nothing is started there before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gsched.base.coded_text import AnyText
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.hosts.host import GpuReport, LoadReport
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import Usage
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey


@dataclass(slots=True)
class Roll:
    """What is known of all hosts together."""

    away: set[str] = field(default_factory=set)
    """Hosts whose agents are not connected and that are not lost yet: mostly none, so that nobody looks at all."""
    last_first: float = float("-inf")
    """When a host last said hello that had not been heard of since this master began to listen, UTC seconds."""
    reporters: dict[str, str] = field(default_factory=dict)
    """Instance of a shared resource that elims feed (SharedInstance.key) -> the host whose agent reports it."""
    shared: dict[str, float | None] = field(default_factory=dict)
    """The same -> what was reported last; None: nobody knows now."""

    gpu_names: frozenset[str] = frozenset()
    """Resources of GPUs (model.reported_resources) that any requirement has asked about: only these are worked out."""

    def reported_by(self, host: str) -> tuple[str, ...]:
        """The shared resources that the host's agent reports."""
        return tuple(key.rpartition(" ")[0] for key, reporter in self.reporters.items() if reporter == host)


@dataclass(frozen=True, slots=True)
class UnrecordedAttempt:
    """An attempt that the store has no record of."""

    part: HostAllocation | None
    """What it holds on the host; None: it is over, and its agent keeps the result."""


@dataclass(slots=True)
class Observation:
    """One host as its agent sees it. `last_heard` is UTC seconds."""

    host: str = ""
    roll: Roll = field(default_factory=Roll)
    """Shared by all hosts."""
    connected: bool = False
    session: int = 0
    boot_id: str = ""
    version: str = ""
    last_heard: float = 0.0
    load: LoadReport | None = None
    gpus: GpuReport | None = None
    topology: Topology | None = None
    """The processors that its agent found when it connected."""
    only_user: str = ""
    """Its agent starts this user's jobs alone."""
    confirms_signals: bool = False
    """Its agent tells which signals it has sent."""
    usage: dict[AttemptKey, Usage] = field(default_factory=dict)
    idle: dict[AttemptKey, AttemptIdleness] = field(default_factory=dict)
    """How idle the GPUs of attempts are there."""
    unaccounted: dict[AttemptKey, HostAllocation] = field(default_factory=dict)
    """Attempts that run there though the state does not say so; their slots and GPUs stay reserved."""
    unrecorded: dict[AttemptKey, UnrecordedAttempt] = field(default_factory=dict)
    """Attempts there, running or over, that no record of the state can have led to."""
    unwanted: set[AttemptKey] = field(default_factory=set)
    """Those of them that an administrator wants to have ended."""
    stale: set[AttemptKey] = field(default_factory=set)
    """Attempts of jobs that are not in memory whose results are on record."""
    removed_outputs: int = 0
    """So many have been noted on the day `removed_outputs_day` (UTC)."""
    removed_outputs_day: int = 0
    exits: list[float] = field(default_factory=list)
    """When attempts have failed there, see core.attempts.exit_rates; UTC seconds."""
    lost: bool = False
    """Silent for so long that its jobs are UNKWN."""
    last_dispatch: float = float("-inf")
    kept_values: tuple[tuple[object, ...], dict[str, float | str | bool | None]] | None = None
    """What resource_values.host_values has found last, behind what it has found it in."""
    kept_notes: tuple[GpuReport, tuple[AnyText, ...]] | None = None
    """What host_queue_views has to say of the GPUs of this report, as they are offered."""

    def __post_init__(self) -> None:
        self.roll.away.add(self.host)

    def meet(self, session: int, now: float) -> None:
        """Its agent has said hello."""
        if not self.session:
            self.roll.last_first = now
        self.connected, self.session, self.last_heard, self.lost = True, session, now, False
        self.roll.away.discard(self.host)

    def part(self) -> None:
        """Its agent has gone."""
        self.connected = False
        if not self.lost:
            self.roll.away.add(self.host)

    def give_up(self) -> None:
        """Count the host as lost: it has been away for too long."""
        self.lost = True
        self.roll.away.discard(self.host)


Observed = Callable[[str], Observation]
"""What is known about the host of a name."""


class Observations:
    """All hosts' observations; `started_at` is when this master began to listen."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.roll = Roll()
        self._hosts: dict[str, Observation] = {}
        self._dispatched: dict[str, float] = {}
        """Host -> when a job was last started there; who was asked for by `first_dispatch` long ago is left out."""

    def of(self, host: str) -> Observation:
        """The host's observation, empty at first."""
        found = self._hosts.get(host)
        if found is None:
            found = self._hosts[host] = Observation(host, self.roll, last_heard=self.started_at)
        return found

    def dispatched(self, host: str, now: float) -> None:
        """A job is started there."""
        self.of(host).last_dispatch = now
        self._dispatched.pop(host, None)
        self._dispatched[host] = now

    def first_dispatch(self, since: float) -> float | None:
        """The earliest of all hosts' last starts that were after `since`."""
        while self._dispatched:
            host, at = next(iter(self._dispatched.items()))
            if at > since:
                return at
            del self._dispatched[host]
        return None

    def with_unrecorded(self) -> list[tuple[str, Observation]]:
        """Hosts with attempts that the store has no record of, by name."""
        return sorted(((host, seen) for host, seen in self._hosts.items() if seen.unrecorded), key=lambda each: each[0])

    def unaccounted(self) -> set[AttemptKey]:
        """Keys of all orphaned attempts on all hosts."""
        return {key for observation in self._hosts.values() for key in observation.unaccounted}
