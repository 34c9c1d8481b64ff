"""EXIT_RATE: a host on which jobs fail again and again takes no more of them."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, load, make_config, spec

from gsched.core.command import AttemptEnded
from gsched.core.dispatch.host_queue_views import host_view
from gsched.model.config import Params
from gsched.model.event import HostClosed
from gsched.model.hosts.exit_rates import NO_LIMIT, ExitKind, ExitRates
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import EXIT_SAVED, AttemptResult, JobState
from gsched.model.queues.queue import Queue

RATES = ExitRates(most=2)
NOT_STARTED = {"exit_code": None, "started": False, "problem": "no such folder"}
NO_FOLDER = {"exit_code": 1, "term_reason": "TERM_CWD_NOTEXIST"}
KILLED = {"exit_code": None, "signal": 9, "term_reason": "TERM_RUNLIMIT"}


def world(rates: ExitRates = RATES, *hosts: HostConfig, **queue: Any) -> World:
    queues = (Queue(name="normal", priority=30, **queue),)
    return World(make_config(hosts or ("a", "b"), queues, params=Params(exit_rates=rates)))


def fail(world: World, host: str = "a", **result: Any) -> int:
    """A job that fails there."""
    (number,) = world.run(spec(hosts=(host,)))
    world.ended(number, host=host, **(result or {"exit_code": 3}))
    return number


def closed(world: World) -> list[str]:
    return list(world.engine.state.closed_hosts)


def shown(world: World, host: str = "a") -> tuple[str, int | None, int]:
    engine = world.engine
    seen = engine.observations.of(host)
    view = host_view(engine.config.hosts[host], engine.config, engine.state, seen)
    return view.status, view.exit_limit, view.exits


def test_one_more_than_are_allowed_closes_the_host() -> None:
    here = world()
    for count in (1, 2):
        fail(here)
        assert shown(here) == ("ok", 2, count)
    fail(here)
    assert shown(here) == ("closed_Adm", 2, 3) and closed(here) == ["a"]
    (event,) = [event for event in here.events if isinstance(event, HostClosed)]
    assert (event.by, event.comment) == ("eadmin", "eadmin: JOB EXIT THRESHOLD EXCEEDED (3 within 5 min)")
    (number,) = here.submit(spec(hosts=("a",)))
    here.settle()
    assert here.reasons(number)[0] == "Closed by LSF administrator: 1 host"
    here.check_replay()


def test_the_next_cycle_knows_it() -> None:
    here = world()
    running = here.run(spec(hosts=("a",)), spec(hosts=("a",)), spec(hosts=("a",)))
    waiting = here.submit(*(spec(hosts=("a",), slots=14),))
    here.settle()
    for number in running:
        here.ended(number, exit_code=1)
    here.settle()
    assert here.state(waiting[0]) == JobState.PEND, "there is room by now"


def test_they_are_counted_for_so_long() -> None:
    here = world()
    fail(here), fail(here)
    here.now += 301.0
    fail(here), fail(here)
    assert closed(here) == []
    here.now += 299.0
    fail(here)
    assert closed(here) == ["a"]


@pytest.mark.parametrize(
    ("kinds", "counted"),
    [
        ({ExitKind.OWN}, [{"exit_code": 1}, {"exit_code": None, "signal": 11}]),
        ({ExitKind.ANY}, [{"exit_code": 1}, KILLED]),
        ({ExitKind.START}, [NOT_STARTED, NO_FOLDER]),
        ({ExitKind.OWN, ExitKind.START}, [{"exit_code": 1}, NOT_STARTED, NO_FOLDER]),
        ({ExitKind.PARALLEL_START}, []),
    ],
)
def test_what_counts_is_chosen(kinds: set[ExitKind], counted: list[dict[str, Any]]) -> None:
    signalled = {"exit_code": None, "signal": 11}
    for result in ({"exit_code": 0}, {"exit_code": 1}, signalled, KILLED, NOT_STARTED, NO_FOLDER):
        here = world(ExitRates(most=0, kinds=frozenset(kinds)))
        fail(here, **result)
        expected = result in counted or (result.get("signal") == 11 and {"exit_code": 1} in counted)
        assert closed(here) == (["a"] if expected else []), result


def test_starts_of_jobs_on_several_hosts() -> None:
    here = world(ExitRates(most=0, kinds=frozenset({ExitKind.PARALLEL_START})))
    (number,) = here.submit(spec(slots=2, res_req="span[ptile=1]"))
    here.settle()
    here.not_started(number)
    assert closed(here) == ["a"], "its first host"


def test_what_people_and_the_master_end_is_not_the_host_s() -> None:
    here = world(ExitRates(most=0))
    (number,) = here.run(spec(hosts=("a",)))
    here.control("kill", number)
    here.ended(number, exit_code=None, signal=15)
    (again,) = here.run(spec(hosts=("a",)))
    here.control("requeue", again)
    here.ended(again, exit_code=None, signal=9)
    assert closed(here) == []


def test_an_exit_code_that_counts_as_done_is_no_failure() -> None:
    here = world(ExitRates(most=0), success_exit_values="3")
    fail(here, exit_code=3)
    assert closed(here) == []
    fail(here, exit_code=4)
    assert closed(here) == ["a"]


def test_a_host_may_have_a_number_of_its_own() -> None:
    here = world(RATES, HostConfig(name="a", max_slots=4, exit_rate=0), HostConfig(name="b", max_slots=4))
    fail(here), fail(here, "b")
    assert closed(here) == ["a"] and shown(here, "b") == ("ok", 2, 1)


@pytest.mark.parametrize(("slots", "limit"), [(4, 8), (-1, 2), (None, 32)])
def test_it_may_be_for_each_slot(slots: int | None, limit: int) -> None:
    host = HostConfig(name="a", max_slots=slots)
    assert shown(world(ExitRates(most=2, per_slot=True), host))[1] == limit


def test_a_host_may_be_left_out() -> None:
    here = world(ExitRates(most=0), HostConfig(name="a", max_slots=4, exit_rate=NO_LIMIT))
    fail(here)
    assert shown(here) == ("ok", None, 0)


def test_without_a_number_nothing_is_counted() -> None:
    here = world(ExitRates())
    for _ in range(5):
        fail(here)
    assert shown(here) == ("ok", None, 0)


def test_who_opens_the_host_has_it_counted_anew() -> None:
    here = world()
    for _ in range(3):
        fail(here)
    here.hosts("open", "a")
    assert shown(here) == ("ok", 2, 0)
    fail(here), fail(here)
    assert closed(here) == []


def test_a_host_that_somebody_has_closed_keeps_that_comment() -> None:
    here = world(ExitRates(most=0))
    (number,) = here.run(spec(hosts=("a",)))
    here.hosts("close", "a", comment="fans")
    here.ended(number, exit_code=1)
    assert here.engine.state.closed_hosts["a"] == ("root", "fans")


def test_an_end_that_is_told_twice_counts_once() -> None:
    here = world()
    number = fail(here)
    here.ended(number, exit_code=3)
    here.hello(ended=(AttemptEnded(number, 1, "a", AttemptResult(exit_code=3, ended_at=here.now)),))
    assert shown(here) == ("ok", 2, 1)


def test_ends_that_are_told_late_count_at_their_time() -> None:
    here = world()
    numbers = here.run(*(spec(hosts=("a",)) for _ in range(5)))
    here.disconnect()
    here.now += 4 * 3000.0
    ends = [AttemptResult(exit_code=3, ended_at=here.now - 3000.0 * ago) for ago in (4, 3, 2, 1, 0)]
    here.hello(ended=tuple(AttemptEnded(job, 1, "a", end) for job, end in zip(numbers, ends, strict=True)))
    here.report(load=load())
    assert shown(here) == ("ok", 2, 1)


def test_for_each_slot_nothing_is_judged_while_nobody_knows_how_many_there_are() -> None:
    here = world(ExitRates(most=1, per_slot=True), HostConfig(name="a"))
    numbers = here.run(*(spec(hosts=("a",)) for _ in range(3)))
    here.disconnect()
    here.hello(ended=tuple(AttemptEnded(job, 1, "a", AttemptResult(exit_code=3, ended_at=here.now)) for job in numbers))
    assert closed(here) == []


def test_a_signal_that_somebody_sent_is_not_the_host_s() -> None:
    here = world(ExitRates(most=0))
    (number,) = here.run(spec(hosts=("a",)))
    here.control("signal", number, signal=2)
    here.ended(number, exit_code=None, signal=2)
    assert closed(here) == []


def test_a_job_that_has_saved_its_state_has_not_failed() -> None:
    here = world(ExitRates(most=0))
    (number,) = here.run(spec(hosts=("a",), max_restarts=3))
    here.ended(number, exit_code=EXIT_SAVED)
    assert here.state(number) == JobState.PEND and closed(here) == []


def test_starts_that_say_nothing_of_the_host() -> None:
    here = world(ExitRates(most=0, kinds=frozenset({ExitKind.START})))
    (number,) = here.submit(spec(hosts=("a",)))
    here.settle()
    here.control("kill", number)
    here.not_started(number)
    fail(here, **NOT_STARTED, gpus_unfit=True)
    assert closed(here) == []


def parallel(here: World) -> int:
    (number,) = here.submit(spec(slots=2, res_req="span[ptile=1]"))
    here.settle()
    return number


def test_a_part_that_cannot_be_opened_counts_on_its_host() -> None:
    here = world(ExitRates(most=0, kinds=frozenset({ExitKind.PARALLEL_START})))
    here.part_ended(parallel(here), "b", **NOT_STARTED)
    assert closed(here) == ["b"]


def test_a_job_that_has_lost_another_host_counts_nowhere() -> None:
    here = world(ExitRates(most=0, kinds=frozenset({ExitKind.ANY})))
    number = parallel(here)
    here.started(number)
    here.part_ended(number, "b", exit_code=None, signal=9)
    here.ended(number, exit_code=None, signal=15)
    assert closed(here) == []
