"""What time, windows and load bring about: -b, -t, delays of new jobs, run windows, loadSched and loadStop."""

from __future__ import annotations

from core_world import START, World, load, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.ids import element_id
from gsched.core.instruction import ResumeAttempt, SuspendAttempt, TerminateAttempt
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue, Threshold
from gsched.model.queues.window import Window, minute_of_week

DAY = 24 * 60
NOW = minute_of_week(START) % DAY


def window(begin: int, end: int) -> Window:
    """Open from so many minutes after the start of the test to so many."""
    return Window((NOW + begin) % DAY, (NOW + end) % DAY)


# -- begin and end ----------------------------------------------------------------------------------------------------


def test_a_job_starts_at_its_time_and_not_before() -> None:
    world = World()
    job_id, array = world.submit(spec(begin_at=START + 100), spec(name="a", indices="1-2", begin_at=START + 200))
    world.settle()
    assert world.reasons(job_id) == ("The job has a specified start time",) == world.reasons(array)
    assert world.engine.next_deadline(world.now) <= START + 100
    world.wait(99)
    world.settle()
    assert world.state(job_id) == "PEND"
    world.wait(1)
    world.settle()
    assert world.state(job_id) == "RUN" and not world.engine.state.arrays[array].taken
    world.wait(100)
    world.settle()
    assert world.state(element_id(array, 2)) == "RUN"
    world.check_replay()


def test_a_job_is_ended_at_its_time_started_or_not() -> None:
    world = World()
    running, array = world.submit(
        spec(terminate_at=START + 50), spec(name="a", indices="1-3", slots=15, terminate_at=START + 60)
    )
    world.settle()
    world.started(running)
    waiting, held = world.submit(spec(slots=16, terminate_at=START + 50), spec(hold=True, terminate_at=START + 50))
    world.wait(50)
    assert TerminateAttempt("a", running, 1, "TERM_DEADLINE") in world.orders()
    assert world.state(waiting) == world.state(held) == "EXIT"
    for job_id in (waiting, held):
        result = world.job(job_id).result
        assert result is not None and result.term_reason == "TERM_DEADLINE" and not result.started
    world.ended(running, exit_code=None, signal=15)
    result = world.job(running).result
    assert result is not None and result.term_reason == "TERM_DEADLINE"
    world.wait(10)
    first = element_id(array, 1)
    assert TerminateAttempt("a", first, 1, "TERM_DEADLINE") in world.orders()
    assert world.engine.state.arrays[array].count == 0
    since = len(world.instructions)
    world.wait(100)
    assert not world.orders(since)  # once
    world.check_replay()


def test_the_end_comes_even_if_the_host_does_not_answer() -> None:
    world = World()
    (job_id,) = world.run(spec(terminate_at=START + 100))
    world.disconnect()
    world.wait(50)
    assert world.state(job_id) == "UNKWN"
    world.wait(50)
    assert world.state(job_id) == "ZOMBI"
    assert world.engine.next_deadline(world.now) > world.now
    since = len(world.instructions)
    world.connect(held=[(job_id, 1)])
    assert TerminateAttempt("a", job_id, 1, "TERM_DEADLINE") in world.orders(since)


def test_a_termination_time_can_be_taken_back_and_survives_a_requeue() -> None:
    world = World()
    first, second = world.run(spec(terminate_at=START + 50), spec(terminate_at=START + 50))
    world.order("requeue", second)
    world.ended(second, exit_code=None, signal=15)
    world.hosts("close", "a")
    assert world.engine.state.deadlines == {first: START + 50, second: START + 50}
    assert world.modify(second, terminate_at=START + 70) == [""]
    world.wait(60)
    assert world.state(second) == "PEND"
    assert world.modify(second, terminate_at=None) == [""]
    world.wait(60)
    assert world.state(second) == "PEND" and second not in world.engine.state.deadlines


def test_new_jobs_of_a_queue_may_have_to_wait() -> None:
    world = World(make_config(queues=(Queue(name="normal", new_job_delay_s=20.0),)))
    job_id, array = world.submit(spec(), spec(name="a", indices="1-2"))
    world.settle()
    text = "New job is waiting for scheduling (new jobs of the queue wait for a while (NEW_JOB_SCHED_DELAY))"
    assert world.reasons(job_id) == (text,) == world.reasons(array)
    world.wait(19)
    world.settle()
    assert world.state(job_id) == "PEND"
    world.wait(1)
    world.settle()
    assert world.state(job_id) == world.state(element_id(array, 1)) == "RUN"
    world.check_replay()


