"""Messages put into a job's boxes, jobs that are DONE by being killed, and conditions that are only asked about."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, first_words, job_command, make_config, spec
from msgspec.structs import replace

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.authorization import Caller
from gsched.core.command import EvaluateCondition
from gsched.core.instruction import TerminateAttempt
from gsched.model.config import Params
from gsched.model.event import JobNoted


def order(world: World, action: str, *job_ids: int, user: str = "ann", **more: Any) -> list[str]:
    command = job_command(action, user, *job_ids, is_admin=False, **more)
    return [control.error for control in world.do(command)]


def boxes(world: World, job_id: int) -> list[tuple[int, str, str]]:
    return [(message.box, message.user, message.text) for message in world.job(job_id).messages]


def test_a_message_replaces_the_one_in_its_box() -> None:
    world = World()
    (job_id,) = world.run()
    assert order(world, "post", job_id, text="one", box=3) == [""]
    assert order(world, "post", job_id, text="둘", box=3) == [""]
    assert order(world, "post", job_id, text="x", box=1) == [""]
    assert boxes(world, job_id) == [(1, "ann", "x"), (3, "ann", "둘")]
    world.ended(job_id)
    assert order(world, "post", job_id, text="after", box=0) == [""]
    assert boxes(world, job_id)[0] == (0, "ann", "after")


def test_an_element_can_be_told_and_strangers_cannot_tell() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-3", hold=True))
    assert order(world, "post", array, text="x") == ["Cannot operate on a whole array: name an element"]
    assert order(world, "post", element_id(array, 2), text="x") == [""]
    assert boxes(world, element_id(array, 2)) == [(0, "ann", "x")]
    assert first_words(order(world, "post", element_id(array, 2), user="eve", text="y")) == ["User permission denied"]


def test_an_attachment_stays_in_its_box() -> None:
    """Nothing of the store is ever removed: who could put another one there could fill it."""
    world = World()
    (job_id,) = world.run()

    def attach(box: int, name: str, size: int) -> str:
        (error,) = order(world, "post", job_id, text="x", box=box, attachment=name, attached_bytes=size)
        return error

    def held() -> list[tuple[int, str, str, int]]:
        return [(each.box, each.text, each.attachment, each.attached_bytes) for each in world.job(job_id).messages]

    assert attach(1, "a", 10) == "" and attach(0, "empty", 0) == ""
    assert attach(1, "b", 10) == "Message box 1 has an attachment already, which stays there"
    assert order(world, "post", job_id, text="newer", box=1) == [""]
    assert held() == [(0, "x", "empty", 0), (1, "newer", "a", 10)]
    assert attach(2, "c", 16 * 1024 * 1024 - 9) == "The attachments of a job hold 16 MiB at most"
    assert attach(2, "c", 16 * 1024 * 1024 - 10) == ""
    world.check_replay()


def test_boxes_of_the_owner_are_his_alone_and_take_a_new_attachment() -> None:
    """What is there is unpickled by its owner's programs. The store drops the one of before."""
    world = World()
    (job_id,) = world.run()
    config, job = world.config, world.job(job_id)

    def attach(name: str, size: int, user: str = "ann", *, is_admin: bool = False) -> str:
        command = job_command("post", user, job_id, is_admin=is_admin, text="x", box=127)
        (control,) = world.do(replace(command, attachment=name, attached_bytes=size))
        return control.error

    assert attach("a", 10) == attach("b", 10) == ""
    assert [(each.box, each.attachment, each.attached_bytes) for each in job.messages] == [(127, "b", 10)]
    assert world.dropped == ["a"]
    assert attach("c", 16 * 1024 * 1024 + 1) == "The attachments of a job hold 16 MiB at most"
    assert attach("evil", 1, "boss", is_admin=True) == "User permission denied: for its owner (ann)"
    assert order(world, "post", job_id, text="said", box=127) == [""]
    assert [(each.text, each.attachment, each.attached_bytes) for each in job.messages] == [("said", "b", 10)]
    assert attach("b", 10) == "" and world.dropped == ["a"]
    assert attach("", 0) == "" and world.dropped == ["a"]
    (other_id,) = world.run()
    command = job_command("post", "ann", job_id, other_id, is_admin=False, text="x", box=127)
    told = "Message box 127 takes what is attached to one job alone"
    assert [each.error for each in world.do(replace(command, attachment="d", attached_bytes=1))] == [told, told]
    assert [each.error for each in world.do(replace(command, attachment="none"))] == ["", ""]
    assert world.dropped == ["a", "b"]
    owner, admin, other = Caller("ann", False), Caller("boss", True), Caller("eve", False)
    assert [each.may_read_box(127, job.spec, config) for each in (owner, admin, other)] == [True, False, False]
    assert [each.may_read_box(1, job.spec, config) for each in (owner, admin, other)] == [True, True, False]
    world.check_replay()


@pytest.mark.parametrize("more", [{"box": 129}, {"box": -1}, {"text": "x" * 513}])
def test_boxes_and_texts_have_limits(more: dict[str, object]) -> None:
    world = World()
    (job_id,) = world.run()
    with pytest.raises(BadRequest, match="Bad argument"):
        order(world, "post", job_id, **more)


def test_a_job_killed_as_done_is_done() -> None:
    world = World()
    first, second = world.run(spec(), spec())
    (pending,) = world.submit(spec(hold=True))
    assert order(world, "kill", first, second, pending, as_done=True, text="enough") == ["", "", ""]
    assert TerminateAttempt("a", first, 1, "") in world.orders()
    world.ended(first, exit_code=None, signal=2)
    result = world.job(first).result
    assert world.state(first) == "DONE"
    assert result is not None and (result.exit_code, result.signal, result.term_reason) == (0, None, "")
    assert world.state(pending) == "EXIT"
    assert [world.job(each).view().kill_reason for each in (first, pending)] == ["enough", "enough"]
    notes = [sentence(event.text) for event in world.events if isinstance(event, JobNoted)]
    assert "Job termination reason: enough" in notes
    assert not world.job(first).notes
    world.check_replay()


def test_a_condition_is_judged_without_a_job() -> None:
    world = World()
    (job_id,) = world.run(spec(name="prep"))

    def asked(text: str):
        return world.do(EvaluateCondition("ann", False, text))

    answer = asked("done(prep)")
    assert (answer.holds, answer.is_final, answer.job_ids) == (False, False, (job_id,))
    world.ended(job_id, exit_code=3)
    assert asked("exit(prep, 3)").holds
    answer = asked("done(prep)")
    assert (answer.holds, answer.is_final) == (False, True) and "EXIT" in sentence(answer.text)
    with pytest.raises(BadRequest, match="no job is called none"):
        asked("done(none)")


def test_how_many_boxes_there_are_and_what_goes_into_one_can_be_limited() -> None:
    world = World(make_config(params=Params(max_messages=2, max_attached_kib=1)))
    (job_id,) = world.run()
    assert order(world, "post", job_id, text="x", box=1, attachment="a", attached_bytes=1024) == [""]
    assert order(world, "post", job_id, text="x", box=2) == [
        "Message box 2 is none: a job has 2 of them, from 0 on (MAX_JOB_MSG_NUM)"
    ]
    assert order(world, "post", job_id, text="x", box=0, attachment="b", attached_bytes=1025) == [
        "What is attached to a message has 1 KB at most (MAX_JOB_ATTA_SIZE)"
    ]
