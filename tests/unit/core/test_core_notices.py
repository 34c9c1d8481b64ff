"""Notices of jobs: which events make one, who sends it, and that each is made once whatever is killed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import coded, has_code, sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.command import NoticeSettled
from gsched.core.instruction import ForgetNotices, SendNotice
from gsched.core.notices import near_limits, notice_making
from gsched.core.notices.notice_ends import PATIENCE_S
from gsched.core.notices.notice_making import MOST_UNSENT, MOST_WARNINGS
from gsched.model.config import GmemAction, Params
from gsched.model.event import JobNoticeMade, JobNoticeSettled, JobSuspended
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import EVENTS, Notice, NoticeEnd, NoticeWish

ALL = NoticeWish(way="webhook", events=EVENTS)
END = NoticeWish(way="command", events=("end",))
FAIL = NoticeWish(way="command", events=("fail",))


def wanting(*wishes: NoticeWish, **changes: Any) -> JobSpec:
    return spec(notices=wishes or (ALL,), notice_targets="b" * 64, **changes)


def made(world: World) -> list[Notice]:
    """All that were made; each was ordered of its host in the same order."""
    notices = [event.notice for event in world.events if isinstance(event, JobNoticeMade)]
    ordered = [each.notice for each in world.instructions if isinstance(each, SendNotice) and each.host]
    assert {each.notice_id for each in ordered} >= {each.notice_id for each in notices}
    assert len({each.notice_id for each in notices}) == len(notices)
    world.check_replay()
    return notices


def told(world: World) -> list[str]:
    return [notice.event for notice in made(world)]


def settle(world: World, notice: Notice, host: str = "a", problem: str = "", tries: int = 1) -> None:
    world.do(NoticeSettled(host, NoticeEnd(notice_id=notice.notice_id, problem=problem, tries=tries)))


def test_nobody_is_told_who_did_not_ask() -> None:
    world = World()
    (job_id,) = world.run()
    world.ended(job_id)
    assert told(world) == []


def test_the_start_and_the_end_are_told_with_what_is_known_of_the_job() -> None:
    world = World()
    (job_id,) = world.run(wanting(name='a "b"\nc', gpu_req="num=1:mode=exclusive_process"))
    world.now += 60
    world.ended(job_id, run_s=60.0)
    start, end = made(world)
    assert (start.event, start.host, start.user, start.way, start.place) == ("start", "a", "ann", "webhook", 0)
    assert (start.job.label, start.job.name, start.job.state, start.job.gpus) == (str(job_id), 'a "b"\nc', "RUN", 1)
    assert (end.event, end.job.state, end.job.exit_code, end.job.run_s) == ("end", "DONE", 0, 60.0)
    assert (end.job.started_at, end.job.ended_at, end.job.hosts) == (world.now - 60, world.now, ("a",))
    assert end.targets == "b" * 64


def test_a_failure_is_told_to_who_wants_it_or_the_end() -> None:
    world = World()
    (job_id,) = world.run(wanting(ALL, END, FAIL))
    world.ended(job_id, exit_code=3, run_s=5.0)
    assert [(each.event, each.place) for each in made(world)] == [("start", 0), ("fail", 0), ("fail", 1), ("fail", 2)]
    assert sentence(made(world)[1].job.why) and made(world)[1].job.failure == "exit_code"
    (job_id,) = world.run(wanting(ALL, END, FAIL))
    world.ended(job_id)
    assert [(each.event, each.place) for each in made(world)][4:] == [("start", 0), ("end", 0), ("end", 1)]


def test_a_job_that_never_ran_has_an_end_too() -> None:
    world = World(make_config(hosts=("a", "b")))
    world.disconnect("a")
    (job_id,) = world.submit(wanting(END, hold=True, submit_host="a"))
    world.control("kill", job_id)
    (notice,) = made(world)
    assert (notice.event, notice.host, notice.job.state, notice.job.run_s) == ("fail", "b", "EXIT", None)


def test_each_run_of_a_job_is_told_and_that_it_waits_again() -> None:
    world = World()
    (job_id,) = world.run(wanting(requeue_exit_values="9"))
    world.ended(job_id, exit_code=9)
    world.settle()
    world.started(job_id)
    world.ended(job_id, attempt=2)
    assert told(world) == ["start", "warning", "start", "end"]
    assert has_code(made(world)[1].what, "notice.requeued")


def test_starts_that_fail_again_and_again_are_told_once() -> None:
    world = World()
    (job_id,) = world.submit(wanting())
    for attempt in (1, 2, 3):
        world.settle()
        world.not_started(job_id, attempt)
        world.wait(100.0)
    assert told(world) == ["warning"]


def test_a_host_that_is_lost_is_told_by_another_one() -> None:
    world = World(make_config(hosts=("a", "b")))
    (job_id,) = world.run(wanting(hosts=("a",)))
    world.disconnect("a")
    world.wait(100.0)
    assert world.state(job_id) == "UNKWN"
    start, warning = made(world)
    assert (start.host, warning.host, sentence(warning.what)) == ("a", "b", "its host a does not answer")


def test_what_is_noted_of_a_job_s_gpus_is_a_warning() -> None:
    world = World(make_config(params=Params(gmem_action=GmemAction.NOTIFY)))
    world.report(gpus=gpus(2, SHARED, memory_mib=80_000))
    (job_id,) = world.run(wanting(gpu_req="num=1:mode=shared:gmem=1000M"))
    report = gpus(2, SHARED, memory_mib=80_000)
    first = msgspec.structs.replace(report.gpus[0], over_gmem=(f"{job_id}.1",))
    for _ in range(2):
        world.report(gpus=msgspec.structs.replace(report, gpus=(first, report.gpus[1])))
    _, warning = made(world)
    assert has_code(warning.what, "note.gmem_exceeded") and warning.event == "warning"


@pytest.mark.parametrize(("user", "expected"), [("ann", []), ("root", ["warning"])])
def test_who_stops_a_job_is_not_told_that_it_is_stopped(user: str, expected: list[str]) -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="mail", events=("warning",))))
    world.control("stop", job_id, user=user)
    assert told(world) == expected


def test_a_job_is_told_before_its_run_limit() -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="mail", events=("warning",)), run_limit_s=6000))
    assert world.engine.next_deadline(world.now) <= world.now + 5400
    world.wait(5399.0)
    assert told(world) == []
    world.wait(1.0)
    (notice,) = made(world)
    assert sentence(notice.what) == "it reaches its run limit of 100 minutes in about 10 minutes, and is ended then"
    world.wait(100.0)
    assert len(made(world)) == 1 and job_id


def test_another_run_limit_has_its_own_time_and_a_stopped_job_is_told_when_it_goes_on() -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="mail", events=("warning",)), run_limit_s=600))
    world.modify(job_id, run_limit_s=6000)
    world.wait(600.0)
    assert told(world) == []
    world.control("stop", job_id)
    world.wait(5000.0)
    assert told(world) == []
    world.control("resume", job_id)
    world.wait(0.0)
    assert told(world) == ["warning"]


def test_the_time_of_a_warning_is_known_after_a_restart() -> None:
    world = World()
    world.run(wanting(run_limit_s=6000))
    world.restart()
    assert world.engine.next_deadline(world.now) <= world.now + 5400
    world.wait(5400.0)
    assert told(world) == ["start", "warning"]
    world.restart()
    world.wait(1.0)
    assert told(world) == ["start", "warning"]


def test_an_array_is_told_of_as_one() -> None:
    world = World()
    (array_id,) = world.run(wanting(name="sweep", indices="1-3"))
    for index in (1, 2, 3):
        world.ended(element_id(array_id, index), exit_code=index - 1)
    start, end = made(world)
    assert (start.event, start.job_id, start.job.label, start.job.name) == ("start", array_id, "1", "sweep[1-3]")
    assert (end.event, end.job.state, end.job.elements) == ("fail", "EXIT", {"DONE": 1, "EXIT": 2})


def test_an_array_whose_elements_are_done_is_done() -> None:
    world = World()
    (array_id,) = world.run(wanting(FAIL, END, indices="1-2"))
    for index in (1, 2):
        world.ended(element_id(array_id, index))
    assert [(each.event, each.place, each.job.elements) for each in made(world)] == [("end", 1, {"DONE": 2})]


def test_each_element_is_told_of_where_that_was_asked_for() -> None:
    world = World()
    each = NoticeWish(way="mail", events=("start", "end"), each_element=True)
    (array_id,) = world.run(wanting(each, indices="1-2"))
    for index in (1, 2):
        world.ended(element_id(array_id, index))
    found = [(notice.event, notice.job.label) for notice in made(world)]
    assert found == [(event, f"{array_id}[{index}]") for event in ("start", "end") for index in (1, 2)]


def test_elements_that_end_unstarted_end_their_array() -> None:
    world = World()
    (array_id,) = world.submit(wanting(hold=True, indices="1-1000"))
    world.control("kill", array_id)
    (notice,) = made(world)
    assert (notice.event, notice.job.elements) == ("fail", {"EXIT": 1000})


def test_an_array_that_runs_again_ends_again() -> None:
    world = World()
    (array_id,) = world.run(wanting(END, indices="1-2"))
    for index in (1, 2):
        world.ended(element_id(array_id, index))
    world.now += 10
    world.order("requeue", element_id(array_id, 2), states=("DONE",))
    world.settle()
    world.started(element_id(array_id, 2))
    world.now += 10
    world.ended(element_id(array_id, 2), attempt=2)
    assert told(world) == ["end", "end"]


def test_so_many_warnings_of_a_job_and_no_more() -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="mail", events=("warning",))))
    for _ in range(MOST_WARNINGS + 5):
        world.control("stop", job_id, user="root")
        world.control("resume", job_id, user="root")
    assert told(world) == ["warning"] * MOST_WARNINGS


def test_who_has_too_many_unsent_is_told_no_more_until_some_are_sent() -> None:
    world = World()
    specs = [wanting(END, hold=True)] * (MOST_UNSENT + 2)
    ids = world.submit(*specs)
    world.control("kill", *ids)
    assert len(made(world)) == MOST_UNSENT
    dropped = [event for event in world.events if isinstance(event, JobNoticeSettled)]
    assert len(dropped) == 2 and has_code(dropped[0].problem, "notice.too_many")
    settle(world, made(world)[0])
    (job_id,) = world.submit(wanting(END, hold=True))
    world.control("kill", job_id)
    assert len(made(world)) == MOST_UNSENT + 1


def test_all_users_together_have_so_many_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_making, "MOST_OF_ALL", 2)
    world = World()
    for user in ("ann", "bob", "cy"):
        ids = world.submit(wanting(END, hold=True), user=user)
        world.control("kill", *ids, user="root")
    assert [each.user for each in made(world)] == ["ann", "bob"]
    (dropped,) = [event for event in world.events if isinstance(event, JobNoticeSettled)]
    assert has_code(dropped.problem, "notice.too_many_of_all")


def test_jobs_that_are_over_are_not_remembered_until_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_limits, "MOST_OVER", 5)
    world = World()
    warned = wanting(NoticeWish(way="mail", events=("warning",)), run_limit_s=36_000)
    (running,) = world.run(warned)
    for _ in range(30):
        (job_id,) = world.run(warned)
        world.ended(job_id)
    assert len(world.engine._near_limits._due) <= 9
    world.wait(33_000.0)
    assert [(each.job_id, each.event) for each in made(world)] == [(running, "warning")]


def test_what_became_of_it_is_recorded_once_and_then_forgotten() -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="webhook", events=("start",))))
    (notice,) = made(world)
    for _ in range(2):
        settle(world, notice, problem="no answer", tries=8)
    found = [event for event in world.events if isinstance(event, JobNoticeSettled)]
    assert [(event.notice_id, event.problem, event.tries) for event in found] == [(notice.notice_id, "no answer", 8)]
    assert [each for each in world.instructions if isinstance(each, ForgetNotices)] == [
        ForgetNotices("a", (notice.notice_id,))
    ] * 2
    text = "The notice of the start was not sent by webhook: no answer"
    assert [sentence(each) for each in world.job(job_id).notes] == [text]
    assert not world.engine.state.notices.all()
    world.check_replay()


def test_no_host_speaks_for_another_one() -> None:
    world = World(make_config(hosts=("a", "b")))
    world.run(wanting(hosts=("a",)))
    (notice,) = made(world)
    settle(world, notice, host="b")
    assert world.engine.state.notices.all() == (notice,)


def test_a_host_that_comes_back_is_ordered_what_it_has_not_got() -> None:
    world = World()
    (job_id,) = world.run(wanting())
    world.ended(job_id)
    start, end = made(world)
    since = len(world.instructions)
    world.hello("a", notices=(start.notice_id, "0123"))
    found = [each for each in world.instructions[since:] if isinstance(each, SendNotice | ForgetNotices)]
    assert found == [SendNotice("a", end), ForgetNotices("a", ("0123",))]
    since = len(world.instructions)
    world.hello("a", notice_ends=(NoticeEnd(notice_id=start.notice_id), NoticeEnd(notice_id=end.notice_id)))
    found = [each for each in world.instructions[since:] if isinstance(each, SendNotice | ForgetNotices)]
    assert found == [ForgetNotices("a", (start.notice_id, end.notice_id))]
    assert not world.engine.state.notices.all()


def test_after_a_restart_all_that_is_unsent_is_known() -> None:
    world = World()
    world.run(wanting())
    (notice,) = made(world)
    world.restart()
    assert world.engine.state.notices.all() == (notice,)
    world.hello("a", held=[(1, 1)])
    assert SendNotice("a", notice) in world.instructions


def test_a_host_that_says_nothing_of_it_is_not_waited_for_for_ever() -> None:
    world = World()
    world.run(wanting())
    world.disconnect("a")
    world.wait(PATIENCE_S - 60)
    assert world.engine.state.notices.all()
    assert world.engine.next_deadline(world.now) <= world.now + 60
    world.wait(61)
    settled = [event for event in world.events if isinstance(event, JobNoticeSettled)]
    assert has_code(settled[0].problem, "notice.no_word")


def test_of_a_job_that_is_forgotten_what_became_of_its_notices_is_recorded() -> None:
    world = World()
    (job_id,) = world.run(wanting(END))
    world.ended(job_id)
    (notice,) = made(world)
    world.wait(4000.0)
    assert job_id not in world.engine.state.jobs
    settle(world, notice, problem="no answer")
    assert not world.engine.state.notices.all()
    world.check_replay()


def test_a_job_that_is_set_aside_has_no_notices_any_more() -> None:
    world = World()
    (job_id,) = world.run(wanting())
    world.engine.state.set_aside(job_id, "cannot be read")
    assert not world.engine.state.notices.all()


def test_what_the_site_does_not_allow_is_said_at_submission_and_not_sent() -> None:
    world = World(make_config(params=Params(notice_ways=("mail",), mail_program="/bin/mail")))
    (job_id,) = world.run(wanting())
    assert told(world) == []
    assert [sentence(each) for each in world.job(job_id).spec.warnings] == [
        "no notices by webhook: GSCHED_NOTIFY of lsf.conf does not allow them"
    ]
    world.reconfigure(world.with_params(notice_ways=("webhook",)))
    world.ended(job_id)
    assert told(world) == ["end"]


def test_mail_without_a_mail_program_is_said_as_for_n() -> None:
    world = World()
    (job_id,) = world.submit(wanting(NoticeWish(way="mail", events=("end",)), notify_end=True))
    assert [sentence(each) for each in world.job(job_id).spec.warnings] == [
        "no mail will be sent: lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER"
    ]


@pytest.mark.parametrize(
    "wish",
    [
        NoticeWish(way="smoke", events=("end",)),
        NoticeWish(way="mail", events=("birth",)),
        NoticeWish(way="mail", events=()),
    ],
)
def test_wishes_that_no_command_makes_are_refused(wish: NoticeWish) -> None:
    with pytest.raises(BadRequest, match="Bad argument: notices of"):
        World().submit(wanting(wish))


def test_more_targets_than_there_may_be_are_refused() -> None:
    with pytest.raises(BadRequest, match="9 notices of each event: 8 are the most"):
        World().submit(wanting(*[ALL] * 9))


def test_a_job_that_runs_can_have_other_notices_and_only_its_owner_says_which() -> None:
    world = World()
    (job_id,) = world.run(spec())
    assert world.modify(job_id, user="ann", notices=(END,), notice_targets="c" * 64) == [""]
    refused = world.modify(job_id, user="bob", notices=(ALL,), notice_targets="d" * 64)
    assert refused[0].startswith("User permission denied")
    world.ended(job_id)
    (notice,) = made(world)
    assert (notice.way, notice.targets) == ("command", "c" * 64)
    changes = next(event.changes for event in world.events if hasattr(event, "changes"))
    assert changes == ("Notices changes to : command: end", "Where notices go changes to : (not shown)")


def test_a_suspension_by_the_system_says_why() -> None:
    world = World()
    (job_id,) = world.run(wanting(NoticeWish(way="mail", events=("warning",))))
    decision = world.engine.tick(world.now)
    reason = coded("note.lost_part", 1, "b", "x")
    event = JobSuspended(at=world.now, job_id=job_id, by=SYSTEM, by_system=True, reason=reason)
    decision.record(event)
    world.engine._settle(decision)
    world.take(decision)
    (notice,) = made(world)
    assert sentence(notice.what) == f"it was suspended: {sentence(reason)}"
