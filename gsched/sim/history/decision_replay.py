"""What a master's scheduler decided, decided again: at each moment of the record, on what was known then.

The state always follows the record, so that one decision that differs does not make others differ. The configuration is
the one that was in force, hosts are what their agents had told. It reads a store and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gsched.base.coded_text import sentence
from gsched.base.counts import counted
from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import show_job
from gsched.base.moments import shown_utc
from gsched.config.kept_files import config_of
from gsched.core.scheduling_replay import CycleChoices, SchedulingReplay
from gsched.core.state.apply_events import IllegalEvent
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, ConfigApplied, JobDispatched, JobRequeueRequested, JobSubmitted, JobSuspended
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Preempted
from gsched.sim.history.deviation import place_of
from gsched.sim.history.recorded_history import store_of
from gsched.sim.history.recorded_moments import RecordedMoment, moments_of, wakes
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine

LATE_S = 5.0
"""A job that could start, and is not started for so long while the master runs, was decided about otherwise."""
RENEWED_S = 1.0
"""After what it has started itself a cycle follows that looks at those that wait, see gsched.master.engine_thread."""
MOST_BEFORE = 8
"""Submissions during one cycle that are looked behind."""
TELL_EVERY = 1_000
"""Moments from one word of progress to the next."""
ReplayProgress = Callable[[int, float], None]
"""(starts decided again, seconds of recorded time)."""


@dataclass(frozen=True, slots=True)
class DecisionDeviation:
    """A decision that comes out otherwise."""

    job_id: int
    at: float
    """UTC seconds."""
    then: str
    now: str
    why: str


@dataclass(slots=True)
class DecisionReplay:
    """What came of it. Times are UTC seconds."""

    since: float
    until: float
    starts: int = 0
    """Decided again."""
    same_place: int = 0
    """Of them: on the same hosts, slots and GPUs."""
    by_load: int = 0
    """Of the others: where the load of hosts, which is not kept of each moment, decides between them."""
    preemptions: int = 0
    by_hand: int = 0
    """Starts where somebody had said that, or where: not decided again."""
    deviations: list[DecisionDeviation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Why the record does not tell all, a line each."""


def replay_decisions(
    path: str, since: float | None = None, until: float | None = None, progress: ReplayProgress | None = None
) -> DecisionReplay:
    """Decide again what is recorded in the store at `path` (see `read_history`), from `since` to `until`, UTC seconds.

    Raises BadRequest where nothing of the kind is kept or a time is outside of the record, and as `read_history`.
    """
    store = store_of(path)
    span, facts, hosts_since, floor = store.span(), store.configurations(), store.hosts_since(), store.floor()
    if span is None or not facts or hosts_since is None:
        raise BadRequest(f"{path}: it keeps no configuration, so nothing can be decided again")
    begin, end = max(span[0], facts[0].at, hosts_since, floor.at), span[1]
    since = begin if since is None else since
    until = end if until is None else until
    if gone := floor.why_not(since):
        raise BadRequest(f"{path}: {gone}")
    if since < begin:
        raise BadRequest(f"{shown_utc(since)} is before history begins: {path} tells all from {shown_utc(begin)} on")
    if since > end:
        raise BadRequest(f"{shown_utc(since)} is after history ends: {path} tells of nothing after {shown_utc(end)}")
    if until < since:
        raise BadRequest(f"{shown_utc(until)} is before {shown_utc(since)}: there is nothing between them")
    replay = _Replay(store, path, DecisionReplay(since, min(until, end)))
    replay.run(progress)
    return replay.found


