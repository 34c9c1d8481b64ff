"""Dependency conditions: read and printed, resolved to numbers, judged as jobs change."""

from __future__ import annotations

import pytest
from core_world import World, make_config, spec
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.command import KillJobs
from gsched.core.pending.dependency_check import ConditionVerdict, judge
from gsched.core.records.dependency_condition import (
    COUNTS,
    AllConditions,
    AnyCondition,
    Condition,
    Dependency,
    JobNumber,
    NotCondition,
    parents_of,
    parse,
    parse_resolved,
    show,
)
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.queues.queue import Queue

NUMBERS = st.builds(JobNumber, st.integers(1, 99), st.just(False)) | st.builds(
    JobNumber, st.builds(lambda i, j: i << 32 | j, st.integers(1, 9), st.integers(1, 99))
)
CONDITIONS = st.one_of(
    st.builds(Condition, st.sampled_from(["done", "ended", "started", "exit", "post_done", "post_err"]), NUMBERS),
    st.builds(Condition, st.just("exit"), NUMBERS, st.sampled_from(["==", ">=", "<"]), st.integers(0, 255)),
    st.builds(
        Condition,
        st.just("external"),
        NUMBERS,
        word=st.text("abc()|&!,=1*'", min_size=1, max_size=5) | st.text('abc"', min_size=1, max_size=5),
    ),
    st.builds(Condition, st.sampled_from(COUNTS), NUMBERS, st.sampled_from([">=", "!="]), st.integers(-1, 50)),
)


def _wider(inner: st.SearchStrategy[Dependency]) -> st.SearchStrategy[Dependency]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(NotCondition, inner) | st.builds(AllConditions, several) | st.builds(AnyCondition, several)


@given(st.recursive(CONDITIONS, _wider, max_leaves=8))
def test_what_is_printed_reads_back(dependency: Dependency) -> None:
    text = show(dependency)
    assert show(parse_resolved(text)) == text


