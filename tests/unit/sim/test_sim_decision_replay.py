"""Recorded decisions made again: as they were where nothing is missing, and told where the record says otherwise."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gsched.base.errors import BadRequest
from gsched.config.configuration import check_texts
from gsched.config.kept_files import packed
from gsched.config.template import NewConfiguration, private_texts
from gsched.core.control.configuration_facts import reconfigured
from gsched.core.decision import Decision
from gsched.master.host_recorder import HostRecorder
from gsched.master.past.past_boards import PastBoards
from gsched.model.config import Locations
from gsched.model.event import AnyEvent, HostClosed, JobDispatched, JobFinished, decode_event, kind_of
from gsched.sim.history.decision_replay import DecisionReplay, replay_decisions
from gsched.sim.trace import Recipe, TraceJob, random_trace
from gsched.sim.world import World
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.packing.packed_events import unpack_event

BEGIN = 1_800_000_000.0
FOLDERS = Locations(
    conf_dir="/none/conf",
    state_dir="/none/s",
    log_dir="/none/l",
    server_dir="/none/e",
    run_dir="/none/r",
    spool_dir="/p",
)
RECIPE = Recipe(
    jobs=60,
    most_gpus=3,
    most_mem_mib=40_000,
    queues=("normal", "short", "night"),
    longest_s=600,
    spread=0.2,
    unlimited=0.1,
)


def recorded(folder: Path, jobs: list[TraceJob], monkeypatch: pytest.MonkeyPatch) -> str:
    """The store of a master to which these jobs came: two hosts with four GPUs each."""
    new = NewConfiguration(cluster="c", hosts=("h1", "h2"), slots=8, folders=FOLDERS, gpu_provider="none")
    loaded = check_texts("/none/conf", private_texts(new))
    config, files = loaded.required(), packed(loaded)
    events: list[AnyEvent] = [reconfigured(config, BEGIN, "root", started=True, files=blob_id(files))]
    recorder = HostRecorder(0, BEGIN)
    take = World._take

    def taken(self: World, decision: Decision) -> Decision:
        events.extend(decision.events)
        recorder.note(self.engine, config.hosts, len(events), self.now)
        return take(self, decision)

    with monkeypatch.context() as patched:
        patched.setattr(World, "_take", taken)
        World(config, gpus=4, mem_mib=64_000, start=BEGIN).run(jobs)
    log = EventLog(folder / "gsched.db")
    log.append(events, blobs={blob_id(files): files}, hosts=recorder.take())
    log.close()
    return str(folder)


def changed(path: str, change: Callable[[int, AnyEvent], AnyEvent]) -> None:
    """The record with other events."""
    with sqlite3.connect(Path(path) / "gsched.db") as database:
        for seq, payload in database.execute("SELECT seq, payload FROM event").fetchall():
            before = decode_event(unpack_event(payload))
            after = change(seq, before)
            if after is not before:
                row = (msgspec.json.encode(after), kind_of(after), after.at, seq)
                database.execute("UPDATE event SET payload = ?, kind = ?, at = ? WHERE seq = ?", row)


def counts(found: DecisionReplay) -> tuple[int, int, int, int]:
    return found.starts, found.same_place, found.by_load, len(found.deviations)


@pytest.mark.parametrize(
    "seed",
    [
        0,
        pytest.param(1, marks=pytest.mark.slow),
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 5)),
    ],
)
@pytest.mark.slow
def test_each_decision_comes_out_as_it_did(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, random_trace(seed, RECIPE), monkeypatch)
    found = replay_decisions(path)
    assert counts(found) == (60, 60, 0, 0), found.deviations[:3]
    assert found.notes == []


@pytest.mark.nightly
@pytest.mark.slow
def test_part_of_a_history_is_decided_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, random_trace(3, RECIPE), monkeypatch)
    whole = replay_decisions(path)
    middle = (whole.since + whole.until) / 2
    first, second = replay_decisions(path, None, middle), replay_decisions(path, middle + 1e-6)
    assert first.starts and second.starts and first.starts + second.starts == 60
    assert not first.deviations and not second.deviations


def test_another_gpu_is_a_deviation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, [TraceJob(arrives_s=5, runs_s=50, gpus=1, slots=2)], monkeypatch)

    def moved(_: int, event: AnyEvent) -> AnyEvent:
        if not isinstance(event, JobDispatched):
            return event
        (part,) = event.allocation.hosts
        other = msgspec.structs.replace(part.gpus[0], index=3, uuid=f"{part.host}-3")
        place = msgspec.structs.replace(event.allocation, hosts=(msgspec.structs.replace(part, gpus=(other,)),))
        return msgspec.structs.replace(event, allocation=place)

    changed(path, moved)
    (found,) = replay_decisions(path).deviations
    assert (found.job_id, found.at) == (1, BEGIN + 5)
    assert (found.then, found.now, found.why) == ("h1 (GPU 3)", "h1 (GPU 0)", "")


def test_start_that_comes_too_late_or_too_early_is_a_deviation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [TraceJob(arrives_s=at, runs_s=1, gpus=1) for at in (0, 60, 200)]
    path = recorded(tmp_path, jobs, monkeypatch)

    def later(_: int, event: AnyEvent) -> AnyEvent:
        is_late = isinstance(event, JobDispatched) and event.job_id < 3
        return msgspec.structs.replace(event, at=event.at + 20) if is_late else event

    changed(path, later)
    found = replay_decisions(path).deviations
    assert [(each.job_id, each.at, each.then, each.now) for each in found] == [
        (1, BEGIN, "waits", "h1 (GPU 0)"),
        (2, BEGIN + 60, "waits", "h1 (GPU 0)"),
    ]

    def closed(seq: int, event: AnyEvent) -> AnyEvent:
        return HostClosed(at=BEGIN, host="h1", by="root", comment="") if seq == 2 else event

    changed(path, closed)
    (last,) = [each for each in replay_decisions(path).deviations if each.job_id == 3]
    assert (last.then, last.now) == ("h1 (GPU 0)", "h2 (GPU 0)")


def test_what_is_told_late_was_not_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent tells when a job ended while the master was away: no cycle could have given its GPUs to another then."""
    jobs = [TraceJob(arrives_s=at, runs_s=60, gpus=4) for at in (0, 0, 0, 59)]
    path = recorded(tmp_path, jobs, monkeypatch)

    def told_late(_: int, event: AnyEvent) -> AnyEvent:
        return msgspec.structs.replace(event, at=event.at - 30) if isinstance(event, JobFinished) else event

    changed(path, told_late)
    found = replay_decisions(path)
    assert counts(found) == (4, 4, 0, 0), found.deviations


