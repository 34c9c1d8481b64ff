"""The board: readers see what was committed, each pending job with its reason, in the order that LSF lists."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from gsched.base.coded_text import sentence
from gsched.base.errors import NotFound
from gsched.base.ids import element_id, show_job
from gsched.config.parameters.shares import FACTORS
from gsched.core.command import (
    AttemptEnded,
    ControlGroups,
    ControlQueues,
    HostHello,
    HostReported,
    KillJobs,
    MoveJobsToTop,
    Reconfigure,
    StopJobs,
    Submit,
)
from gsched.core.engine import Engine
from gsched.core.state.cluster_state import replay
from gsched.master.views.board import Board
from gsched.master.views.overview import HOST_BASED, fragments, group_views, pending_summary
from gsched.master.views.queue_views import queue_views
from gsched.master.views.slot_sums import slot_sums
from gsched.master.views.withheld_slots import Withheld
from gsched.model.config import ClusterConfig, Locations, Params
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig, LoadReport
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.queue import Preemption, Queue, RunLimits, Threshold
from gsched.model.queues.user import Share
from gsched.model.queues.window import Window
from gsched.model.scheduling.snapshot import Bucket, RequirementClass
from gsched.model.views.view import GpuView, HostView, JobFilter, JobView

NOW = 1000.0
PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
CONFIG = ClusterConfig(
    cluster="test",
    master_host="a",
    hosts={name: HostConfig(name=name, max_slots=4) for name in ("a", "b")},
    queues={"normal": Queue(name="normal", priority=3), "night": Queue(name="night", priority=9)},
    locations=PLACES,
)


class Desk:
    """An engine with two hosts and its board."""

    def __init__(self) -> None:
        self.engine = Engine(replay([]), CONFIG, NOW)
        self.board = Board(CONFIG)
        for number, host in enumerate(CONFIG.hosts, 1):
            self.engine.handle(HostHello(host, number, "boot", "1"), NOW)
            load = LoadReport(indices={"mem": 1000.0}, ncpus=4)
            self.engine.handle(HostReported(host, number, load, GpuReport()), NOW)
        self.board.publish(self.engine)

    def submit(self, *specs: JobSpec, now: float = NOW) -> list[int]:
        done = self.engine.handle(Submit("ann", "", specs), now).reply
        return [each.job_id for each in done]

    def go_on(self, now: float = NOW) -> None:
        self.engine.tick(now)
        self.engine.cycle(now)
        self.board.publish(self.engine)

    def reasons(self) -> dict[int, tuple[str, ...]]:
        """The texts of the reasons of all jobs, as gjobs tells them."""
        return {job.job_id: tuple(map(told, job.pending_reasons)) for job in self.board.jobs(JobFilter())}

    def numbers(self, **wanted: object) -> list[str]:
        """Numbers of the jobs that a filter admits, in order, as people see them."""
        return [show_job(job.job_id) for job in self.board.jobs(JobFilter(**wanted))]  # type: ignore[arg-type]

    def fail_to_start(self, job_id: int, host: str, attempt: int = 1, now: float = NOW) -> None:
        result = AttemptResult(started=False, problem="fork failed")
        self.engine.handle(AttemptEnded(job_id, attempt, host, result), now)


def told(reason: PendingReason) -> str:
    """`TEXT: 2 hosts (NUMBERS)`."""
    hosts = f": {reason.hosts} host{'s' if reason.hosts > 1 else ''}" if reason.hosts else ""
    return sentence(reason.text) + hosts + (f" ({sentence(reason.detail)})" if reason.detail else "")


def spec(**changes: object) -> JobSpec:
    return JobSpec(**({"command": "run", "user": "", "queue": "normal"} | changes))  # type: ignore[arg-type]


def test_each_pending_job_is_shown_with_its_own_reason() -> None:
    services = Desk()
    services.submit(spec(slots=4), spec(slots=4), spec(slots=3), spec(slots=4, hosts=("b",)), spec(hold=True))
    services.board.publish(services.engine)
    new = ("New job is waiting for scheduling",)
    assert services.reasons() == {
        1: new,
        2: new,
        3: new,
        4: new,
        5: ("The job was suspended by the user while pending",),
    }
    services.go_on()
    reasons = services.reasons()
    assert (reasons[1], reasons[2]) == ((), ())
    assert reasons[3][0].startswith("Not enough job slot(s)") and reasons[4][0].startswith("Not enough job slot(s)")
    assert "Not specified in job submission: 1 host" in reasons[4]
    assert reasons[5] == ("The job was suspended by the user while pending",)
    seen = {job.job_id: job.pending_reasons for job in services.board.jobs(JobFilter())}
    assert all(services.engine.pending_reasons(each) == seen[each] for each in (3, 4, 5))


def test_reasons_say_when_a_cycle_found_them() -> None:
    services = Desk()
    services.submit(
        spec(slots=4), spec(slots=4), spec(slots=4), spec(hold=True), spec(slots=4, name="a", indices="1-2")
    )
    services.board.publish(services.engine)

    def found() -> dict[int, float | None]:
        return {job.job_id: job.pending_reasons_at for job in services.board.jobs(JobFilter())}

    assert set(found().values()) == {None}
    services.go_on(NOW + 5)
    element = element_id(5, 1)
    assert found() == {1: None, 2: None, 3: NOW + 5, 4: None, element: NOW + 5, element_id(5, 2): NOW + 5}
    services.go_on(NOW + 9)
    assert (found()[3], found()[4], found()[element]) == (NOW + 9, None, NOW + 9)


def test_a_job_whose_start_failed_says_so_and_then_has_the_reason_of_its_kind() -> None:
    services = Desk()
    services.submit(spec())
    services.go_on()
    services.fail_to_start(1, "a")
    services.submit(spec(slots=4), spec(slots=4))
    services.go_on(NOW + 0.5)
    assert (
        "waiting before the next attempt to start it; the last one failed on a: fork failed" in services.reasons()[1][0]
    )
    services.go_on(NOW + 1)
    assert services.reasons()[1] == ("Job slot limit reached: 2 hosts (1 wanted, 0 of 4 free on a)",)
    (seen,) = services.board.jobs(JobFilter(ids=(1,)))
    assert services.engine.pending_reasons(1) == seen.pending_reasons


def test_started_jobs_first_then_pending_ones_as_they_are_served_then_finished_ones() -> None:
    services = Desk()
    services.submit(spec(slots=4), spec(slots=4))
    services.go_on()
    services.submit(spec(slots=4), spec(slots=4, queue="night"), spec(slots=4))
    services.engine.handle(AttemptEnded(1, 1, "a", AttemptResult(exit_code=0, ended_at=NOW)), NOW)
    services.engine.handle(KillJobs("ann", False, (3,)), NOW)
    services.board.publish(services.engine)
    assert [job.job_id for job in services.board.jobs(JobFilter(finished=True))] == [2, 4, 5, 1, 3]
    assert [job.job_id for job in services.board.jobs(JobFilter(ids=(3, 2, 99)))] == [2, 3]
    assert [job.queue_priority for job in services.board.jobs(JobFilter())] == [3, 9, 3]


def test_nothing_is_seen_before_it_is_published() -> None:
    services = Desk()
    services.submit(spec())
    assert list(services.board.jobs(JobFilter())) == [] and services.board.job(1) is None
    services.go_on()
    services.engine.handle(AttemptEnded(1, 1, "a", AttemptResult(exit_code=0, ended_at=NOW)), NOW)
    seen = services.board.job(1)
    assert seen is not None and seen.state == "RUN"
    services.go_on(NOW + 5000)
    assert services.board.job(1) is None


def test_a_new_configuration_shows_its_hosts() -> None:
    services = Desk()
    hosts = {name: HostConfig(name=name, max_slots=2) for name in ("c", "b")}
    services.engine.handle(Reconfigure("root", msgspec.structs.replace(CONFIG, hosts=hosts)), NOW)
    services.board.publish(services.engine)
    assert [(host.name, host.status, host.max_slots) for host in services.board.hosts()] == [
        ("c", "unreach", 2),
        ("b", "ok", 2),
    ]


# -- arrays -----------------------------------------------------------------------------------------------------------


def array_of_four(**changes: object) -> JobSpec:
    return spec(**({"name": "sweep", "indices": "1-3,7", "slots": 4} | changes))


def test_elements_are_listed_as_if_each_were_a_job() -> None:
    services = Desk()
    services.submit(spec(), array_of_four(), spec(queue="night", slots=4))
    services.board.publish(services.engine)
    assert services.numbers() == ["3", "1", "2[1]", "2[2]", "2[3]", "2[7]"]
    services.go_on()
    # The two hosts took jobs 3 and 1, or an element where it fits: whatever runs comes first, nothing is listed twice.
    shown = services.numbers()
    assert sorted(shown) == ["1", "2[1]", "2[2]", "2[3]", "2[7]", "3"] and len(set(shown)) == 6
    states = {show_job(job.job_id): job.state for job in services.board.jobs(JobFilter())}
    assert shown == sorted(shown, key=lambda each: states[each] != "RUN")
    assert all(job.pending_reasons for job in services.board.jobs(JobFilter()) if job.state == "PEND")


def test_what_was_set_aside_has_the_number_that_people_know() -> None:
    services = Desk()
    services.submit(spec(), spec(indices="1-3"))
    services.engine.state.set_aside(1, "a bad record")
    services.engine.state.set_aside(element_id(2, 3), "another")
    services.board.publish(services.engine)
    assert services.board.quarantined == ("Job <1>: a bad record", "Job <2[3]>: another")


def test_elements_that_wait_for_their_counterparts_each_have_a_reason() -> None:
    services = Desk()
    (first,) = services.submit(array_of_four(name="a", slots=1))
    (second,) = services.submit(array_of_four(name="b", dependency="done(a[*])"))
    services.board.publish(services.engine)
    services.go_on()
    wait = "Job dependency condition not satisfied"
    assert [services.reasons()[element_id(second, index)] for index in (2, 7)] == [
        (f"{wait} (done({first}[{index}]) does not hold yet)",) for index in (2, 7)
    ]
    for view in services.board.jobs(JobFilter(ids=(second,))):
        assert view.pending_reasons == services.engine.pending_reasons(view.job_id)


def test_elements_are_found_by_array_by_index_and_by_name() -> None:
    services = Desk()
    services.submit(array_of_four(hold=True, group="/a/b"), spec(name="other", hold=True))
    services.board.publish(services.engine)
    every = ["1[1]", "1[2]", "1[3]", "1[7]"]
    assert services.numbers(ids=(1,)) == every
    assert services.numbers(ids=(element_id(1, 7), element_id(1, 2), element_id(1, 5), 2)) == ["1[2]", "1[7]", "2"]
    assert services.numbers(name="sweep") == every
    assert services.numbers(name="sweep[3]") == ["1[3]"]
    assert services.numbers(name="sw*[2-7]") == ["1[2]", "1[3]", "1[7]"]
    assert services.numbers(name="*[2]") == ["1[2]"]
    assert services.numbers(arrays=True) == every
    assert services.numbers(group="/a/b") == every and services.numbers(group="/a/bc") == []
    assert services.numbers(group="/a") == []  # not of the groups below
    assert (
        services.numbers(states=("RUN",)) == []
        and services.numbers(user="bob") == []
        and services.numbers(host="a") == []
    )
    seen = services.board.job(element_id(1, 7))
    assert seen is not None and (seen.state, seen.spec.shown_name(seen.job_id)) == ("PSUSP", "sweep[7]")
    assert services.board.job(element_id(1, 5)) is None and services.board.job(1) is None


def test_an_array_of_a_million_costs_what_is_read_of_it() -> None:
    services = Desk()
    services.submit(spec(name="many", indices="1-1000000", hold=True))
    services.board.publish(services.engine)
    assert [job.job_id for job in itertools.islice(services.board.jobs(JobFilter()), 2)] == [
        element_id(1, 1),
        element_id(1, 2),
    ]
    assert services.numbers(ids=(element_id(1, 999_999),)) == ["1[999999]"]
    (summary,) = services.board.arrays(JobFilter())
    assert (summary.name, summary.counts) == ("many[1-1000000]", {"PSUSP": 1_000_000})


def test_elements_that_ended_without_a_start_are_shown_until_they_are_forgotten() -> None:
    services = Desk()
    services.submit(array_of_four())
    services.go_on()
    running = services.numbers(states=("RUN",))
    assert running == ["1[1]", "1[2]"]
    services.engine.handle(KillJobs("ann", False, (1,)), NOW)
    services.board.publish(services.engine)
    assert services.numbers() == running and services.numbers(finished=True) == [*running, "1[3]", "1[7]"]
    ended = services.board.job(element_id(1, 7))
    assert ended is not None and ended.state == "EXIT" and ended.result is not None
    assert ended.result.term_reason == "TERM_OWNER"
    (summary,) = services.board.arrays(JobFilter(ids=(1,)))
    assert summary.counts == {"RUN": 2, "EXIT": 2}
    for index, host in ((1, "a"), (2, "b")):
        seen = services.board.job(element_id(1, index))
        assert seen is not None and seen.allocation is not None
        host = seen.allocation.first_host
        result = AttemptResult(signal=9, ended_at=NOW)
        services.engine.handle(AttemptEnded(element_id(1, index), 1, host, result), NOW)
    services.go_on(NOW + 5000)
    assert services.numbers(finished=True) == [] and services.board.arrays(JobFilter()) == []


def test_what_gtop_did_shows_in_the_listing() -> None:
    services = Desk()
    services.submit(*(spec(slots=4) for _ in range(5)))
    services.go_on()
    services.engine.handle(MoveJobsToTop("ann", False, (5,)), NOW)
    services.board.publish(services.engine)
    assert services.numbers() == ["1", "2", "5", "3", "4"]


# -- what is counted over many ----------------------------------------------------------------------------------------


def test_reasons_are_counted_per_job_and_per_host() -> None:
    services = Desk()
    services.submit(spec(slots=4), spec(slots=4))
    services.go_on()
    services.submit(spec(slots=4), array_of_four(hold=True), spec(slots=4))
    services.go_on()
    summary = pending_summary(services.board, NOW)
    assert summary.jobs == 6
    counts = {(sentence(each.text), each.is_host_based): each.count for each in summary.reasons}
    assert counts[("The job was suspended by the user while pending", False)] == 4
    assert counts[(sentence(HOST_BASED), False)] == 2
    assert sum(count for (_, is_host_based), count in counts.items() if is_host_based) == 4


def test_groups_count_what_is_in_them_and_below() -> None:
    services = Desk()
    services.engine.handle(ControlGroups("ann", False, "add", ("/a",), 3), NOW)
    services.submit(spec(group="/a/b", slots=4), array_of_four(group="/a"), spec())
    services.go_on()
    groups = {view.name: view for view in group_views(services.board.shared.groups, *services.board.open_jobs(), ())}
    assert list(groups) == ["/a", "/a/b"]
    assert (groups["/a"].job_limit, sum(groups["/a"].counts.values())) == (3, 5)
    assert groups["/a/b"].counts == {"RUN": 1}
    assert (groups["/a/b"].slots, groups["/a"].slots) == ({"RUN": 4}, {"RUN": 8, "PEND": 12})
    kept = [Withheld(Bucket("q", "ann", RequirementClass(""), job_group="/a/b"), "h", 2)]
    found = group_views(services.board.shared.groups, *services.board.open_jobs(), (), kept)
    assert [(view.rsv, "RSV" in view.slots) for view in found] == [(2, False), (2, False)]
    with pytest.raises(NotFound, match="/zz"):
        group_views(services.board.shared.groups, [], [], ["/zz"])


def test_queues_tell_what_administrators_did_and_what_is_configured() -> None:
    services = Desk()
    services.submit(spec(slots=4), array_of_four(queue="night", hold=True))
    services.engine.handle(ControlQueues("root", True, "close", ("night",), "maintenance"), NOW)
    services.go_on()
    states = services.board.shared.queue_states
    night, normal = queue_views(services.board.config, states, *services.board.open_jobs(), {}, 0)
    assert (night.name, night.status, night.pend, night.facts["ADMIN_COMMENT"]) == (
        "night",
        "Closed:Active",
        16,
        "maintenance",
    )
    assert (normal.status, normal.run, normal.njobs) == ("Open:Active", 4, 4)
    assert (night.pjobs, normal.pjobs) == (4, 0)


def test_policies_of_a_queue_are_put_into_words() -> None:
    queue = Queue(
        name="day",
        fairshare=(Share("red", 3), Share("default", 1)),
        preemption=Preemption(preemptive=(("low", 2),), preemptable_by=()),
        backfill=True,
        exclusive=True,
        run_window=(Window(8 * 60, 18 * 60 + 30), Window(24 * 60, 2 * 24 * 60, weekly=True)),
        thresholds={"mem": Threshold(sched=100, stop=None)},
        limits={"MEMLIMIT": RunLimits(maximum=2048, default=None)},
        hosts=("a", "b"),
        host_levels={"b": 1},
    )
    config = msgspec.structs.replace(CONFIG, queues={"day": queue})
    (view,) = queue_views(config, {}, [], [], {}, minute_of_week=20 * 60)
    assert view.policies == ("FAIRSHARE", "PREEMPTIVE", "PREEMPTABLE", "BACKFILL", "EXCLUSIVE")
    assert view.status == "Open:Inact_Win" and view.hosts == ("a", "b+1")
    assert view.thresholds == {"mem": "100/-"}
    assert {name: text for name, text in view.facts.items() if name not in FACTORS} == {
        "USER_SHARES": "[red, 3] [default, 1]",
        "PREEMPTION": "PREEMPTIVE[low+2] PREEMPTABLE",
        "RUN_WINDOWS": "8:00-18:30 1:0:00-2:0:00",
        "MEMLIMIT": "- 2048",
    }


def test_factors_in_force_are_shown_and_which_of_them_are_defaults() -> None:
    fair = Queue(name="fair", fairshare=(Share("default", 1),), factors={"hist_run_time": True})
    params = Params(factors={"run_job": 2.5})
    config = msgspec.structs.replace(CONFIG, params=params, queues={"fair": fair, "plain": Queue(name="plain")})
    shown, plain = queue_views(config, {}, [], [], {}, 0, gpu_hosts=("a",))
    assert {name: text for name, text in shown.facts.items() if name in FACTORS} == {
        "CPU_TIME_FACTOR": "0",
        "RUN_TIME_FACTOR": "0",
        "RUN_JOB_FACTOR": "2.5",
        "FAIRSHARE_JOB_COUNT": "N",
        "COMMITTED_RUN_TIME_FACTOR": "0",
        "GPU_RUN_TIME_FACTOR": "1",
        "HIST_HOURS": "5",
        "ENABLE_HIST_RUN_TIME": "Y",
        "ENABLE_GPU_HIST_RUN_TIME": "Y",
    }
    assert FACTORS.keys() - shown.defaulted == {"RUN_JOB_FACTOR", "ENABLE_HIST_RUN_TIME"}
    assert not plain.facts.keys() & FACTORS.keys() and plain.defaulted == ()
    (by_lsf, _) = queue_views(config, {}, [], [], {}, 0)
    assert (by_lsf.facts["CPU_TIME_FACTOR"], by_lsf.facts["GPU_RUN_TIME_FACTOR"]) == ("0.7", "0")


def gpu_host(name: str, *holders: tuple[str, ...], mode: ComputeMode = ComputeMode.EXCLUSIVE_PROCESS) -> HostView:
    gpus = tuple(
        GpuView(gpu=Gpu(uuid=f"{name}{index}", index=index, mode=mode), holders=each)
        for index, each in enumerate(holders)
    )
    return HostView(name=name, status="ok", slots_free=4, gpus=gpus, load={"mem": 512.0})


def test_fragments_say_how_many_gpus_one_more_job_could_get() -> None:
    free = gpu_host("free", (), (), ("7.1",))
    no_slots = msgspec.structs.replace(gpu_host("full", (), ()), slots_free=0, status="closed_Full")
    closed = msgspec.structs.replace(gpu_host("shut", ()), status="closed_Adm")
    found = fragments([free, no_slots, closed, HostView(name="plain", status="ok")], [], CONFIG)
    assert [(each.host, each.gpus, each.free, each.usable, each.blocked_by) for each in found] == [
        ("free", 3, 2, 2, "1 held by jobs"),
        ("full", 2, 2, 0, "no job slot is free"),
        ("shut", 1, 1, 0, "the host is closed_Adm"),
    ]


def test_a_shared_gpu_with_room_counts_as_partly_free() -> None:
    held = HeldGpu(uuid="s0", index=0, claim="gpu_shared", share=0.5)
    job = JobView(
        job_id=7,
        spec=spec(),
        state="RUN",
        submitted_at=NOW,
        allocation=Allocation(hosts=(HostAllocation(host="s", slots=1, gpus=(held,)),)),
    )
    host = gpu_host("s", ("7.1",), (), mode=ComputeMode.DEFAULT)
    (found,) = fragments([host], [job], CONFIG)
    assert (found.free, found.partly_free, found.usable) == (1, 1, 1)
    two = msgspec.structs.replace(CONFIG, params=msgspec.structs.replace(CONFIG.params, gpu_shared_jobs=2))
    (found,) = fragments([host], [job], two)
    assert (found.free, found.partly_free, found.usable) == (1, 1, 2)
    alone = HeldGpu(uuid="s0", index=0, claim="gpu_jexcl")
    alone_job = msgspec.structs.replace(
        job, allocation=Allocation(hosts=(HostAllocation(host="s", slots=1, gpus=(alone,)),))
    )
    (found,) = fragments([host], [alone_job], two)
    assert (found.free, found.partly_free, found.usable) == (1, 0, 1)
    whole = msgspec.structs.replace(job, allocation=Allocation(hosts=(HostAllocation(host="s", slots=1),)))
    (other,) = fragments([host], [whole], CONFIG)
    assert (other.partly_free, other.usable) == (0, 1)


def test_a_host_that_a_reconfiguration_took_away_is_a_reason() -> None:
    services = Desk()
    only, either, others = services.submit(
        spec(hosts=("b",), slots=4), spec(hosts=("a", "b"), slots=4), spec(hosts=("b",), other_hosts=True, slots=4)
    )
    one = msgspec.structs.replace(CONFIG, hosts={"a": HostConfig(name="a", max_slots=0)})
    services.engine.handle(Reconfigure("root", one), NOW)
    services.go_on()
    found = services.reasons()
    assert found[only][0] == "Host b no longer exists"
    assert found[either][-1] == "Host b no longer exists (1 of the 2 hosts that the job asks for is left)"
    assert len(found[either]) > 1
    assert not any("no longer" in text for text in found[others])


def test_what_a_job_uses_is_the_sum_over_its_hosts() -> None:
    services = Desk()
    wide = JobSpec(command="c", user="", queue="normal", slots=2, res_req="span[ptile=1]")
    services.engine.handle(Submit("ann", "", (wide,)), NOW)
    services.engine.cycle(NOW)
    for number, host in enumerate(("a", "b"), 1):
        gpus = (GpuUsage(host=host, uuid=f"GPU-{host}", samples=1),)
        used = Usage(cpu_s=3.0, mem_mib=50.0, pgid=number, pids=(number,), sampled_at=NOW, gpus=gpus)
        services.engine.handle(HostReported(host, number, usage={(1, 1): used}), NOW)
    services.board.publish(services.engine)
    job = services.board.job(1)
    assert job is not None and job.allocation is not None and job.usage is not None
    first = ("a", "b").index(job.allocation.first_host) + 1
    assert (job.usage.cpu_s, job.usage.mem_mib, job.usage.pgid, job.usage.pids) == (6.0, 100.0, first, (first,))
    assert {use.host for use in job.usage.gpus} == {"a", "b"} and len(job.usage.gpus) == 2


def test_a_host_that_was_taken_out_is_heard_until_its_jobs_have_ended() -> None:
    services = Desk()
    (job_id,) = services.submit(spec(hosts=("b",)))
    services.go_on()
    assert services.board.leaving == frozenset()
    fewer = msgspec.structs.replace(CONFIG, hosts={"a": CONFIG.hosts["a"]})
    services.engine.handle(Reconfigure("root", fewer), NOW)
    services.board.publish(services.engine)
    assert services.board.leaving == {"b"}
    services.engine.handle(AttemptEnded(job_id, 1, "b", AttemptResult(exit_code=0, ended_at=NOW)), NOW)
    services.board.publish(services.engine)
    assert services.board.leaving == frozenset()


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(),
        JobFilter(user="bob"),
        JobFilter(queue="night", finished=True),
        JobFilter(name="sweep"),
        JobFilter(name="sweep[2-4,9]"),
        JobFilter(name="s*e*"),
        JobFilter(states=("PEND",)),
        JobFilter(arrays=True),
        JobFilter(ids=(2, 3, element_id(1, 4))),
        JobFilter(host="a"),
    ],
)
def test_slots_are_summed_up_as_a_listing_would_show_them(wanted: JobFilter) -> None:
    services = Desk()
    one = JobSpec(command="run", user="", queue="")
    services.engine.handle(
        Submit("ann", "", (msgspec.structs.replace(one, name="sweep", indices="1-9", slots=2),)), NOW
    )
    services.engine.handle(
        Submit("ann", "", tuple(msgspec.structs.replace(one, name=f"s{n}e", slots=n) for n in range(1, 4))), NOW
    )
    services.engine.handle(Submit("bob", "", (msgspec.structs.replace(one, queue="night"),) * 4), NOW)
    services.engine.cycle(NOW)
    services.engine.handle(StopJobs("ann", False, (element_id(1, 8),)), NOW)
    services.engine.handle(KillJobs("ann", False, (element_id(1, 9), 4)), NOW)
    services.board.publish(services.engine)
    listed: dict[str, int] = {}
    for job in services.board.jobs(wanted):
        if job.state not in ("DONE", "EXIT"):
            slots = job.allocation.slots if job.allocation is not None else job.spec.slots
            listed[job.state] = listed.get(job.state, 0) + slots
    assert listed
    assert slot_sums(services.board, wanted) == listed