# -- windows ----------------------------------------------------------------------------------------------------------


def test_outside_its_run_window_a_queue_starts_nothing_and_stops_what_runs() -> None:
    world = World(make_config(queues=(Queue(name="normal", run_window=(window(-5, 10), window(20, 30))),)))
    (job_id,) = world.run(spec())
    world.wait(9 * 60)
    assert world.state(job_id) == "RUN"
    assert world.engine.next_deadline(world.now) <= START + 600
    world.wait(60)
    assert world.state(job_id) == "SSUSP" and world.orders()[-1] == SuspendAttempt("a", job_id, 1)
    assert sentence(world.job(job_id).suspend_reason) == "The run windows of the queue are closed"
    assert world.engine.state.ledger.host("a").slots_used == 1  # it keeps what it holds
    (waiting,) = world.submit(spec())
    world.settle()
    assert world.reasons(waiting) == ("The queue is inactivated by its time windows",)
    assert world.control("resume", job_id) == [""] and world.state(job_id) == "SSUSP"
    world.wait(600)
    world.settle()
    assert world.state(job_id) == "RUN" and world.orders(-2)[0] == ResumeAttempt("a", job_id, 1)
    assert world.state(waiting) == "RUN"
    world.check_replay()


def test_a_dispatch_window_only_keeps_jobs_from_starting() -> None:
    world = World(make_config(queues=(Queue(name="normal", dispatch_window=(window(-5, 10),)),)))
    (job_id,) = world.run(spec())
    world.wait(900)
    (waiting,) = world.submit(spec())
    world.settle()
    assert (world.state(job_id), world.state(waiting)) == ("RUN", "PEND")
    assert world.reasons(waiting) == ("The queue is inactivated by its time windows",)


def test_a_hosts_dispatch_window() -> None:
    world = World(make_config([HostConfig(name="a", max_slots=4, dispatch_window=(window(10, 20),))]))
    (job_id,) = world.submit(spec())
    world.settle()
    assert world.reasons(job_id) == ("Dispatch windows closed: 1 host",)
    world.wait(600)
    world.settle()
    assert world.state(job_id) == "RUN"


def test_a_window_that_is_taken_away_lets_jobs_go_on() -> None:
    for queues in ((Queue(name="normal"),), (Queue(name="other"),)):
        world = World(make_config(queues=(Queue(name="normal", run_window=(window(-5, 10),)),)))
        (job_id,) = world.run(spec())
        world.wait(900)
        assert world.state(job_id) == "SSUSP"
        world.reconfigure(make_config(queues=queues))
        world.wait(1)
        assert world.state(job_id) == "RUN"


# -- loads ------------------------------------------------------------------------------------------------------------

BUSY = Queue(name="normal", thresholds={"r1m": Threshold(1.0, 2.0), "mem": Threshold(500.0, 100.0)})


def test_beyond_load_sched_nothing_starts_beyond_load_stop_jobs_are_suspended() -> None:
    world = World(make_config(queues=(BUSY, Queue(name="other"))))
    job_id, other = world.run(spec(), spec(queue="other"))
    world.report(load=load(r1m=1.5))
    (waiting,) = world.submit(spec())
    world.settle()
    text = "The 1 min effective CPU queue length (r1m) is beyond threshold"
    assert world.reasons(waiting)[0].startswith(text) and world.state(job_id) == "RUN"
    world.report(load=load(r1m=2.5))
    assert (world.state(job_id), world.state(other)) == ("SSUSP", "RUN")
    assert sentence(world.job(job_id).suspend_reason) == f"Host load exceeded threshold: {text} (2.5, threshold 2)"
    world.report(load=load(r1m=1.5))
    assert world.state(job_id) == "SSUSP"  # until it is below loadSched again
    world.report(load=load(r1m=0.5, mem=400.0))
    assert world.state(job_id) == "SSUSP"
    world.report(load=load(r1m=0.5))
    assert world.state(job_id) == "RUN"
    world.wait(10)
    world.settle()
    assert world.state(waiting) == "RUN"
    world.report(load=load(mem=50.0))
    assert world.state(job_id) == "SSUSP"
    world.control("stop", job_id)
    world.report(load=load())
    assert world.state(job_id) == "USUSP"  # people's word stands
    world.check_replay()


