"""gsched.contrib.drmaa on a stand-in for a cluster: who is told of which job, how it ended, and what is done to it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gsched.api import Cluster, NotFound, Unavailable
from gsched.contrib import drmaa
from gsched.contrib.drmaa import errors
from gsched.contrib.drmaa.active_session import ActiveSession
from gsched.contrib.drmaa.job_control import act_on, states_of, status_of
from gsched.contrib.drmaa.job_info import info_of
from gsched.contrib.drmaa.session_jobs import SessionJobs
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.views.view import JobEnd
from gsched.wire.identity.caller_identity import user_name

PATIENCE_S = 60


# How jobs end


def test_how_an_end_is_told() -> None:
    usage = Usage(cpu_s=1.5, max_mem_mib=2.0)
    result = AttemptResult(exit_code=3, ended_at=100.0, run_s=10.0, usage=usage)
    info = info_of(JobEnd(job_id=3 << 32 | 12, state="EXIT", result=result, host="gpu01"))
    assert info[:7] == ("12[3]", True, False, "", False, False, 3)
    assert info.resourceUsage == {
        "start_time": "90",
        "walltime": "10.000",
        "cpu": "1.500",
        "end_time": "100",
        "mem": "2097152",
        "hosts": "gpu01",
    }


def test_how_ends_by_a_signal_before_the_start_and_of_arrays_are_told() -> None:
    killed = AttemptResult(signal=9, core_dumped=True, term_reason="TERM_OWNER")
    told = info_of(JobEnd(job_id=1, state="EXIT", result=killed, host="h"))
    assert told[:7] == ("1", False, True, "SIGKILL", True, False, 137)
    assert told.resourceUsage["term_reason"] == "TERM_OWNER"
    real_time = info_of(JobEnd(job_id=1, state="EXIT", result=AttemptResult(signal=40), host="h"))
    assert real_time.terminatedSignal == "SIG40"
    never = info_of(JobEnd(job_id=1, state="EXIT", result=AttemptResult(started=False)))
    assert never[:7] == ("1", False, False, "", False, True, 126)
    unknown = info_of(JobEnd(job_id=1, state="EXIT", result=AttemptResult(), host="h"))
    assert unknown[:7] == ("1", False, False, "", False, False, 255)
    array = info_of(JobEnd(job_id=1, state="EXIT", counts={"EXIT": 1}))
    assert array == ("1", True, False, "", False, False, 1, {})


# Who is told of which job


class FakeCluster:
    """Jobs that end when the test says so; it counts what it is asked for."""

    def __init__(self, **states: str) -> None:
        self.open: dict[int, Future[JobEnd]] = {}
        self.states = {int(name.removeprefix("job")): state for name, state in states.items()}
        self.past: dict[int, str] = {}
        self.done: list[tuple[str, list[int]]] = []
        self.refusals: dict[int, str] = {}
        self.owner = user_name(os.getuid())
        self.asked = 0

    def futures(self, job_ids: Iterable[int]) -> list[Future[JobEnd]]:
        self.asked += len(list(job_ids))
        return [self.open.setdefault(job_id, Future()) for job_id in job_ids]

    def ends(self, job_id: int) -> None:
        self.states[job_id] = "DONE"
        end = JobEnd(job_id=job_id, state="DONE", result=AttemptResult(exit_code=0), host="h")
        self.open.setdefault(job_id, Future()).set_result(end)

    def jobs(self, ids: Iterable[int]) -> Iterator[SimpleNamespace]:
        found = (job_id for job_id in self.states for wanted in ids if wanted in (job_id, job_id & 0xFFFFFFFF))
        spec = SimpleNamespace(user=self.owner)
        return (SimpleNamespace(job_id=job_id, state=self.states[job_id], spec=spec) for job_id in found)

    def history(self, ids: Iterable[int]) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(job_id=each, state=self.past[each]) for each in ids if each in self.past)

    def _do(self, verb: str, job_ids: Iterable[int]) -> dict[int, str]:
        self.done.append((verb, list(job_ids)))
        return {job_id: self.refusals[job_id] for job_id in job_ids if job_id in self.refusals}

    def stop(self, job_ids: Iterable[int]) -> dict[int, str]:
        return self._do("stop", job_ids)

    def resume(self, job_ids: Iterable[int]) -> dict[int, str]:
        return self._do("resume", job_ids)

    def kill(self, job_ids: Iterable[int]) -> dict[int, str]:
        return self._do("kill", job_ids)

    def close(self) -> None:
        for future in self.open.values():
            if not future.done():
                future.set_exception(Unavailable("closed"))


def jobs_of(fake: FakeCluster, *job_ids: int) -> SessionJobs:
    jobs = SessionJobs(cast(Cluster, fake))
    jobs.add(job_ids)
    return jobs


def test_a_job_is_told_of_once() -> None:
    fake = FakeCluster()
    jobs = jobs_of(fake, 1, 2)
    fake.ends(1)
    assert jobs.wait_for(1, None).job_id == 1
    for again in (lambda: jobs.wait_for(1, 0), lambda: jobs.check([1])):
        with pytest.raises(errors.InvalidJobException, match="code 18: Job <1> has been waited for already"):
            again()
    assert jobs.unreaped() == [2]


def test_any_is_whichever_ends_first_also_one_that_is_submitted_meanwhile() -> None:
    fake = FakeCluster()
    jobs = jobs_of(fake, 1, 2)
    fake.ends(2)
    assert jobs.wait_for_any(None).job_id == 2
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(jobs.wait_for_any, PATIENCE_S)
        jobs.add([3])
        fake.ends(3)
        assert waiting.result(PATIENCE_S).job_id == 3
    assert fake.asked == 3
    fake.ends(1)
    assert jobs.wait_for_any(0).job_id == 1
    with pytest.raises(errors.InvalidJobException, match="no job of the session is left"):
        jobs.wait_for_any(None)


def test_a_wait_without_time_sees_every_end_and_nothing_else() -> None:
    fake = FakeCluster(job1="RUN")
    jobs = jobs_of(fake, 1)
    for wait in (lambda: jobs.wait_for(1, 0), lambda: jobs.wait_for_any(0.01), lambda: settle(jobs, 1, timeout=0)):
        with pytest.raises(errors.ExitTimeoutException):
            wait()
    # It is known to be over, and its end is on its way.
    fake.states[1] = "DONE"
    timer = threading.Timer(0.2, fake.ends, [1])
    timer.start()
    assert jobs.wait_for(1, 0).job_id == 1
    timer.join()


def settle(jobs: SessionJobs, *job_ids: int, timeout: float | None = None, reaps: bool = False) -> None:
    jobs.wait_for_all(job_ids, timeout, reaps=reaps)


def test_all_are_waited_for_and_forgotten_if_that_is_wished() -> None:
    fake = FakeCluster()
    jobs = jobs_of(fake, 1, 2, 3)
    for job_id in (1, 2, 3):
        fake.ends(job_id)
    settle(jobs, 1, 2)
    assert jobs.unreaped() == [1, 2, 3]
    settle(jobs, 1, 2, reaps=True)
    assert jobs.unreaped() == [3]
    settle(jobs, 1, 3, reaps=True)  # another thread may have waited for some of them meanwhile
    assert jobs.unreaped() == []


def test_one_of_many_threads_gets_a_job() -> None:
    fake = FakeCluster()
    jobs = jobs_of(fake, *range(1, 101))

    def take(_: int) -> int:
        return jobs.wait_for_any(PATIENCE_S).job_id

    def take_the_first(_: int) -> object:
        try:
            return jobs.wait_for(1, PATIENCE_S).job_id
        except errors.InvalidJobException:
            return None

    with ThreadPoolExecutor(20) as pool:
        firsts = [pool.submit(take_the_first, number) for number in range(5)]
        taken = [pool.submit(take, number) for number in range(99)]
        time.sleep(0.05)
        for job_id in range(1, 101):
            fake.ends(job_id)
        found = [future.result(PATIENCE_S) for future in taken]
        gone = [future.result(PATIENCE_S) for future in firsts]
    assert len(set(found)) == 99 and gone.count(1) + found.count(1) <= 1
    assert len(jobs.unreaped()) == (0 if 1 in gone else 1)


def test_a_job_that_there_is_not_and_a_master_that_is_away() -> None:
    fake = FakeCluster()
    jobs = jobs_of(fake, 1)
    fake.open[9] = Future()
    fake.open[9].set_exception(NotFound("Job <9> is not found"))
    for _ in range(2):  # it may come to exist
        with pytest.raises(errors.InvalidJobException, match="not found"):
            jobs.wait_for(9, None)
    fake.open[1] = Future()
    fake.open[1].set_exception(Unavailable("gone"))
    with pytest.raises(errors.DrmCommunicationException, match="gone"):
        jobs.wait_for_any(None)
    del fake.open[1]
    fake.ends(1)
    assert jobs.wait_for_any(None).job_id == 1


def test_a_session_that_is_closed_lets_go_of_who_waits() -> None:
    fake = FakeCluster()
    session = ActiveSession(cast(Cluster, fake))
    session.jobs.add([1])
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(session.jobs.wait_for, 1, None), pool.submit(session.jobs.wait_for_any, None)]
        while fake.asked == 0:
            time.sleep(0.01)
        session.close()
        for each in waiting:
            with pytest.raises(errors.NoActiveSessionException):
                each.result(PATIENCE_S)


# States and control


@pytest.mark.parametrize(
    ("state", "theirs"),
    [
        ("PEND", "queued_active"),
        ("PSUSP", "user_on_hold"),
        ("RUN", "running"),
        ("USUSP", "user_suspended"),
        ("SSUSP", "system_suspended"),
        ("DONE", "done"),
        ("EXIT", "failed"),
        ("UNKWN", "undetermined"),
        ("ZOMBI", "undetermined"),
    ],
)
def test_states(state: str, theirs: str) -> None:
    assert status_of(cast(Cluster, FakeCluster(job1=state)), 1) == theirs


def test_states_of_long_ago_of_nobody_and_of_arrays() -> None:
    fake = FakeCluster()
    fake.past = {1: "EXIT"}
    fake.states = {5 << 32 | 12: "RUN"}
    cluster = cast(Cluster, fake)
    assert states_of(cluster, [1, 2]) == {1: "EXIT"}
    with pytest.raises(errors.InvalidJobException, match="not found"):
        status_of(cluster, 2)
    with pytest.raises(errors.InvalidJobException, match="12 is an array"):
        status_of(cluster, 12)


@pytest.mark.parametrize(
    ("action", "state", "verb"),
    [
        ("suspend", "RUN", "stop"),
        ("resume", "USUSP", "resume"),
        ("hold", "PEND", "stop"),
        ("release", "PSUSP", "resume"),
        ("terminate", "SSUSP", "kill"),
        ("terminate", "PSUSP", "kill"),
        ("terminate", "UNKWN", "kill"),
        ("suspend", "USUSP", ""),
        ("hold", "PSUSP", ""),
        ("terminate", "DONE", ""),
    ],
)
def test_actions(action: str, state: str, verb: str) -> None:
    fake = FakeCluster(job1=state)
    act_on(cast(Cluster, fake), [1], action, skips_finished=False)
    assert fake.done == ([(verb, [1])] if verb else [])


@pytest.mark.parametrize(
    ("action", "state", "kind"),
    [
        ("suspend", "PEND", errors.SuspendInconsistentStateException),
        ("resume", "RUN", errors.ResumeInconsistentStateException),
        ("hold", "RUN", errors.HoldInconsistentStateException),
        ("release", "PEND", errors.ReleaseInconsistentStateException),
        ("release", "DONE", errors.ReleaseInconsistentStateException),
        ("dance", "RUN", errors.InvalidArgumentException),
    ],
)
def test_actions_that_a_state_does_not_allow(action: str, state: str, kind: type[Exception]) -> None:
    fake = FakeCluster(job1=state)
    with pytest.raises(kind):
        act_on(cast(Cluster, fake), [1], action, skips_finished=False)
    assert fake.done == []


def test_of_all_jobs_those_get_it_whose_state_allows_it() -> None:
    fake = FakeCluster(job1="RUN", job2="DONE", job3="PEND", job4="RUN")
    with pytest.raises(errors.SuspendInconsistentStateException, match="Job <3>: it is PEND"):
        act_on(cast(Cluster, fake), [1, 2, 3, 4], "suspend", skips_finished=True)
    assert fake.done == [("stop", [1, 4])]
    with pytest.raises(errors.InvalidJobException):
        act_on(cast(Cluster, fake), [7], "suspend", skips_finished=True)


def test_what_the_master_refuses() -> None:
    fake = FakeCluster(job1="RUN")
    fake.refusals[1], own, fake.owner = "User permission denied", fake.owner, "somebody else"
    with pytest.raises(errors.AuthorizationException, match="permission denied"):
        act_on(cast(Cluster, fake), [1], "terminate", skips_finished=False)
    fake.refusals[1], fake.owner = "something else", own
    with pytest.raises(errors.SuspendInconsistentStateException, match="something else"):
        act_on(cast(Cluster, fake), [1], "suspend", skips_finished=False)
    fake.refusals[1] = "Job has already finished"

    def kill(job_ids: Iterable[int]) -> dict[int, str]:
        fake.states[1] = "EXIT"
        return {1: "Job has already finished"}

    fake.kill = kill  # type: ignore[method-assign]
    act_on(cast(Cluster, fake), [1], "terminate", skips_finished=False)


# Sessions


def test_calls_need_a_session() -> None:
    template = drmaa.JobTemplate(remoteCommand="x")
    session = drmaa.Session
    for call in (
        session.exit,
        session.createJobTemplate,
        lambda: session.runJob(template),
        lambda: session.runBulkJobs(template, 1, 2, 1),
        lambda: session.wait("1"),
        lambda: session.synchronize(["1"]),
        lambda: session.jobStatus("1"),
        lambda: session.control("1", "hold"),
    ):
        with pytest.raises(errors.NoActiveSessionException, match="code 5"):
            call()


def test_what_is_told_without_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_ENVDIR", "/etc/somewhere")
    assert drmaa.Session.contact == drmaa.Session().contact == "/etc/somewhere"
    assert str(drmaa.Session.version) == "1.0" and drmaa.Session.version.major == 1
    assert drmaa.Session.drmsInfo.startswith("gsched ")
    assert drmaa.Session.drmaaImplementation.startswith("gsched.contrib.drmaa ")


def test_a_contact_that_leads_nowhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.InvalidContactStringException):
        drmaa.Session.initialize(str(tmp_path / "nowhere"))
    monkeypatch.setenv("GSCHED_ENVDIR", str(tmp_path))
    with pytest.raises(errors.DefaultContactStringException):
        drmaa.Session.initialize()