class _Replay:
    def __init__(self, store: PastStore, path: str, found: DecisionReplay) -> None:
        self.found = found
        self._store, self._path = store, path
        self._scheduler: SchedulingReplay | None = None
        """None: no configuration is known yet."""
        self._digest = ""
        self._knows_hosts = False
        self._could: dict[int, tuple[float, Allocation]] = {}
        """Job that could start and has not -> since when, and where."""
        self._told: set[int] = set()
        """Jobs of which it was told that they could have started."""
        self._cut = 0
        self._renew_at: float | None = None
        self._before: list[CycleChoices] = []
        """What a cycle would have decided before each of the submissions that came last: jobs that come while a cycle
        is under way are not seen by it.
        """

    def run(self, progress: ReplayProgress | None) -> None:
        """Go through the record."""
        checkpoint = self._store.checkpoint_before(self.found.since)
        state, seq = (ClusterState(), 0) if checkpoint is None else (ClusterState.load(checkpoint[1]), checkpoint[0])
        self._check_floor(seq)
        quarantine = Quarantine(state.quarantined)
        self._configure_at(state, seq)
        self._moments(state, moments_of(self._store, self._path, seq, quarantine), quarantine, progress)
        self._check_floor(seq)  # it may have risen meanwhile
        found = self.found
        if found.by_hand:
            text = f"{counted(found.by_hand, 'starts')} by hand (grun, qrun): they are not decided again"
            found.notes.append(text)
        if found.by_load:
            text = "the load of hosts decided between equal ones, and is kept for every 15 minutes only"
            found.notes.append(f"{counted(found.by_load, 'starts')}: {text}")
        if self._cut:
            found.notes.append(f"{counted(self._cut, 'cycles')} came to the end of what one may look at")

    def _check_floor(self, seq: int) -> None:
        """Raises BadRequest where events after number `seq` are gone, so that a replay from there tells nothing."""
        floor = self._store.floor().seq
        if seq < floor:
            text = f"all events are kept from {floor} on, and no checkpoint of {shown_utc(self.found.since)} from there"
            raise BadRequest(f"{self._path}: nothing can be decided again: {text}")

    def _configure_at(self, state: ClusterState, seq: int) -> None:
        """The configuration that was in force when event `seq` was recorded."""
        at = self._store.time_of(seq) if seq else None
        facts = [] if at is None else [fact for fact in self._store.configurations() if fact.at <= at]
        if facts and at is not None:
            self._scheduler = SchedulingReplay(state, config_of(facts[-1], self._store.files_of(facts[-1])), at)
            self._digest = facts[-1].digest

    def _moments(
        self,
        state: ClusterState,
        moments: Iterable[RecordedMoment],
        quarantine: Quarantine,
        progress: ReplayProgress | None,
    ) -> None:
        for count, (moment, following) in enumerate(_with_next(moments)):
            if moment.at > self.found.until:
                return
            if progress is not None and count % TELL_EVERY == 0 and moment.at > self.found.since:
                progress(self.found.starts, moment.at - self.found.since)
            self._let_go_on(state, moment, quarantine)
            self._note_late(moment)
            self._renew(moment)
            self._note_before(moment)
            if moment.is_decision and self._decides(moment.at):
                self._compare(moment)
            self._take_in(state, moment, quarantine)
            if self._decides(moment.at) and not moment.is_start and not moment.unreadable:
                self._look_on(moment, following)

    def _let_go_on(self, state: ClusterState, moment: RecordedMoment, quarantine: Quarantine) -> None:
        """Jobs that go on with another number of GPUs start before a cycle decides, and it decides nothing of them."""
        for seq, event in [*moment.events] if state.waits.resized else ():
            if isinstance(event, JobDispatched) and event.job_id in state.waits.resized:
                self._apply(state, seq, event, quarantine)
                moment.events.remove((seq, event))

    def _decides(self, at: float) -> bool:
        """Whether what is decided at that time can be, and is to be, decided again."""
        return self._scheduler is not None and self._knows_hosts and at >= self.found.since

    # -- what is recorded -----------------------------------------------------------------------------------------

    def _take_in(self, state: ClusterState, moment: RecordedMoment, quarantine: Quarantine) -> None:
        if moment.is_start:
            self._knows_hosts = True
            self._could.clear()
            if self._scheduler is not None:
                self._scheduler.begin(moment.at)
        for host, kept in moment.seen:
            self._knows_hosts = True
            if self._scheduler is not None:
                self._scheduler.see(host, kept, moment.at)
        for record in moment.unreadable:
            self.found.notes.append(f"{self._path}: {record.text}")
            if record.job_id is not None:
                state.set_aside(record.job_id, record.text)
        for seq, event in moment.events:
            self._apply(state, seq, event, quarantine)

    def _apply(self, state: ClusterState, seq: int, event: AnyEvent, quarantine: Quarantine) -> None:
        try:
            (state if self._scheduler is None else self._scheduler).apply(event)
        except IllegalEvent as error:
            self.found.notes.append(f"{self._path}: event {seq} does not fit: {error}")
            job_id = getattr(event, "job_id", None)
            if job_id is not None:
                quarantine.add(job_id, str(error))
                state.set_aside(job_id, str(error))
        if isinstance(event, ConfigApplied) and event.files and event.digest != self._digest:
            try:
                config = config_of(event, self._store.files_of(event))
            except GschedError as error:
                raise BadRequest(f"{self._path}: event {seq}: {error.text}") from None
            self._digest = event.digest
            if self._scheduler is None:
                self._scheduler = SchedulingReplay(state, config, event.at)
            else:
                self._scheduler.configure(config)
        state.take_touched()

    # -- what is decided again ------------------------------------------------------------------------------------

    def _decided(self, at: float) -> CycleChoices:
        assert self._scheduler is not None
        found = self._scheduler.decide(at)
        self._cut += found.is_cut
        return found

    def _compare(self, moment: RecordedMoment) -> None:
        """What a cycle has decided beside what it decides now."""
        assert self._scheduler is not None
        found = self.found
        choices = self._decided(moment.at)
        started, preempted = _decided_then(moment)
        by_hand = {job_id for job_id in started if self._scheduler.is_forced(job_id)}
        found.by_hand += len(by_hand)
        then = {job_id: place for job_id, place in started.items() if job_id not in by_hand}
        choices = next((each for each in (choices, *self._before) if _agrees(each, then)), choices)
        others = {job_id: place for job_id, place in then.items() if not _is_same(choices.places.get(job_id), place)}
        found.starts += len(then)
        found.same_place += len(then) - len(others)
        found.preemptions += len(preempted)
        if others and self._is_by_load(moment.at, then, others):
            found.by_load += len(others)
            others = {}
        for job_id, place in others.items():
            self._deviates(job_id, moment.at, place, choices.places.get(job_id))
        for each in sorted(preempted - choices.preempted, key=lambda each: each.job_id):
            text = f"preempted by job {show_job(each.by)}"
            found.deviations.append(DecisionDeviation(each.job_id, moment.at, text, "goes on", ""))
        self._told -= started.keys()
        self._could = {
            job_id: self._could.get(job_id, (moment.at, place))
            for job_id, place in choices.places.items()
            if job_id not in started
        }

    def _note_before(self, moment: RecordedMoment) -> None:
        if moment.is_decision:
            return
        if not moment.events or not all(isinstance(event, JobSubmitted) for _, event in moment.events):
            self._before.clear()
        elif self._decides(moment.at) and self._scheduler is not None:
            self._before = [*self._before[-MOST_BEFORE + 1 :], self._scheduler.would_decide(moment.at)]

    def _is_by_load(self, at: float, then: dict[int, Allocation], others: dict[int, Allocation]) -> bool:
        """Whether all of it comes out as it did if just the hosts that were chosen had less load than others."""
        assert self._scheduler is not None
        if len(self._scheduler.config.hosts) < 2:
            return False
        hosts = [part.host for place in others.values() for part in place.hosts]
        choices = self._scheduler.decide_by_load(at, hosts)
        return _agrees(choices, then)

    def _deviates(self, job_id: int, at: float, then: Allocation, now: Allocation | None) -> None:
        assert self._scheduler is not None
        why = ""
        if now is None:
            why = "; ".join(sentence(reason.text) for reason in self._scheduler.reasons(at, job_id))
        shown = "waits" if now is None else _shown(now)
        self.found.deviations.append(DecisionDeviation(job_id, at, _shown(then), shown, why))

    def _look_on(self, moment: RecordedMoment, following: RecordedMoment | None) -> None:
        """The cycles that decided nothing: what they plan for later, and whether something could have started."""
        if moment.is_decision:
            self._renew_at = moment.at + RENEWED_S
        if following is None or moment.is_decision or not wakes(moment) or _is_its_cycle(moment, following):
            return
        self._renew_at = None
        self._look(moment.at)

    def _renew(self, moment: RecordedMoment) -> None:
        """The cycle that looks at those that wait a while after others have started."""
        if self._renew_at is None or moment.at < self._renew_at:
            return
        at, self._renew_at = self._renew_at, None
        if not moment.is_start and self._decides(at):
            self._look(at)

    def _look(self, at: float) -> None:
        assert self._scheduler is not None
        places = self._scheduler.look(at).places
        self._could = {
            job_id: self._could.get(job_id, (at, place))
            for job_id, place in places.items()
            if job_id not in self._told and not self._scheduler.is_forced(job_id)
        }

    def _note_late(self, moment: RecordedMoment) -> None:
        """Jobs that could have started a while ago, and have not."""
        if not self._could or moment.is_start or moment.unreadable:
            return
        for job_id, (since, place) in list(self._could.items()):
            if moment.at - since > LATE_S:
                del self._could[job_id]
                self._told.add(job_id)
                self.found.deviations.append(DecisionDeviation(job_id, since, "waits", _shown(place), ""))


