"""gslots: for how long slots are free; glsplace: which hosts suit a task; which tasks glsrun and glsgrun start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster
from test_cli_gjobs import pending

from gsched.cli.host_answers.backfill_windows import IdleSlots, free_slots_of, windows_of
from gsched.model.jobs.reason import PlannedStart
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import HostView, JobView

NewCall = Callable[..., FakeCall]
NOW = 1_700_000_000.0


def host(name: str, free: int | None = 4, **changes: object) -> HostView:
    values: dict[str, object] = {"status": "ok", "slots_free": free, "ncpus": 8, "njobs": 2, **changes}
    return HostView(name=name, **values)  # type: ignore[arg-type]


def planned(number: int, at: float | None, *hosts: str) -> JobView:
    return pending(number, planned=PlannedStart(at=at, hosts=hosts))


@pytest.mark.parametrize(
    ("found", "waiting", "reserved", "expected"),
    [
        (host("a"), [], [], [(4, math.inf)]),
        (host("a", None), [], [], [(6, math.inf)]),
        (host("a", 0), [], [], []),
        (host("a", status="closed_Adm"), [], [], []),
        (host("a", rsv=3), [planned(1, NOW + 60, "a"), planned(2, NOW + 30, "a")], [], [(3, NOW + 30), (1, math.inf)]),
        (host("a", rsv=3), [planned(1, NOW + 60, "b")], [], [(4, math.inf)]),
        (host("a"), [planned(1, None, "a")], [], [(4, math.inf)]),
        (host("a", rsv=4), [planned(1, NOW - 5, "a")], [], []),
    ],
)
def test_free_slots_of_a_host(
    found: HostView, waiting: list[JobView], reserved: list[ReservationView], expected: list[tuple[int, float]]
) -> None:
    free = free_slots_of([found], waiting, reserved, NOW)
    assert [(each.slots, each.until) for each in free] == expected


def test_reservations_take_slots_when_their_time_comes() -> None:
    later = ReservationView(name="r", slots={"a": 3}, start=NOW + 100, end=NOW + 200)
    now = ReservationView(name="n", slots={"a": 2}, used={"a": 1}, start=NOW - 1, end=NOW + 200, active=True)
    free = free_slots_of([host("a")], [], [later, now], NOW)
    assert free == [IdleSlots("a", 3, NOW + 100)]


def test_a_longer_window_counts_in_a_shorter_one() -> None:
    free = [IdleSlots("a", 3, NOW + 60), IdleSlots("a", 1, math.inf), IdleSlots("b", 2, NOW + 30)]
    found = windows_of(free, NOW)
    assert [(each.seconds, each.total) for each in found] == [(math.inf, 1), (60, 4), (30, 6)]
    assert found[2].slots == (("a", 4), ("b", 2))


def told(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert (done.run(), done.err) == (0, "")
    return done.out


def test_gslots(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [host("a", rsv=3), host("b", 2)]
    master.views = [planned(1, time.time() + 2 * 3600 + 30 * 60 + 30, "a")]
    short = told(call, "gslots").splitlines()
    assert short[0] == "SLOTS          RUNTIME" and short[1].split() == ["3", "UNLIMITED"]
    assert short[2].startswith("6              2 hours 30 minutes ")
    assert told(call, "gslots", "-n", "4", "-W", "1:00").splitlines()[1:] != []
    assert told(call, "bslots", "-n", "4", "-W", "3:00") == "No backfill window exists at this time\n"
    assert "\nSLOTS: 3\nRUNTIME: UNLIMITED\nHOSTS: 1*a 2*b\n" in told(call, "gslots", "-l")
    for words in (["-n", "0"], ["-W", "soon"], ["a"]):
        assert call("gslots", *words).run() == 255


def test_glsplace(master: FakeMaster, call: NewCall) -> None:
    busy = host("busy", load={"r15s": 9.0, "pg": 0.0})
    idle = host("idle", load={"r15s": 0.1, "pg": 0.0})
    master.host_views = [busy, host("gone", status="unavail"), idle]
    assert told(call, "lsplace") == "idle\n"
    assert told(call, "lsplace", "-n", "2") == told(call, "lsplace", "-w", "0") == "idle busy\n"
    assert told(call, "lsplace", "-R", "order[r15s]", "-w", "9") == "busy idle\n"
    refused = call("lsplace", "-n", "3")
    assert (refused.run(), refused.err) == (1, "lsplace: Not enough host(s) currently eligible: 2 of 3\n")
    refused = call("lsplace", "-n", "2", "-w", "1")
    assert (refused.run(), refused.err) == (255, "lsplace: -w 1 is less than -n 2\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["glsrun"], "glsrun: no command is given\n"),
        (["glsgrun", "-m", "a"], "glsgrun: no command is given\n"),
        (["glsgrun", "true"], "glsgrun: -m, -f, -n or -R says on which hosts\n"),
        (["glsgrun", "-n", "x", "true"], "glsgrun: -n x: not a number of hosts\n"),
        (["glsgrun", "-p", "-e", "-n", "0", "true"], "glsgrun: -p cannot be given together with -e and -S\n"),
        (["glslogin", "a"], "glslogin: a: it takes no words; glsrun runs a command\n"),
    ],
)
def test_tasks_that_are_refused_before_anything_is_submitted(
    master: FakeMaster, call: NewCall, words: list[str], text: str
) -> None:
    master.host_views = [host("a")]
    done = call(*words)
    assert (done.run(), done.err) == (255, text)
    assert master.submissions == []


@pytest.fixture
def tasks(master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Of each task that would be started how it is attached, and its words of gsub; there are two hosts, a and b."""
    started: list[tuple[str, ...]] = []

    class Task:
        def __init__(self, _call: object, _session: object, kind: str, words: list[str], *_: object, **__: object):
            started.append((kind, *words))

        def be_there(self) -> None:
            """Nothing to wait for."""

        def to_its_end(self) -> int:
            return 0

    monkeypatch.setattr("gsched.cli.one_off.group_task.start_task", Task)
    monkeypatch.setattr("gsched.cli.commands.submission.glsrun.start_task", Task)
    master.host_views = [host("a"), host("gone", status="unavail"), host("b")]
    return started


def test_r_alone_means_each_host_that_meets_it_and_p_needs_no_terminal(
    call: NewCall, tasks: list[tuple[str, ...]]
) -> None:
    assert call("glsgrun", "-R", "order[r15s]", "-P", "true").run() == 0
    assert call("glsgrun", "-R", "order[r15s]", "-p", "-P", "true").run() == 0
    assert [kind for kind, *_ in tasks] == ["Ip", "Ip", "I", "I"]
    assert sorted(words for _, *words in tasks) == [["-m", "a"], ["-m", "a"], ["-m", "b"], ["-m", "b"]]


@pytest.mark.parametrize("command", ["glsrun", "glsgrun"])
def test_only_administrators_run_tasks_where_the_site_says_so(
    master: FakeMaster, call: NewCall, tasks: list[tuple[str, ...]], command: str
) -> None:
    refused = call(command, "-m", "a", "true", LSF_DISABLE_LSRUN="Y")
    assert refused.run() == 255 and tasks == []
    assert "User permission denied: LSF_DISABLE_LSRUN leaves it to administrators" in refused.err
    assert call(command, "-m", "a", "true", LSF_DISABLE_LSRUN="N").run() == 0
    master.cluster_view = msgspec.structs.replace(master.cluster_view, may_administer=True)
    assert call(command, "-m", "a", "true", LSF_DISABLE_LSRUN="Y").run() == 0
    assert tasks == [("I", "-m", "a")] * 2
