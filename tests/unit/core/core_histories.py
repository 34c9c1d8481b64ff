"""Any history at all: random people, agents that tell late, twice or never, hosts that vanish, masters that restart.

After each step the ledger is right, the events alone give the same state, nobody waits without a reason, and no GPU
has two owners: neither in the ledger nor in what really runs on the hosts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from core_history_agents import DEVICES, REQUIREMENTS, TOPOLOGY, AgentModel, configs, held_by_jobs
from core_world import EXCLUSIVE, SHARED, START, gpus, job_command, load, spec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gsched.base.coded_text import sentence
from gsched.base.errors import GschedError
from gsched.base.ids import array_of, element_id
from gsched.core.command import (
    Command,
    ControlGroups,
    ControlHosts,
    ControlQueues,
    ControlReservations,
    HeldAttempt,
    HostDisconnected,
    HostHello,
    HostReported,
    ModifyJobs,
    Reconfigure,
    RequeueJobs,
    Submit,
)
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.instruction import (
    Instruction,
    StartJob,
)
from gsched.core.pending.pending_reasons import WAITING
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, JobNoticeMade, JobNoticeSettled, decode_event, encode_event
from gsched.model.gpus.gpu_idle import AttemptIdleness, GpuIdleness, IdleLimits
from gsched.model.hosts.host import ComputeMode, GpuReport
from gsched.model.jobs.job import FINISHED, PENDING, AttemptFailure, AttemptResult, JobSpec, Usage
from gsched.model.jobs.notice import EVENTS, NoticeEnd, NoticeWish
from gsched.model.ledgers.allocation import SHARING, HostAllocation
from gsched.model.ledgers.devices import SETTABLE_MODES
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.views.room_view import ReservationView

USERS = st.sampled_from(["ann", "bob", "root"])


class Histories(RuleBasedStateMachine):
    """One cluster and all that may happen to it."""

    devices: ClassVar[Mapping[str, int]] = DEVICES
    """Host -> its GPUs."""

    @initialize()
    def begin(self) -> None:
        self.configs = configs()
        self.config = self.configs[0]
        self.now = START
        self.events: list[AnyEvent] = []
        self.aside: list[tuple[int, int]] = []
        """(number of events before it, job) of each job set aside at a restart."""
        self.agents = {name: AgentModel(name) for name in self.devices}
        self.engine = Engine(ClusterState(), self.config, self.now)
        self.sessions = 0
        self.tokens: dict[str, tuple[Submit, list[int]]] = {}
        for name in self.agents:
            self.connect(name, EXCLUSIVE, False)

    # -- how things are carried out -------------------------------------------------------------------------------

    def do(self, command: Command) -> Any:
        before = self.engine.state.dump()
        try:
            return self.take(self.engine.handle(command, self.now)).reply
        except GschedError as refusal:
            assert self.engine.state.dump() == before and "\n" not in refusal.text
            return None

    def take(self, decision: Decision) -> Decision:
        self.events += decision.events
        for order in decision.instructions:
            agent = self.agents[order.host]
            if agent.connected:
                agent.orders.append((order, self.order_part(order)))
        return decision

    def order_part(self, order: Instruction) -> HostAllocation | None:
        """What a start order carries; nothing when the job has moved on."""
        job = self.engine.state.jobs.get(order.job_id) if isinstance(order, StartJob) else None
        if job is None or job.allocation is None or not isinstance(order, StartJob) or job.attempt != order.attempt:
            return None
        here = self.agents[order.host]
        if job.allocation.first_host != order.host:
            here.elsewhere.add(job.key)
        else:
            assert all(job.key in self.agents[part.host].opened for part in job.allocation.hosts[1:])
        return next(part for part in job.allocation.hosts if part.host == order.host)

    def replayed(self, upto: int | None = None, since: int = 0, state: ClusterState | None = None) -> ClusterState:
        """What the events (and the jobs set aside between them) from `since` on add up to."""
        state = state or ClusterState()
        events = self.events[:upto]
        for number in range(since, len(events) + 1):
            for _, job_id in (each for each in self.aside if each[0] == number):
                state.set_aside(job_id, "a bad record")
            if number < len(events):
                state.apply(events[number])
        return state

    # -- people ---------------------------------------------------------------------------------------------------

    @rule(
        user=st.sampled_from(["ann", "bob", "root"]),
        kinds=st.lists(
            st.tuples(
                st.sampled_from(REQUIREMENTS), st.sampled_from([1, 1, 1, 2, 3]), st.sampled_from(["", "", "small"]),
                st.sampled_from([(), (), ("b",)]), st.booleans(),
            ),
            min_size=1, max_size=4,
        ),
        token=st.sampled_from(["", "t1", "t2", "t3", "t4"]),
    )  # fmt: skip
    def submit(self, user: str, kinds: list[tuple[str, int, str, tuple[str, ...], bool]], token: str) -> None:
        specs = tuple(
            spec(res_req=text, slots=slots, queue=queue, hosts=hosts, hold=hold and number > 1)
            for number, (text, slots, queue, hosts, hold) in enumerate(kinds)
        )
        known = self.tokens.get(token)
        if known is not None and known[0].user == user:
            again = self.do(known[0])
            if known[1][0] in self.engine.state.jobs:
                assert [each.job_id for each in again] == known[1]
            if again is not None:
                self.tokens[token] = (known[0], [each.job_id for each in again])
            return
        command = Submit(user, token, specs)
        done = self.do(command)
        if done and token:
            self.tokens[token] = (command, [each.job_id for each in done])

    @rule(user=USERS, choice=st.randoms(use_true_random=False), count=st.integers(1, 3))
    def submit_more(self, user: str, choice: random.Random, count: int) -> None:
        """Arrays, conditions, times, groups, reservations and the rest of what a job may ask for."""
        for _ in range(count):
            self.do(Submit(user, "", (self.any_spec(choice),)))

    def any_spec(self, choice: random.Random) -> JobSpec:
        wishes: dict[str, list[Any]] = {
            "name": ["", "train"],
            "indices": ["1-4", "2-9:3"],
            "dependency": [f"done({self.any_number(choice) & 0xFFFFFFFF})", 'ended("train")', "done(train[*])"],
            "begin_at": [None, None, None, self.now + 3.0],
            "terminate_at": [None, None, None, self.now + 30.0],
            "group": ["", "", "/g", "/g/h"],
            "queue": ["", "", "high", "small"],
            "rerunnable": [None, True, False],
            "requeue_exit_values": ["", "all ~0"],
            "exclusive": [False, False, False, True],
            "reservation": ["", "", "", "r"],
            "run_limit_s": [None, None, 60],
            "slots": [1, 1, 2, 20],
            "max_slots": [0, 0, 3],
            "res_req": list(REQUIREMENTS),
            "hold": [False, False, True],
            "user_group": ["", "", "lab"],
            "priority": [None, None, 3],
        }
        values = {name: choice.choice(options) for name, options in wishes.items() if choice.random() < 0.2}
        if values.get("indices") and choice.random() < 0.5:
            values["array_limit"] = 2
        if len(self.events) % 2:  # not by `choice`: what else happens stays what it was
            each = len(self.events) % 3 == 0
            values["notices"] = (NoticeWish(way="mail", events=EVENTS, each_element=each),)
        return spec(**values)

    def any_number(self, choice: random.Random) -> int:
        """A job, an array, an element of one, or nothing that is there."""
        state = self.engine.state
        elements = [element_id(number, choice.randint(1, 9)) for number in state.arrays]
        open_jobs = [job.job_id for job in state.jobs.values() if job.state not in FINISHED]
        return choice.choice([*open_jobs * 3, *state.jobs, *state.arrays, *elements, *state.quarantined, 99])

    @rule(
        action=st.sampled_from(["kill", "stop", "resume", "signal", "requeue", "top", "bottom", "run"]),
        user=USERS,
        choice=st.randoms(use_true_random=False),
        number=st.sampled_from([9, 10, 15, 18, 19]),
    )
    def control(self, action: str, user: str, choice: random.Random, number: int) -> None:
        ids = tuple(self.any_number(choice) for _ in range(choice.choice([1, 1, 2])))
        position = choice.choice([1, 2])
        hosts = (choice.choice("abc"),) if action == "run" else ()
        hold, states = choice.random() < 0.2, choice.choice([(), ("RUN", "DONE"), ("EXIT",)])
        options: dict[str, dict[str, Any]] = {
            "signal": {"signal": number},
            "requeue": {"hold": hold, "states": states},
            "top": {"position": position},
            "bottom": {"position": position},
            "run": {"hosts": hosts},
        }
        answers = self.do(job_command(action, user, *ids, **options.get(action, {})))
        assert answers is None or [answer.job_id for answer in answers] == list(ids)

    @rule(hold=st.booleans(), whole=st.booleans())
    def requeue_ended(self, hold: bool, whole: bool) -> None:
        """Elements that ended without having been started are to run again: all of an array, or one."""
        arrays = self.engine.state.arrays.items()
        ended = [(number, each) for number, array in arrays for each in array.ended_unstarted()[:1]]
        ids = tuple(number if whole else element_id(number, each) for number, each in ended)
        if ids:
            self.do(RequeueJobs("root", True, ids, hold=hold, states=("EXIT",)))

    @rule(user=USERS, choice=st.randoms(use_true_random=False))
    def modify(self, user: str, choice: random.Random) -> None:
        wanted = self.any_spec(choice)
        fields = choice.choice(
            [("queue",), ("slots", "max_slots"), ("dependency",), ("terminate_at", "group"), ("rerunnable",),
             ("res_req",), ("array_limit",), ("begin_at", "priority", "exclusive"), ("reservation", "run_limit_s")]
        )  # fmt: skip
        ids = tuple(self.any_number(choice) for _ in range(2))
        answers = self.do(ModifyJobs(user, user == "root", ids, wanted, fields))
        assert [answer.job_id for answer in answers] == list(ids)

    @rule(
        action=st.sampled_from(["open", "close", "activate", "inactivate"]),
        queue=st.sampled_from(["normal", "small", "all"]),
        user=st.sampled_from(["root", "root", "bob"]),
    )
    def control_queues(self, action: str, queue: str, user: str) -> None:
        self.do(ControlQueues(user, user == "root", action, (queue,)))

    @rule(action=st.sampled_from(["add", "modify", "remove"]), user=USERS, limit=st.sampled_from([-1, 0, 1]))
    def control_groups(self, action: str, user: str, limit: int) -> None:
        self.do(ControlGroups(user, user == "root", action, ("/g/h", "/g", "/idle"), limit))

    @rule(action=st.sampled_from(["add", "add", "modify", "remove"]), choice=st.randoms(use_true_random=False))
    def control_reservations(self, action: str, choice: random.Random) -> None:
        start = self.now + choice.choice([0.0, 5.0])
        view = ReservationView(name="r", users=("ann", "lab"), start=start, end=start + choice.choice([20.0, 60.0]))
        self.do(ControlReservations("root", True, action, view, slots=choice.randint(0, 5), gpus=choice.randint(0, 2)))

    @rule(action=st.sampled_from(["open", "close"]), host=st.sampled_from("abc"))
    def control_hosts(self, action: str, host: str) -> None:
        self.do(ControlHosts("root", True, action, (host,)))

    @rule(which=st.integers(0, 3))
    def reconfigure(self, which: int) -> None:
        self.config = self.configs[which]
        self.do(Reconfigure("root", self.config))

    # -- time and the scheduler -----------------------------------------------------------------------------------

    @rule(budget=st.sampled_from([1, 3, 1000]))
    def cycle(self, budget: int) -> None:
        self.take(self.engine.cycle(self.now, budget))

    @rule(work=st.sampled_from([1, 150]), late=st.integers(0, 3), user=USERS)
    def cycle_in_turns(self, work: int, late: int, user: str) -> None:
        """Some submissions come between its turns."""
        self.take(self.engine.cycle(self.now, steps=work))
        while self.engine.cycles.is_planning:
            if late:
                self.do(Submit(user, "", (JobSpec(command="late", user="", queue="", dependency=f"started({late})"),)))
                self.do(Submit(user, "", (JobSpec(command="late", user="", queue=""),)))
                late -= 1
            self.take(self.engine.cycle(self.now, steps=work))

    @rule(started=st.booleans())
    def go_on(self, started: bool) -> None:
        """What happens all day: jobs are dispatched, arrive, start, and that is told."""
        self.settle()
        for agent in self.agents.values():
            self.obey(agent.name, 9)
            for key in sorted(agent.running()) if started else ():
                agent.start(key, self.now)
            while agent.connected and agent.news:
                self.do(agent.news.pop(0))
            for report in agent.send_notices() if started else ():
                if agent.connected:  # else its hello tells
                    self.do(report)

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 40.0, 4000.0]))
    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.engine.tick(self.now))

    # -- agents ---------------------------------------------------------------------------------------------------

    @rule(host=st.sampled_from("abc"), mode=st.sampled_from([EXCLUSIVE, EXCLUSIVE, SHARED]), reboot=st.booleans())
    def connect(self, host: str, mode: ComputeMode, reboot: bool) -> None:
        self.hello(self.agents[host], reboot)
        self.report(host, mode, False, False)

    def hello(self, agent: AgentModel, reboot: bool = False) -> None:
        if reboot and not agent.connected:
            agent.reboot()
        self.sessions += 1
        agent.connected, agent.session = True, self.sessions
        agent.orders, agent.news = [], []  # an older session is over
        held = tuple(
            HeldAttempt(*key, part, signalled=agent.signalled.get(key, 0)) for key, part in agent.running().items()
        )
        started = tuple(report for key, report in agent.started.items() if key not in agent.ended)
        before = self.engine.observations.of(agent.name).session
        ended = tuple(agent.ended.values())
        told = {
            "notices": tuple(notice_id for notice_id, is_sent in agent.notices.items() if not is_sent),
            "notice_ends": tuple(NoticeEnd(notice_id=each) for each, is_sent in agent.notices.items() if is_sent),
            "confirms_signals": True,
        }
        self.do(HostHello(agent.name, agent.session, str(agent.boot), "1", held, started, ended, TOPOLOGY, **told))
        if self.engine.observations.of(agent.name).session == before:
            agent.connected = False  # refused: the host is not configured

    @rule(host=st.sampled_from("abc"))
    def disconnect(self, host: str) -> None:
        agent = self.agents[host]
        if agent.connected:
            agent.connected = False
            agent.orders, agent.news = [], []
            self.do(HostDisconnected(host, agent.session))

    @rule(host=st.sampled_from("abc"), seconds=st.sampled_from([1.0, 40.0]))
    def lose(self, host: str, seconds: float) -> None:
        """A host is silent, perhaps for so long that its jobs are unknown."""
        self.disconnect(host)
        self.tick(seconds)

    @rule(
        host=st.sampled_from("abc"), mode=st.sampled_from(list(ComputeMode)), fails=st.booleans(), given=st.booleans()
    )
    def report(self, host: str, mode: ComputeMode, fails: bool, given: bool) -> None:
        """`given`: somebody has changed the mode under the jobs."""
        agent = self.agents[host]
        if agent.connected:
            what = {"mode_settable": mode in SETTABLE_MODES, "mode_given": ComputeMode.DEFAULT if given else None}
            seen = GpuReport(known=False, reason="hangs") if fails else gpus(self.devices[host], mode, host, **what)
            busy = 3.0 if fails else 0.0
            self.do(HostReported(host, agent.session, load(external={"seats": 1.0}, r1m=busy), seen))

    @rule(
        host=st.sampled_from("abc"), idle_s=st.sampled_from([0.0, 19.0, 20.0, 25.0, 31.0, 60.0]), known=st.booleans(),
        warned=st.integers(0, 3), util=st.sampled_from([5.0, 5.0, 5.0, 7.0]),
    )  # fmt: skip
    def tell_idleness(self, host: str, idle_s: float, known: bool, warned: int, util: float) -> None:
        """How idle the GPUs of all that runs there are; agents may say what they like, in any order."""
        agent = self.agents[host]
        if not agent.connected:
            return
        kind = "stopped" if idle_s else ""
        idle = {
            key: AttemptIdleness(
                limits=IdleLimits(util=util),
                warned=warned,
                gpus=tuple(
                    GpuIdleness(host=host, index=gpu.index, uuid=gpu.uuid, kind=kind, idle_s=idle_s, is_known=known)
                    for gpu in part.gpus
                ),
            )
            for key, part in agent.running().items()
        }
        self.do(HostReported(host, agent.session, usage=dict.fromkeys(idle, Usage()), idle=idle))

    @rule(host=st.sampled_from("abc"), count=st.integers(1, 5))
    def obey(self, host: str, count: int) -> None:
        agent = self.agents[host]
        orders, agent.orders = agent.orders[:count], agent.orders[count:]
        for order, part in orders:
            agent.obey(order, part, self.now)

    @rule(host=st.sampled_from("abc"), choice=st.randoms(use_true_random=False), code=st.sampled_from([0, 1, None, -1]))
    def work(self, host: str, choice: random.Random, code: int | None) -> None:
        """An attempt starts, or ends: well, badly, by a signal, or without ever having begun."""
        agent = self.agents[host]
        running = sorted(agent.running())
        if not running:
            return
        key = choice.choice(running)
        if key not in agent.started and code != -1:
            agent.start(key, self.now)
        elif key in agent.started:
            failure = AttemptFailure(kind=("gpu_busy", "xid")[key[1] % 2]) if key[0] % 3 == 0 else None
            agent.end(key, AttemptResult(exit_code=0 if code == -1 else code, ended_at=self.now, failure=failure))
        else:
            agent.end(key, AttemptResult(started=False, problem="fork failed", ended_at=self.now))

    @rule(host=st.sampled_from("abc"), choice=st.randoms(use_true_random=False), keep=st.booleans())
    def tell(self, host: str, choice: random.Random, keep: bool) -> None:
        """One of the agent's news arrives, in no order, perhaps not for the last time."""
        agent = self.agents[host]
        if agent.connected and agent.news:
            place = choice.randrange(len(agent.news))
            self.do(agent.news[place] if keep else agent.news.pop(place))

    @rule(host=st.sampled_from("abc"))
    def fail_to_start(self, host: str) -> None:
        """Nothing that has arrived there and not begun can be started."""
        agent = self.agents[host]
        for key in sorted(agent.running().keys() - agent.started.keys()):
            agent.end(key, AttemptResult(started=False, problem="fork failed", ended_at=self.now))
        for report in list(agent.news) if agent.connected else ():
            self.do(report)

    # -- disasters ------------------------------------------------------------------------------------------------

    @rule(aside=st.none() | st.integers(1, 8))
    def restart_master(self, aside: int | None) -> None:
        for agent in self.agents.values():
            agent.connected, agent.orders, agent.news = False, [], []
        known = [*self.engine.state.jobs, *self.engine.state.arrays]
        if aside is not None and known:
            self.aside.append((len(self.events), known[aside % len(known)]))
        self.engine = Engine(self.replayed(), self.config, self.now)

    # -- what is always so ----------------------------------------------------------------------------------------

    @invariant()
    def the_ledger_is_right(self) -> None:
        assert self.engine.audit() == []
        for name, ledger in self.engine.state.ledger.hosts.items():
            for counter in ("ngpus", "ngpus_shared", "ngpus_excl_p"):
                found = ledger.counter(counter)
                assert found is None or (found.total >= 0 and found.reserved >= 0), (name, counter)

    @invariant()
    def who_is_away_is_known(self) -> None:
        seen, host_ledger = self.engine.observations, self.engine.state.ledger.hosts
        names = {*self.engine.config.hosts, *(name for name in host_ledger if host_ledger[name].held)}
        away = {name for name in names if not seen.of(name).connected and not seen.of(name).lost}
        assert away == {name for name in seen.roll.away if name in names}

    @invariant()
    def events_alone_give_the_same_state(self) -> None:
        whole, half = self.replayed(), len(self.events) // 2
        tail = self.replayed(since=half, state=ClusterState.load(self.replayed(half).dump()))
        for state in (whole, tail, self.engine.state):
            state.let_go_on(self.now)  # what time brings about is no event
        dump = msgspec.json.decode(self.engine.state.dump())
        assert msgspec.json.decode(whole.dump()) == dump
        assert msgspec.json.decode(tail.dump()) == dump
        assert tail.waits.dependents == self.engine.state.waits.dependents
        for state in (whole, tail):
            state.give_back(self.engine.state.ledger.at)  # nor is this
            assert held_by_jobs(state) == held_by_jobs(self.engine.state)
        assert tail.pending == self.engine.state.pending
        assert tail.tally.queue_slots == self.engine.state.tally.queue_slots

    @invariant()
    def what_really_runs_shares_no_gpu(self) -> None:
        for agent in self.agents.values():
            owners: dict[str, list[tuple[AttemptKey, str]]] = {}
            for key, part in agent.running().items():
                for gpu in part.gpus:
                    owners.setdefault(gpu.uuid, []).append((key, gpu.claim))
            for uuid, found in owners.items():
                assert len(found) == 1 or {claim for _, claim in found} <= SHARING, (uuid, found)

    @invariant()
    def what_really_runs_shares_no_cpu(self) -> None:
        for agent in self.agents.values():
            cpus = [cpu for part in agent.running().values() for cpu in part.cpus]
            assert len(cpus) == len(set(cpus)), cpus

    @invariant()
    def what_runs_on_a_connected_host_is_in_the_ledger(self) -> None:
        for agent in self.agents.values():
            if agent.connected:
                missing = agent.running().keys() - self.engine.state.ledger.host(agent.name).held.keys()
                assert not missing

    @invariant()
    def nothing_is_given_back_before_it_has_ended(self) -> None:
        """Also of hosts that are silent, as long as the master remembers what they said."""
        for agent in self.agents.values():
            if self.engine.observations.of(agent.name).session:
                missing = agent.running().keys() - self.engine.state.ledger.host(agent.name).held.keys()
                assert not missing

    @invariant()
    def no_notice_is_sent_twice(self) -> None:
        sent = [notice_id for agent in self.agents.values() for notice_id in agent.sent]
        assert len(sent) == len(set(sent))

    @invariant()
    def nobody_waits_without_a_reason(self) -> None:
        for job in self.engine.state.jobs.values():
            if job.state in PENDING:
                reasons = self.engine.pending_reasons(job.job_id)
                assert reasons and all(sentence(reason.text).strip() for reason in reasons)
        for array in self.engine.state.arrays.values():
            assert not array.count or self.engine.pending_reasons(array.array_id)[0].text

    def everything_comes_to_an_end(self) -> None:
        """With all hosts up and honest, the cluster comes to rest: nothing is held for ever, nobody spins."""
        self.reconfigure(0)
        for name, agent in self.agents.items():
            self.do(ControlHosts("root", True, "open", (name,)))
            self.do(ControlQueues("root", True, "open", ("all",)))
            self.do(ControlQueues("root", True, "activate", ("all",)))
            self.hello(agent)
            self.report(name, EXCLUSIVE, False, False)
        for _ in range(300):
            worked = [self.step(agent) for agent in self.agents.values()]
            if not any(worked) and not self.engine.cycles.needs_cycle:
                break
            self.settle()
        assert not any(agent.parts for agent in self.agents.values())
        held = {key for ledger in self.engine.state.ledger.hosts.values() for key in ledger.held}
        assert held == set()
        assert not self.engine.state.leaving.pairs()
        self.settle()
        self.take(self.engine.tick(self.now))
        self.settle()
        assert self.engine.next_deadline(self.now) > self.now
        self.all_notices_are_sent()
        waiting = [job for job in self.engine.state.jobs.values() if job.state == "PEND"]
        assert WAITING not in [self.engine.pending_reasons(job.job_id)[0] for job in waiting]

    def all_notices_are_sent(self) -> None:
        """But those of jobs that were set aside, and those that nobody told anything of for a day."""
        assert not self.engine.state.notices.all()
        made = [event.notice for event in self.events if isinstance(event, JobNoticeMade)]
        settled = [event for event in self.events if isinstance(event, JobNoticeSettled)]
        given_up = {event.notice_id for event in settled if event.problem}
        aside = self.engine.state.quarantined
        wanted = {each.notice_id for each in made if each.job_id not in aside and array_of(each.job_id) not in aside}
        assert wanted - given_up <= {notice_id for agent in self.agents.values() for notice_id in agent.sent}

    def step(self, agent: AgentModel) -> bool:
        """Whether the agent had anything to do or to tell; it has done so."""
        before = len(agent.orders) + len(agent.news) + len(agent.running().keys() - agent.elsewhere)
        self.obey(agent.name, len(agent.orders))
        for key in sorted(agent.running()):
            agent.start(key, self.now)
            if key not in agent.elsewhere:
                agent.end(key, AttemptResult(exit_code=0, ended_at=self.now))
        while agent.news:
            self.do(agent.news.pop(0))
        self.obey(agent.name, len(agent.orders))
        for report in agent.send_notices():
            self.do(report)
        return before > 0

    def settle(self) -> None:
        for _ in range(200):
            if not self.engine.cycles.needs_cycle:
                return
            self.take(self.engine.cycle(self.now))
        raise AssertionError("the engine wants cycles for ever")

    def teardown(self) -> None:
        if hasattr(self, "tokens"):
            self.everything_comes_to_an_end()
            stored: Iterable[AnyEvent] = [decode_event(encode_event(event)) for event in self.events]
            assert list(stored) == self.events
