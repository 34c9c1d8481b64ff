"""Several queues in one submission: the first that accepts the job takes it."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.sentences import SENTENCES
from gsched.core.command import Submit
from gsched.model.config import Params
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue

QUEUES = (
    Queue(name="normal"),
    Queue(name="theirs", users=("bob",)),
    Queue(name="onb", hosts=("b",)),
    Queue(name="quick", run_limit_s=600),
    Queue(name="alone", exclusive=True),
    Queue(name="narrow", task_limit=(1, 1, 2)),
    Queue(name="host"),
)


def world(*default_queues: str) -> World:
    params = Params(default_queues=default_queues or ("normal",))
    return World(make_config(("a", HostConfig(name="b", max_slots=8)), QUEUES, params=params))


@pytest.mark.parametrize(
    ("wanted", "queue"),
    [
        (spec(queue="quick normal"), "quick"),
        (spec(queue="theirs normal"), "normal"),
        (spec(queue="onb quick normal", hosts=("a",), run_limit_s=3600), "normal"),
        (spec(queue="normal alone", exclusive=True), "alone"),
        (spec(queue="narrow normal", slots=4), "normal"),
    ],
)
def test_the_first_queue_that_accepts_the_job_takes_it(wanted: JobSpec, queue: str) -> None:
    here = world()
    (job_id,) = here.submit(wanted)
    assert here.job(job_id).spec.queue == queue
    here.check_replay()


def test_a_closed_queue_is_passed_over() -> None:
    here = world()
    here.queues("close", "quick")
    (job_id,) = here.submit(spec(queue="quick normal"))
    assert here.job(job_id).spec.queue == "normal"


def test_several_default_queues() -> None:
    here = world("theirs", "quick", "normal")
    short, long = here.submit(spec(queue=""), spec(queue="", run_limit_s=7200))
    assert (here.job(short).spec.queue, here.job(long).spec.queue) == ("quick", "normal")


def test_when_none_accepts_each_says_why() -> None:
    here = world()
    with pytest.raises(BadRequest) as caught:
        here.submit(spec(queue="theirs onb", hosts=("a",)))
    who = "for bob and administrators of the cluster (root)"
    not_there = "onb: a: Host or host group is not used by the queue"
    assert caught.value.text == f"theirs: User cannot use the queue: {who}; {not_there}"
    with pytest.raises(BadRequest) as caught:
        here.submit(gpu_spec(99, queue="quick normal"))
    assert caught.value.text.count("No host can ever provide") == 1
    with pytest.raises(PermissionDenied):
        here.submit(spec(queue="theirs theirs"))


def test_a_refusal_names_its_queue_whatever_that_is_called() -> None:
    """`host` is a word of the first refusal; the second one names its queue by itself."""
    here = world()
    with pytest.raises(BadRequest) as caught:
        here.submit(gpu_spec(99, slots=4, queue="host narrow"))
    assert caught.value.text.startswith("host: No host can ever provide ")
    assert caught.value.text.endswith("; Too many processors requested: 4, queue narrow allows 2")


def test_a_refusal_is_said_to_be_of_its_queue_by_its_code() -> None:
    """Whatever a queue refuses names it first, so that no list of such texts is kept."""
    codes = [code for code in SENTENCES if code.startswith("refusal.") and code != "refusal.queues"]
    of_profiles = [code for code in codes if code.startswith("refusal.profile_")]
    of_queues = [code for code in codes if code not in of_profiles]
    assert of_profiles and of_queues
    assert not [code for code in of_queues if "{0}" not in SENTENCES[code] or "ueue" not in SENTENCES[code]]
    assert not [code for code in of_profiles if "profile {0}" not in SENTENCES[code]]


def test_an_unknown_queue_is_refused_wherever_it_stands() -> None:
    here = world()
    for queues in ("normal nosuch", "nosuch normal", "nosuch"):
        with pytest.raises(BadRequest) as caught:
            here.submit(spec(queue=queues))
        assert caught.value.text == "nosuch: No such queue"
    (job_id,) = here.submit(spec(queue="normal", hold=True))
    assert here.modify(job_id, queue="quick nosuch") == ["nosuch: No such queue"]


def test_a_modification_goes_to_the_first_that_accepts() -> None:
    here = world()
    (job_id,) = here.submit(spec(queue="normal", slots=4, hold=True))
    assert here.modify(job_id, queue="narrow quick") == [""]
    assert here.job(job_id).spec.queue == "quick"


def test_a_repeated_submission_is_answered_with_one_queue() -> None:
    here = world()
    command = Submit("ann", "t1", (spec(queue="theirs quick", queue_named=True),))
    assert [answer.queue for answer in (*here.do(command), *here.do(command))] == ["quick", "quick"]