def test_record_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, [TraceJob(arrives_s=5, runs_s=50)], monkeypatch)
    with sqlite3.connect(tmp_path / "gsched.db") as database:
        database.execute("UPDATE event SET payload = '{' WHERE seq = 2")
    found = replay_decisions(path)
    assert found.starts == 1 and len(found.notes) == 1 and "record 2" in found.notes[0]


def test_load_that_is_not_in_the_record_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, [TraceJob(arrives_s=5, runs_s=50, slots=2)], monkeypatch)

    def moved(_: int, event: AnyEvent) -> AnyEvent:
        if not isinstance(event, JobDispatched):
            return event
        (part,) = event.allocation.hosts
        assert part.host == "h1"
        place = msgspec.structs.replace(event.allocation, hosts=(msgspec.structs.replace(part, host="h2"),))
        return msgspec.structs.replace(event, allocation=place)

    changed(path, moved)
    found = replay_decisions(path)
    assert counts(found) == (1, 0, 1, 0)
    assert found.notes == [
        "1 start: the load of hosts decided between equal ones, and is kept for every 15 minutes only"
    ]


def test_nothing_is_told_of_before_hosts_were_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, [TraceJob(arrives_s=at, runs_s=50) for at in (5, 100)], monkeypatch)
    with sqlite3.connect(tmp_path / "gsched.db") as database:
        database.execute("UPDATE host_record SET at = ?", (BEGIN + 20,))
    assert replay_decisions(path).since == BEGIN + 20
    said = "2027-01-15 08:00:10 UTC is before history begins.* 08:00:20 UTC"
    with pytest.raises(BadRequest, match=said):
        replay_decisions(path, BEGIN + 10)
    boards = PastBoards(History(tmp_path / "gsched.db"), clock=lambda: BEGIN + 1000)
    with pytest.raises(BadRequest, match=said), boards.at(BEGIN + 10):
        pass


def test_what_cannot_be_decided_again_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, [TraceJob(arrives_s=5, runs_s=50)], monkeypatch)
    for since, until, said in (
        (BEGIN - 1, None, "is before history begins"),
        (BEGIN + 1000, None, "is after history ends"),
        (BEGIN + 10, BEGIN + 5, "there is nothing between them"),
    ):
        with pytest.raises(BadRequest, match=said):
            replay_decisions(path, since, until)
    with sqlite3.connect(tmp_path / "gsched.db") as database:
        ((packed,),) = database.execute("SELECT payload FROM event WHERE seq = 1")
        other = unpack_event(packed).replace(b'"files"', b'"other"')
        database.execute("UPDATE event SET payload = ? WHERE seq = 1", (other,))
    with pytest.raises(BadRequest, match="it keeps no configuration, so nothing can be decided again"):
        replay_decisions(path)
