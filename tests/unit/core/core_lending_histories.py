"""Any history (see core_histories) in which jobs with a range of GPUs borrow what is idle, and give it back or not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from core_histories import USERS, Histories
from core_lent_world import SAVES
from core_world import EXCLUSIVE, spec
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from gsched.core.command import ModifyJobs, Submit
from gsched.model.jobs.job import EXIT_SAVED, FINISHED, STARTED, AttemptResult, JobSpec
from gsched.policy.requirement.gpu_range import range_of, resizable_part

_ALONE = ":mode=exclusive_process"
RANGES = tuple(f"num={wanted}{_ALONE}" for wanted in ("1..3", "1..2", "2..3", "1..6", "3..4"))
PLAIN = (*(f"num={wanted}{_ALONE}" for wanted in (1, 1, 2, 3)), "num=1:mode=shared:j_exclusive=no")


def borrower(choice: random.Random) -> JobSpec:
    """A job with a range, now and then one that is asked to save its state for other causes, too."""
    wishes: dict[str, list[Any]] = {
        "queue": ["", "", "high", "small"],
        "hosts": [(), (), ("a",), ("b",)],
        "restart_on": [(), ("preempt", "host", "gpu"), ("idle", "drain")],
        "max_restarts": [None, 0, 1],
        "run_limit_s": [None, None, 600],
        "requeue_exit_values": ["", "1"],
    }
    values = {name: choice.choice(options) for name, options in wishes.items()}
    return spec(gpu_req=choice.choice(RANGES), **SAVES, **values)


class LendingHistories(Histories):
    """One cluster and all that may happen to it, jobs that borrow GPUs included."""

    devices: ClassVar[Mapping[str, int]] = {"a": 6, "b": 4, "c": 0}

    @rule(user=USERS, choice=st.randoms(use_true_random=False), count=st.integers(1, 3))
    def borrow(self, user: str, choice: random.Random, count: int) -> None:
        self.do(Submit(user, "", tuple(borrower(choice) for _ in range(count))))

    @rule(user=USERS, queue=st.sampled_from(["", "high", "small"]), wanted=st.sampled_from(PLAIN))
    def need(self, user: str, queue: str, wanted: str) -> None:
        """A job that may need what is lent."""
        self.do(Submit(user, "", (spec(gpu_req=wanted, queue=queue),)))

    @rule(host=st.sampled_from("ab"), choice=st.randoms(use_true_random=False))
    def save(self, host: str, choice: random.Random) -> None:
        """Whoever is asked to saves its state, is done by then, fails in it, or is killed at the end of its time."""
        agent = self.agents[host]
        for key in sorted(agent.saving):
            agent.save(key, self.now, choice.choice([EXIT_SAVED, EXIT_SAVED, 0, 1, None]))

    @rule(choice=st.randoms(use_true_random=False))
    def quiet_days(self, choice: random.Random) -> None:
        """All hosts are there and some jobs end, so that GPUs are idle; much later jobs may grow."""
        for name in "ab":
            self.connect(name, EXCLUSIVE, False)
            self.control_hosts("open", name)
        self.control_queues("open", "all", "root")
        self.control_queues("activate", "all", "root")
        self.go_on(started=True)
        for agent in (self.agents[name] for name in "ab"):
            for key in sorted(agent.running()):
                if choice.random() < 0.4:
                    agent.end(key, AttemptResult(exit_code=0, ended_at=self.now))
        self.go_on(started=True)
        self.tick(700.0)
        self.go_on(started=True)

    @rule(choice=st.randoms(use_true_random=False))
    def change_range(self, choice: random.Random) -> None:
        ids = tuple(self.any_number(choice) for _ in range(2))
        wanted = spec(gpu_req=choice.choice([*RANGES, *PLAIN]), **SAVES)
        answers = self.do(ModifyJobs("root", True, ids, wanted, ("gpu_req",)))
        assert [answer.job_id for answer in answers] == list(ids)

    @invariant()
    def nobody_has_more_or_less_than_it_asked_for(self) -> None:
        for job in self.engine.state.jobs.values():
            asked = range_of(job.bucket().requirement) if job.state in STARTED and job.allocation else None
            part = None if asked is None or job.allocation is None else resizable_part(job.allocation)
            if asked is not None and part is not None and not job.moved_off:
                assert asked.least <= len(part.gpus) <= asked.most

    @invariant()
    def who_waits_for_gpus_waits_for_jobs_that_save(self) -> None:
        for number in self.engine.state.saving:
            job = self.engine.state.jobs[number]
            assert job.state not in FINISHED and job.save_by is not None