@given(st.text(alphabet="done()exit numpend!&|,<>=1 29[]*\"'abc", max_size=60))
def test_no_text_is_more_than_refused(text: str) -> None:
    try:
        parse(text)
    except BadRequest as error:
        assert "\n" not in error.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("done(", "done() wants a job at position 6"),
        ("done(12", "')' is wanted at position 8"),
        ("nothing(12)", "'nothing' is no condition"),
        ("done(12) &&", "a condition such as done(JOB) is wanted at position 12"),
        ("numdone(12)", "numdone() wants a number"),
        ("exit(12, x)", "a number is wanted at position 10"),
        ("done(12) done(13)", "unexpected 'done' at position 10"),
        ("external(12)", "external() wants the first word of a message after the job at position 12"),
        ("external(12, ' ')", "the first word of a message is wanted at position 14"),
        ("external(12, '[*]')", "the first word of a message is wanted at position 14"),
        ("external(12, ok, 3)", "')' is wanted"),
        ("(" * 99 + "done(1)", "nested too deeply"),
        ("!" * 99 + "done(1)", "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match="Dependency condition syntax error") as caught:
        parse(text)
    assert said in caught.value.text


def test_a_bare_job_means_done() -> None:
    assert show(parse("12 && 13[4]")) == "done(12) && done(13[4])"
    assert parents_of("done(12) || exit(13[4],>=2)") == {12, 4 << 32 | 13}


def test_a_job_waits_until_its_condition_holds() -> None:
    world = World()
    (first,) = world.run(spec(name="prepare"))
    (second,) = world.submit(spec(dependency='done("prepare")'))
    world.settle()
    assert world.state(second) == "PEND"
    assert world.reasons(second) == ("Job dependency condition not satisfied (done(1): job 1 is RUN)",)
    world.ended(first)
    world.settle()
    assert world.state(second) == "RUN"
    world.check_replay()


def test_what_can_never_hold_ends_with_its_parent_and_all_that_hangs_on_it() -> None:
    world = World()
    (first,) = world.run(spec())
    (second,) = world.submit(spec(dependency=f"done({first})"))
    (third,) = world.submit(spec(dependency=f"done({second}) || done({second})"))
    (other,) = world.submit(spec(dependency=f"ended({first})"))
    before = len(world.events)
    world.ended(first, exit_code=3)
    assert [world.state(job) for job in (second, third)] == ["EXIT", "EXIT"]
    assert {event.at for event in world.events[before:]} == {world.now}
    result = world.job(second).result
    assert result is not None and result.term_reason == "TERM_ORPHAN_SYSTEM"
    assert "done(1): job 1 is EXIT with exit code 3" in sentence(result.problem)
    world.settle()
    assert world.state(other) == "RUN"
    world.check_replay()


def test_a_condition_that_can_never_hold_is_refused_at_once() -> None:
    world = World()
    (first,) = world.run(spec())
    world.ended(first, exit_code=1)
    with pytest.raises(BadRequest, match=r"never satisfied: done\(1\): job 1 is EXIT with exit code 1"):
        world.submit(spec(dependency="done(1)"))
    with pytest.raises(BadRequest, match="job 77 is not known"):
        world.submit(spec(dependency="done(77)"))
    with pytest.raises(BadRequest, match="no job is called ghost"):
        world.submit(spec(dependency='done("ghost")'))
    (later,) = world.submit(spec(dependency="exit(1, 1)"))
    world.settle()
    assert world.state(later) == "RUN"


def test_names_mean_the_users_own_jobs_all_of_them() -> None:
    world = World()
    mine = world.run(spec(name="step1"), spec(name="step2"))
    world.run(spec(name="step3"), user="bob")
    (waiting,) = world.submit(spec(dependency='done("step*")'))
    assert world.job(waiting).spec.conditions == f"done({mine[0]}) && done({mine[1]})"


def test_exit_codes_and_counts_are_compared() -> None:
    world = World()
    (array,) = world.submit(spec(name="sweep", indices="1-4"))
    (soon,) = world.submit(spec(dependency=f"numended({array}, >= 2)"))
    (all_of_it,) = world.submit(spec(dependency=f"numdone({array}, *)"))
    world.settle()
    elements = [index << 32 | array for index in (1, 2, 3, 4)]
    for element in elements[:2]:
        world.started(element)
        world.ended(element)
    world.settle()
    assert (world.state(soon), world.state(all_of_it)) == ("RUN", "PEND")
    for element in elements[2:]:
        world.started(element)
        world.ended(element)
    world.settle()
    assert world.state(all_of_it) == "RUN"
    world.check_replay()


def test_a_message_that_a_job_was_sent_is_waited_for() -> None:
    world = World()
    first, array = world.run(spec(name="watched"), spec(name="many", indices="1-2"))
    wishes = ('external("watched", "ready to go")', "external(1,ready) && done(1)", "external(2[2],ready)")
    named, over, element = world.submit(*(spec(dependency=wish) for wish in wishes))
    world.settle()
    assert world.reasons(named) == (
        'Job dependency condition not satisfied (external(1,"ready"): no message of job 1 begins so)',
    )
    world.order("post", first, box=3, text="readying")
    world.settle()
    assert world.state(named) == "PEND"
    world.order("post", first, box=3, text="ready or not")
    world.settle()
    assert [world.state(job) for job in (named, over, element)] == ["RUN", "PEND", "PEND"]
    world.ended(first)
    world.order("post", element_id(array, 2), box=0, text="ready")
    world.settle()
    assert [world.state(job) for job in (over, element)] == ["RUN", "RUN"]
    with pytest.raises(BadRequest, match=r"external\(\) wants a job or one element, 2 is an array \(position 1\)"):
        world.submit(spec(dependency="external(2,ready)"))
    world.check_replay()


def test_elements_depend_on_their_counterparts() -> None:
    world = World()
    (first,) = world.submit(spec(name="a", indices="1-3"))
    (second,) = world.submit(spec(name="b", indices="1-3", dependency="done(a[*])"))
    world.settle()
    with pytest.raises(BadRequest, match="do not have the same size"):
        world.submit(spec(name="c", indices="1-4", dependency="done(a[*])"))
    world.started(2 << 32 | first)
    world.ended(2 << 32 | first)
    world.started(3 << 32 | first)
    world.ended(3 << 32 | first, exit_code=5)
    world.settle()
    assert world.state(2 << 32 | second) == "RUN"
    assert world.state(3 << 32 | second) == "EXIT"
    assert list(world.engine.state.arrays[second].waiting()) == [1]
    world.check_replay()


def test_each_waiting_element_has_a_reason_of_its_own() -> None:
    world = World(make_config(params=Params(end_on_invalid_dependency=False)))
    (first,) = world.submit(spec(name="a", indices="1-3"))
    (second,) = world.submit(spec(name="b", indices="1-3", dependency="done(a[*])"))
    world.settle()
    world.started(3 << 32 | first)
    world.ended(3 << 32 | first, exit_code=5)
    wait = "Job dependency condition not satisfied"
    assert world.reasons(1 << 32 | second) == (f"{wait} (done({first}[1]) does not hold yet)",)
    assert world.reasons(2 << 32 | second) == (f"{wait} (done({first}[2]) does not hold yet)",)
    assert world.reasons(second) == (f"{wait} (done({first}[*]), for each element by itself)",)
    never = f"Dependency condition invalid or never satisfied (done({first}[3]) can no longer come true)"
    assert world.reasons(3 << 32 | second) == (never,)
    world.order("requeue", 3 << 32 | first, states=("EXIT",))
    world.settle()
    assert world.reasons(3 << 32 | second) == (f"{wait} (done({first}[3]) does not hold yet)",)
    world.check_replay()


def test_a_cycle_of_dependencies_is_refused() -> None:
    world = World()
    (first,) = world.run(spec())
    (second,) = world.submit(spec(dependency=f"done({first})"))
    (third,) = world.submit(spec(dependency=f"done({second})"))
    errors = world.modify(second, dependency=f"done({third})")
    assert errors == [f"A cycle of dependencies: {second} -> {third} -> {second}"]


def test_a_parent_is_kept_as_long_as_somebody_waits_for_it() -> None:
    world = World()
    first, slow = world.run(spec(), spec())
    (second,) = world.submit(spec(dependency=f"done({first}) && done({slow})"))
    world.ended(first)
    world.wait(10_000)
    assert first in world.engine.state.jobs
    world.restart()
    world.connect("a", held=[(slow, 1)])
    world.ended(slow)
    world.settle()
    assert world.state(second) == "RUN"
    world.wait(10_000)
    world.wait(10_000)
    assert first not in world.engine.state.jobs


def test_whoever_wants_it_otherwise_lets_jobs_wait_for_ever() -> None:
    world = World()
    world.reconfigure(world.with_params(end_on_invalid_dependency=False))
    (first,) = world.run(spec())
    (second,) = world.submit(spec(dependency=f"done({first})"))
    world.ended(first, exit_code=1)
    assert world.state(second) == "PEND"
    assert world.reasons(second)[0].startswith("Dependency condition invalid or never satisfied (done(1)")


def test_a_held_job_hears_that_its_condition_holds() -> None:
    world = World()
    (first,) = world.run(spec())
    job_id, array = world.submit(
        spec(dependency=f"done({first})", hold=True), spec(name="a", indices="1-2", dependency=f"done({first})")
    )
    world.control("stop", array)
    world.ended(first)
    world.wait(10_000)
    assert first not in world.engine.state.jobs  # nobody waits for it any more
    world.control("resume", job_id, array)
    world.settle()
    assert world.state(job_id) == world.state(1 << 32 | array) == "RUN"
    world.check_replay()


def test_a_parent_is_kept_while_a_held_job_waits_for_it() -> None:
    world = World()
    first, slow = world.run(spec(), spec())
    (job_id,) = world.submit(spec(dependency=f"done({first}) && done({slow})", hold=True))
    world.ended(first)
    world.wait(10_000)
    assert first in world.engine.state.jobs
    world.control("kill", job_id)
    world.wait(10_000)
    assert first not in world.engine.state.jobs
    world.check_replay()


def test_a_held_job_whose_condition_can_never_hold_ends() -> None:
    world = World()
    (first,) = world.run(spec())
    (job_id,) = world.submit(spec(dependency=f"done({first})", hold=True))
    world.ended(first, exit_code=1)
    assert world.state(job_id) == "EXIT"
    world.check_replay()


def test_a_condition_that_came_true_stays_so_when_the_job_runs_again() -> None:
    world = World()
    (first,) = world.run(spec())
    (job_id,) = world.submit(spec(dependency=f"ended({first})"))
    world.ended(first, exit_code=1)
    world.settle()
    world.started(job_id)
    world.order("requeue", job_id)
    world.ended(job_id, exit_code=None, signal=15)
    world.settle()
    assert world.state(job_id) == "RUN" and world.job(job_id).attempt == 2


def test_a_job_is_judged_once_however_many_of_those_that_it_names_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(state: ClusterState, text: str, index: int = 0) -> ConditionVerdict:
        asked.append(text)
        return judge(state, text, index)

    monkeypatch.setattr("gsched.core.pending.dependent_jobs.judge", counted)
    world = World()
    parents = world.submit(*[spec(name="step", hold=True)] * 20)
    world.submit(spec(dependency="ended(step) || done(step)"))
    asked.clear()
    world.do(KillJobs("ann", False, tuple(parents)))
    assert len(asked) <= 2, "one change of many jobs at once"
    world.check_replay()


# -- ORPHAN_JOB_TERM_GRACE_PERIOD -------------------------------------------------------------------------------------


def with_grace(cluster: float, ends: bool = True, queue: float | None = None) -> World:
    params = Params(orphan_grace_s=cluster, end_on_invalid_dependency=ends)
    return World(make_config(queues=(Queue(name="normal", orphan_grace_s=queue),), params=params))


def tick_until(world: World, at: float) -> None:
    """As the master does: at the times that the engine names."""
    while (due := world.engine.next_deadline(world.now)) < at:
        world.wait(max(due - world.now, 0.001))
    world.wait(at - world.now)


@pytest.mark.parametrize(("cluster", "ends", "queue"), [(300.0, True, None), (5.0, True, 300.0), (5.0, False, 300.0)])
def test_an_orphan_has_its_time_of_grace(cluster: float, ends: bool, queue: float | None) -> None:
    world = with_grace(cluster, ends, queue)
    (first,) = world.run(spec())
    (orphan, at_once) = world.submit(
        spec(dependency=f"done({first})"), spec(dependency=f"done({first})", end_orphan=True)
    )
    world.ended(first, exit_code=3)
    since = world.now
    assert [world.state(each) for each in (orphan, at_once)] == ["PEND", "EXIT"]
    tick_until(world, since + 299)
    assert world.state(orphan) == "PEND"
    assert world.engine.next_deadline(world.now) <= since + 300
    tick_until(world, since + 301)
    assert world.state(orphan) == "EXIT"
    world.check_replay()


def test_an_orphan_whose_parent_runs_again_in_time_is_none_any_more() -> None:
    world = with_grace(300.0)
    (first,) = world.run(spec())
    (orphan,) = world.submit(spec(dependency=f"done({first})"))
    world.ended(first, exit_code=3)
    tick_until(world, world.now + 200)
    assert world.order("requeue", first, states=("EXIT",)) == [""]
    world.settle()
    world.started(first)
    tick_until(world, world.now + 400)
    assert world.state(orphan) == "PEND"
    world.ended(first, 2, exit_code=3)  # its time begins anew
    since = world.now
    tick_until(world, since + 299)
    assert world.state(orphan) == "PEND"
    tick_until(world, since + 301)
    assert world.state(orphan) == "EXIT"
    world.check_replay()


def test_elements_of_an_array_are_orphans_one_by_one_and_a_reconfiguration_counts() -> None:
    world = with_grace(300.0)
    (first,) = world.submit(spec(name="first", indices="1-2"))
    (second,) = world.submit(spec(name="second", indices="1-2", dependency=f"done({first}[*])"))
    world.settle()
    for index in (1, 2):
        world.started(element_id(first, index))
    world.ended(element_id(first, 1), exit_code=3)
    since = world.now
    tick_until(world, since + 100)
    world.ended(element_id(first, 2), exit_code=3)
    tick_until(world, since + 301)
    assert [index for index in (1, 2) if world.engine.state.arrays[second].has_waiting(index)] == [2]
    world.reconfigure(make_config(queues=(Queue(name="normal"),), params=Params(orphan_grace_s=250.0)))
    tick_until(world, since + 351)
    assert second not in world.engine.state.arrays or not world.engine.state.arrays[second].count
    world.check_replay()


@pytest.mark.parametrize("indices", ["", "1-2"])
def test_who_is_an_orphan_already_ends_when_the_site_begins_to_end_them(indices: str) -> None:
    params = Params(end_on_invalid_dependency=False)
    world = World(make_config(queues=(Queue(name="normal"),), params=params))
    (first,) = world.submit(spec(name="first", indices=indices))
    condition = f"done({first}[*])" if indices else f"done({first})"
    (orphan, gone) = world.submit(*(spec(name=name, indices=indices, dependency=condition) for name in "ab"))
    world.settle()
    parent = element_id(first, 1) if indices else first
    world.started(parent)
    world.ended(parent, exit_code=3)
    since = world.now
    world.control("kill", gone)
    tick_until(world, since + 100)

    def waits() -> bool:
        return world.engine.state.arrays[orphan].has_waiting(1) if indices else world.state(orphan) == "PEND"

    assert waits()
    world.reconfigure(make_config(queues=(Queue(name="normal"),), params=Params(orphan_grace_s=250.0)))
    tick_until(world, since + 249)
    assert waits()
    tick_until(world, since + 251)
    assert not waits()
    world.check_replay()
