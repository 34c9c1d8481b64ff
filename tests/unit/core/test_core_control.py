"""Killing, signalling, stopping, resuming in every state; closing and opening hosts."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, first_words, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.command import KillJobs, StopJobs
from gsched.core.instruction import ResumeAttempt, SignalAttempt, SuspendAttempt, TerminateAttempt
from gsched.model.event import JobResumed
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import SLURM, AttemptResult
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue
from gsched.model.views.view import JobFilter

ORDERS = {"kill": TerminateAttempt, "signal": SignalAttempt, "stop": SuspendAttempt, "resume": ResumeAttempt}
SILENT = "Host of the job does not answer"


def in_state(state: str) -> World:
    """A world whose job 1 is in the state."""
    world = World()
    if state == "PSUSP":
        world.submit(spec(hold=True))
    elif state == "PEND":
        world.submit()
    else:
        world.run()
    if state == "USUSP":
        world.control("stop", 1)
    if state in ("UNKWN", "ZOMBI"):
        world.disconnect()
        world.wait(30)
    if state == "ZOMBI":
        world.control("kill", 1)
    if state == "DONE":
        world.ended(1)
    assert world.state(1) == state
    return world


@pytest.mark.parametrize(
    ("state", "action", "error", "after", "ordered"),
    [
        ("PEND", "kill", "", "EXIT", False),
        ("PSUSP", "kill", "", "EXIT", False),
        ("RUN", "kill", "", "RUN", True),
        ("USUSP", "kill", "", "USUSP", True),
        ("UNKWN", "kill", "", "ZOMBI", True),
        ("ZOMBI", "kill", "", "ZOMBI", True),
        ("DONE", "kill", "Job has already finished", "DONE", False),
        ("PEND", "signal", "Job has not started yet", "PEND", False),
        ("RUN", "signal", "", "RUN", True),
        ("USUSP", "signal", "", "USUSP", True),
        ("DONE", "signal", "Job has already finished", "DONE", False),
        ("PEND", "stop", "", "PSUSP", False),
        ("PSUSP", "stop", "", "PSUSP", False),
        ("RUN", "stop", "", "USUSP", True),
        ("USUSP", "stop", "", "USUSP", False),
        ("UNKWN", "stop", SILENT, "UNKWN", False),
        ("ZOMBI", "stop", SILENT, "ZOMBI", False),
        ("DONE", "stop", "Job has already finished", "DONE", False),
        ("PEND", "resume", "", "PEND", False),
        ("PSUSP", "resume", "", "PEND", False),
        ("RUN", "resume", "", "RUN", False),
        ("USUSP", "resume", "", "RUN", True),
        ("UNKWN", "resume", SILENT, "UNKWN", False),
        ("DONE", "resume", "Job has already finished", "DONE", False),
    ],
)
def test_each_action_in_each_state(state: str, action: str, error: str, after: str, ordered: bool) -> None:
    world = in_state(state)
    since = len(world.instructions)
    assert world.control(action, 1, signal=10 if action == "signal" else 0) == [error]
    assert world.state(1) == after
    assert [type(each) for each in world.orders(since)] == ([ORDERS[action]] if ordered else [])
    world.check_replay()


@pytest.mark.parametrize(("user", "reason"), [("ann", "TERM_OWNER"), ("root", "TERM_ADMIN")])
def test_a_pending_job_that_is_killed_never_ran(user: str, reason: str) -> None:
    world = in_state("PEND")
    world.control("kill", 1, user=user)
    job = world.job(1)
    assert job.result == AttemptResult(started=False, ended_at=world.now, term_reason=reason)
    assert job.post_processed and not world.engine.state.pending


@pytest.mark.parametrize(("user", "reason"), [("ann", "TERM_OWNER"), ("root", "TERM_ADMIN")])
def test_a_running_job_that_is_killed_says_by_whom(user: str, reason: str) -> None:
    world = in_state("RUN")
    world.control("kill", 1, user=user)
    world.control("kill", 1, user="root")  # who asked first counts
    world.ended(1, exit_code=None, signal=15)
    job = world.job(1)
    assert job.result is not None and (job.state, job.result.term_reason) == ("EXIT", reason)
    assert world.kinds(1).count("JobSignalRequested") == 1


def test_a_killed_job_that_ended_well_all_the_same_is_done() -> None:
    world = in_state("RUN")
    world.control("kill", 1)
    world.ended(1, exit_code=0)
    assert world.state(1) == "DONE"


def test_a_run_limit_is_not_taken_for_a_kill() -> None:
    world = in_state("RUN")
    world.control("kill", 1)
    world.ended(1, exit_code=140, term_reason="TERM_RUNLIMIT")
    job = world.job(1)
    assert job.result is not None and job.result.term_reason == "TERM_RUNLIMIT"


@pytest.mark.parametrize("number", [2, 9, 15])
def test_signals_that_end_a_pending_job(number: int) -> None:
    world = in_state("PEND")
    assert world.control("signal", 1, signal=number) == [""]
    assert world.state(1) == "EXIT"


def test_signals_that_stop_and_continue_change_the_state() -> None:
    world = in_state("RUN")
    for number, after in ((19, "USUSP"), (18, "RUN"), (20, "USUSP"), (18, "RUN")):
        assert world.control("signal", 1, signal=number) == [""]
        assert world.state(1) == after
    assert not any(isinstance(each, SignalAttempt) for each in world.instructions)


@pytest.mark.parametrize("number", [0, -9, 65])
def test_signals_that_do_not_exist_are_refused(number: int) -> None:
    world = in_state("RUN")
    with pytest.raises(BadRequest, match=f"{number}: Signal not supported"):
        world.control("signal", 1, signal=number)


def test_each_job_gets_its_answer() -> None:
    world = World()
    mine, theirs = world.run(spec(), user="ann")[0], world.run(spec(), user="bob")[0]
    assert first_words(world.control("kill", 99, theirs, mine, mine)) == [
        "No matching job found",
        "User permission denied",
        "",
        "",
    ]
    assert world.control("kill", theirs, user="root") == [""]


def test_all_of_mine_means_unfinished_ones_that_the_filter_admits() -> None:
    queues = (Queue(name="normal", priority=2), Queue(name="night"))
    world = World(make_config(("a", "b"), queues, applications={"care": Application(name="care")}))
    world.submit(
        spec(name="x1"),
        spec(name="x2", queue="night"),
        spec(name="y", application="care"),
        spec(name="x3", hosts=("b",)),
        user="ann",
    )
    world.submit(spec(name="x9"), user="bob")
    world.settle()

    def meant(asker: str = "ann", **wanted: Any) -> list[int]:
        command = StopJobs(asker, asker == "root", (), JobFilter(**wanted) if wanted else None)
        return [each.job_id for each in world.do(command)]

    assert meant() == [1, 2, 3, 4]
    assert meant(name="x*") == [1, 2, 4]
    assert meant(queue="night") == [2]
    assert meant(application="care") == [3]
    assert meant(host="b", name="x3") == [4]
    assert meant("root") == []
    assert meant("root", user="all") == [1, 2, 3, 4, 5]
    assert meant("root", user="bob") == [5]
    assert world.control("kill", user="ann", name="nothing*") == []
    world.control("kill", 3)
    world.ended(3, host=world.job(3).allocation.first_host, signal=15, exit_code=None)  # type: ignore[union-attr]
    assert meant() == [1, 2, 4]
    assert world.control("kill", user="ann", queue="night") == [""]
    denied = world.do(KillJobs("ann", False, (5,)))
    assert first_words([denied[0].error]) == ["User permission denied"]
    assert denied[0].refused_as == "PERMISSION_DENIED"


def test_a_group_of_hosts_and_a_compute_unit_are_closed_and_opened_by_name() -> None:
    groups, racks = {"front": ("a", "b")}, {"rack": {"rack1": ("b", "c")}}
    world = World(make_config("abc", host_groups=groups, compute_units=racks))
    assert world.hosts("close", "front", "a") == ["a", "b"]
    assert set(world.engine.state.closed_hosts) == {"a", "b"}
    (job,) = world.run(spec())
    assert world.job(job).allocation.first_host == "c"
    assert world.hosts("open", "rack1") == ["b", "c"]
    assert set(world.engine.state.closed_hosts) == {"a"}
    with pytest.raises(BadRequest, match="back: Bad host name, host group name or cluster name"):
        world.hosts("close", "back")


def test_administrators_of_a_host_group_open_and_close_its_hosts_alone() -> None:
    groups, racks = {"front": ("a", "b")}, {"rack": {"rack1": ("c",)}}
    admins = {"front": ("gil",), "rack1": ("ann",)}
    world = World(make_config("abc", host_groups=groups, compute_units=racks, host_group_admins=admins))
    assert world.hosts("close", "front", user="gil") == ["a", "b"]
    assert world.hosts("open", "b", user="gil") == ["b"]
    for names, user in ((("c",), "gil"), (("a", "c"), "gil"), (("a",), "ann"), (("a",), "eve")):
        with pytest.raises(PermissionDenied, match="User permission denied"):
            world.hosts("close", *names, user=user)
    assert set(world.engine.state.closed_hosts) == {"a"}
    with pytest.raises(PermissionDenied):  # who rules nothing does not learn which hosts there are
        world.hosts("close", "nowhere", user="eve")
    assert world.hosts("close", "rack1", user="ann") == ["c"]


def test_hosts_are_closed_and_opened_by_administrators() -> None:
    world = World(make_config(("a", HostConfig(name="b"))), connect=True)
    with pytest.raises(PermissionDenied, match="User permission denied"):
        world.hosts("close", "a", user="ann")
    with pytest.raises(BadRequest, match="z: Bad host name"):
        world.hosts("close", "a", "z")
    assert world.engine.state.closed_hosts == {}  # all or nothing
    with pytest.raises(BadRequest, match="'paint' is not something that can be done to a host"):
        world.hosts("paint", "a")
    (running,) = world.run(spec(hosts=("a",)))
    assert world.hosts("close", "a", comment="fan") == ["a"]
    (waiting,) = world.submit(spec(hosts=("a",)))
    world.settle()
    assert world.state(running) == "RUN" and world.state(waiting) == "PEND"
    assert "Closed by LSF administrator: 1 host" in world.reasons(waiting)
    before = len(world.events)
    world.hosts("open", "b")
    assert len(world.events) == before  # it was open
    world.hosts("open", "a", "b")
    world.settle()
    assert world.state(waiting) == "RUN"
    world.check_replay()


@pytest.mark.parametrize("target", ["main", "steps"])
def test_a_signal_for_a_part_of_a_job_ends_no_job(target: str) -> None:
    """What it ends by was no end of the job that somebody asked for; its first host knows its steps."""
    world = World()
    world.run(spec(front_end=SLURM))
    assert world.order("signal", 1, signal=15, target=target) == [""]
    order = world.orders()[-1]
    assert isinstance(order, SignalAttempt)
    assert (order.signal, order.target, order.step, order.reason) == (15, target, None, "")
    assert world.order("signal", 1, signal=9, target=target) == [""]
    assert world.orders()[-1] == SignalAttempt(order.host, 1, 1, 9, "TERM_OWNER"), "SIGKILL is for all"
    with pytest.raises(BadRequest, match="not for others"):
        world.order("signal", 1, signal=15, target="others")
    world.check_replay()


def test_jobs_of_other_commands_have_no_parts() -> None:
    world = World()
    world.run(spec(), spec(front_end=SLURM, interactive="Is", script_words=("bash",)))
    for number in (1, 2):
        assert world.order("signal", number, signal=10, target="steps") == [""]
        order = world.orders()[-1]
        assert isinstance(order, SignalAttempt) and order.target == ""


@pytest.mark.parametrize("number", [0, 9, 10, 19])
def test_a_step_is_signalled_and_its_job_goes_on(number: int) -> None:
    world = World()
    world.run(spec(front_end=SLURM))
    assert world.order("signal", 1, signal=number, step=2) == [""]
    assert world.orders()[-1] == SignalAttempt(world.job(1).allocation.first_host, 1, 1, number, step=2)  # type: ignore[union-attr]
    assert (world.state(1), world.job(1).kill_by) == ("RUN", "")
    world.ended(1, exit_code=3)
    result = world.job(1).result
    assert result is not None and result.term_reason == ""
    assert world.order("signal", 1, signal=0, step=2) == ["Job has already finished"]
    world.check_replay()


def test_a_step_of_a_job_that_waits() -> None:
    world = World()
    world.submit(spec(front_end=SLURM, hold=True))
    assert world.order("signal", 1, signal=0, step=0) == ["Job has not started yet"]
    assert world.state(1) == "PSUSP"


def test_why_a_job_is_suspended_and_resumed_is_kept() -> None:
    world = World()
    world.run()
    world.order("stop", 1, text="the room is hot")
    assert sentence(world.job(1).suspend_reason) == "The job was suspended by user: the room is hot"
    world.order("resume", 1, text="cool again")
    resumed = [each for each in world.events if isinstance(each, JobResumed)]
    assert [each.reason for each in resumed] == ["cool again"] and world.job(1).suspend_reason == ""
    with pytest.raises(BadRequest, match="a message has at most"):
        world.order("stop", 1, text="x" * 100_000)


def test_a_stop_that_outranks_another_is_not_told_with_the_words_of_that() -> None:
    world = World()
    world.run()
    world.order("stop", 1, text="the room is hot")
    world.order("stop", 1, user="root")
    assert world.job(1).stopped_by == "root" and world.job(1).suspend_reason == ""
    world.check_replay()


def test_a_user_resumes_what_an_administrator_has_suspended_where_the_site_lets_him() -> None:
    world = World()
    world.run()
    world.control("stop", 1, user="root")
    (refused,) = world.control("resume", 1)
    assert refused.startswith("User permission denied") and world.state(1) == "USUSP"
    world.reconfigure(world.with_params(users_resume=True))
    (refused,) = world.control("resume", 1, user="bob")
    assert refused.startswith("User permission denied")
    assert world.control("resume", 1) == [""] and world.state(1) == "RUN"


@pytest.mark.parametrize("action", ["top", "bottom"])
def test_only_administrators_move_jobs_where_the_site_says_so(action: str) -> None:
    world = World()
    world.reconfigure(world.with_params(only_admins_move=True))
    world.submit(spec(), spec(), spec(indices="1-2", name="many"))
    before = len(world.events)
    for job_id in (1, 3):
        (refused,) = world.order(action, job_id)
        assert refused.startswith("User permission denied: for administrators of queue normal")
    assert len(world.events) == before
    assert world.order(action, 1, user="root") == [""]


def test_only_administrators_exchange_jobs_where_the_site_says_so() -> None:
    world = World()
    world.reconfigure(world.with_params(only_admins_move=True))
    world.submit(spec(), spec(), spec(indices="1-2", name="many"))
    before = len(world.events)
    for pair in ((1, 2), (1, 3), (3, 1)):
        refused = world.order("exchange", *pair)
        assert all(each.startswith("User permission denied: for administrators of queue") for each in refused)
    assert len(world.events) == before
    assert world.order("exchange", 1, 2, user="root") == ["", ""]