def test_stop_and_resume_conditions() -> None:
    queue = Queue(name="normal", stop_cond="select[r1m>5]", resume_cond="select[r1m<1]")
    world = World(make_config(queues=(queue,)))
    (job_id,) = world.run(spec())
    world.report(load=load(r1m=6.0))
    assert world.state(job_id) == "SSUSP"
    assert sentence(world.job(job_id).suspend_reason) == "STOP_COND is true with current host load"
    world.report(load=load(r1m=3.0))
    assert world.state(job_id) == "SSUSP"
    world.report(load=load(r1m=0.5))
    assert world.state(job_id) == "RUN"


def test_a_job_does_not_go_on_while_what_stops_it_holds() -> None:
    queues = (
        Queue(name="normal", thresholds={"r1m": Threshold(None, 2.0)}),
        Queue(name="eager", thresholds={"r1m": Threshold(None, 2.0)}, resume_cond="select[mem>1]"),
        Queue(name="either", stop_cond="select[r1m>2]", resume_cond="select[mem>1]"),
    )
    world = World(make_config(queues=queues))
    jobs = world.run(*(spec(queue=queue.name) for queue in queues))
    world.report(load=load(r1m=3.0))
    assert [world.state(job) for job in jobs] == ["SSUSP"] * 3
    world.report(load=load(r1m=2.5))
    assert [world.state(job) for job in jobs] == ["SSUSP"] * 3
    world.report(load=load(r1m=1.5))
    assert [world.state(job) for job in jobs] == ["RUN"] * 3


def test_thresholds_of_a_host_concern_all_queues() -> None:
    world = World(make_config([HostConfig(name="a", max_slots=9, thresholds={"ut": Threshold(0.5, 0.9)})]))
    (job_id,) = world.run(spec())
    world.report(load=load(ut=0.95))
    assert world.state(job_id) == "SSUSP"
    world.report(load=load(ut=0.1))
    assert world.state(job_id) == "RUN"


def test_an_unknown_load_is_beyond_nothing() -> None:
    world = World(make_config(queues=(BUSY,)))
    (job_id,) = world.run(spec())
    report = load()
    del report.indices["r1m"]
    world.report(load=report)
    assert world.state(job_id) == "RUN"


def test_a_queue_may_end_jobs_instead_of_suspending_them() -> None:
    closing = Queue(name="normal", run_window=(window(-5, 10),), terminate_when=("WINDOW",))
    world = World(make_config(queues=(closing,)))
    (number,) = world.run(spec(rerunnable=True))
    world.started(number)
    world.wait(600)
    world.settle()
    assert TerminateAttempt("a", number, 1, "TERM_WINDOW") in world.orders()
    assert world.state(number) == "RUN", "until it has ended"
    orders = len(world.orders())
    world.wait(60)
    world.settle()
    assert len(world.orders()) == orders, "it is told once"
    world.ended(number, exit_code=None, signal=15)
    result = world.job(number).result
    assert world.state(number) == "EXIT" and result is not None and result.term_reason == "TERM_WINDOW"
    world.check_replay()


def test_a_queue_that_ends_jobs_for_load_suspends_them_when_its_window_closes() -> None:
    both = Queue(
        name="normal", run_window=(window(-5, 10),), terminate_when=("LOAD",), thresholds={"ut": Threshold(stop=0.9)}
    )
    world = World(make_config(queues=(both,)))
    one, other = world.run(spec(), spec())
    for number in (one, other):
        world.started(number)
    world.control("kill", other)
    world.report(load=load(ut=0.95))
    world.settle()
    asked = [order for order in world.orders() if isinstance(order, TerminateAttempt)]
    assert [(order.job_id, order.reason) for order in asked] == [(other, "TERM_OWNER"), (one, "TERM_LOAD")]
    world.check_replay()
    world = World(make_config(queues=(both,)))
    (number,) = world.run(spec())
    world.started(number)
    world.wait(600)
    world.settle()
    assert world.state(number) == "SSUSP"


def test_a_job_starts_while_the_window_is_open_however_long_it_runs() -> None:
    """What IGNORE_DEADLINE of LSF asks for."""
    world = World(make_config(queues=(Queue(name="normal", run_window=(window(-5, 10),)),)))
    (number,) = world.run(spec(run_limit_s=5 * 3600))
    assert world.state(number) == "RUN"