def _is_its_cycle(moment: RecordedMoment, following: RecordedMoment) -> bool:
    """Whether what follows is the cycle that came for the sake of the moment, or the end of the master's run."""
    is_soon = following.at - moment.at <= LATE_S
    return following.is_start or (following.is_decision and not moment.is_decision and is_soon)


def _decided_then(moment: RecordedMoment) -> tuple[dict[int, Allocation], set[Preempted]]:
    """Where jobs were started, and what was preempted."""
    started: dict[int, Allocation] = {}
    preempted: set[Preempted] = set()
    for _, event in moment.events:
        match event:
            case JobDispatched():
                started[event.job_id] = event.allocation
            case JobSuspended() if event.preempted_by:
                preempted.add(Preempted(event.job_id, event.preempted_by, requeue=False))
            case JobRequeueRequested() if event.preempted_by:
                preempted.add(Preempted(event.job_id, event.preempted_by, requeue=True))
    return started, preempted


def _with_next(moments: Iterable[RecordedMoment]) -> Iterator[tuple[RecordedMoment, RecordedMoment | None]]:
    """Each with the one after it."""
    before: RecordedMoment | None = None
    for moment in moments:
        if before is not None:
            yield before, moment
        before = moment
    if before is not None:
        yield before, None


def _agrees(choices: CycleChoices, then: dict[int, Allocation]) -> bool:
    """Whether all of these starts are among the choices."""
    return all(_is_same(choices.places.get(job_id), place) for job_id, place in then.items())


def _is_same(one: Allocation | None, other: Allocation) -> bool:
    """Hosts in any order: jobs of Slurm's commands have them by name."""
    return one is not None and sorted(place_of(one)) == sorted(place_of(other))


def _shown(place: Allocation) -> str:
    """`h1 (GPUs 0,1), h2`."""
    return ", ".join(
        f"{host} ({'GPU' if len(gpus) == 1 else 'GPUs'} {','.join(map(str, gpus))})" if gpus else host
        for host, _, gpus in place_of(place)
    )
