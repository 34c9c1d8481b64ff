"""The stream between master and agent when one end misbehaves: repeats, old results, overlaps, rubbish, silence."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from fake_peers import FakeAgent, FakeMaster
from fault_tools import check_history, end_of, is_refused, settings, state_of, submission
from live_cluster import PATIENCE_S, Cluster

from gsched.model.event import JobFinished, StaleResultRecorded, decode_event
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.address import read_address
from gsched.wire.messages.control_action import ControlAction
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2

pytestmark = [pytest.mark.system, pytest.mark.fault]


@pytest.fixture(scope="module")
def two_hosts(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Hosts a and b; the agent of b is gone, so that tests can play it. No log may hold a traceback in the end."""
    cluster = module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", "a,b")
    settings(cluster, GSCHED_HOST_LOST=120)  # who is played here is silent between what he is told to say
    cluster.kill("agent-b")
    return cluster


def events_of(cluster: Cluster, job_id: int) -> list:
    with cluster.client() as client:
        (history,) = client.history(JobFilter(ids=(job_id,), user="all"))
    return [decode_event(record.payload.encode()) for record in history.events]


def submit_to_b(cluster: Cluster) -> int:
    with cluster.client() as client:
        return client.submit(submission("true", cluster.folder, hosts=("b",))).job_id


def test_results_of_an_old_attempt_do_no_harm(two_hosts: Cluster):
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as agent:
        agent.hello()
        agent.wait_for_start(job_id, 1)
        agent.ended(job_id, 1, started=False, problem="no process could be made")
        agent.wait_for_start(job_id, 2)
        agent.started(job_id, 2)
        agent.started(job_id, 1)
        agent.ended(job_id, 1, exit_code=0)
        agent.ended(job_id, 7, exit_code=0)
        agent.wait_for_forget(job_id, 7)
        assert state_of(two_hosts, job_id) == "RUN"
        agent.ended(job_id, 2, exit_code=5)
        agent.ended(job_id, 2, exit_code=0)
        agent.ended(job_id, 1, exit_code=0)
        assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 5)
        agent.ended(4711, 1, exit_code=0)
        agent.wait_for_forget(4711, 1)
        assert end_of(two_hosts.job(job_id)) == ("exit", 5)
    events = events_of(two_hosts, job_id)
    check_history(job_id, events)
    assert sum(isinstance(event, JobFinished) for event in events) == 1
    assert any(isinstance(event, StaleResultRecorded) for event in events)


def test_a_second_session_of_a_host_ends_the_first(two_hosts: Cluster):
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as old, FakeAgent(two_hosts, "b") as new:
        old.hello()
        old.wait_for_start(job_id, 1)
        new.hello()
        old.wait_for_end()
        new.wait_for_start(job_id, 1)
        old.ended(job_id, 1, exit_code=1)
        new.started(job_id, 1)
        new.ended(job_id, 1, exit_code=6)
        new.wait_for_forget(job_id, 1)
        assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 6)
        with two_hosts.client() as client:
            assert client.hosts(["b"])[0].status == "ok"


def test_another_machine_with_the_same_host_name_is_refused_as_long_as_the_first_is_there(two_hosts: Cluster):
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as first:
        first.hello(journal="mine")
        first.wait_for_start(job_id, 1)
        for _ in range(2):
            with FakeAgent(two_hosts, "b") as second:
                second.hello(journal="another")
                assert "host b already has an agent" in second.wait(lambda m: m.HasField("refusal")).refusal.text
                second.wait_for_end()
        first.started(job_id, 1)
        first.ended(job_id, 1, exit_code=4)
        first.wait_for_forget(job_id, 1)
    assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 4)
    assert (two_hosts.folder / "log" / "master.log").read_text().count("host b already has an agent") == 1
    two_hosts.until(lambda: may_speak(two_hosts, "another"), "the second is still refused")


def may_speak(cluster: Cluster, journal: str) -> bool:
    with FakeAgent(cluster, "b") as agent:
        agent.hello(journal=journal)
        return agent.wait(lambda m: m.HasField("refusal") or m.HasField("settings")).HasField("settings")


def test_an_agent_that_falls_silent_is_given_up(two_hosts: Cluster):
    settings(two_hosts, GSCHED_HOST_LOST=1.2)
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as agent:
        agent.hello()
        agent.wait_for_start(job_id, 1)
        agent.started(job_id, 1)
        agent.wait_for_end()
        two_hosts.until(lambda: state_of(two_hosts, job_id) == "UNKWN", "the job is still said to run")
    settings(two_hosts, GSCHED_HOST_LOST=120)
    with FakeAgent(two_hosts, "b") as agent:
        held = agent_pb2.HeldAttempt(job_id=job_id, attempt=1)
        held.part.host, held.part.slots = "b", 1
        agent.hello(held=[held])
        two_hosts.until(lambda: state_of(two_hosts, job_id) == "RUN", "the job is still unknown")
        agent.ended(job_id, 1, signal=15)
        assert end_of(two_hosts.wait(job_id)[0]) == ("signal", 15)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"heartbeat": agent_pb2.Heartbeat()}, "hello"),
        ({"hello": agent_pb2.Hello(host="b", protocol=99, version="9.9")}, "protocol 99"),
        ({"hello": agent_pb2.Hello(host="nowhere", protocol=PROTOCOL)}, "nowhere is not in the Host section"),
        ({"hello": agent_pb2.Hello(host="", protocol=PROTOCOL)}, "is not in the Host section"),
    ],
)
def test_an_agent_that_does_not_fit_is_told_why(two_hosts: Cluster, message: dict, text: str):
    with FakeAgent(two_hosts, "b") as agent:
        agent.send(**message)
        assert text in agent.wait(lambda m: m.HasField("refusal")).refusal.text
        agent.wait_for_end()


def test_what_cannot_be_understood_is_dropped_and_the_stream_goes_on(two_hosts: Cluster):
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as agent:
        agent.hello()
        agent.wait_for_start(job_id, 1)
        agent.send()
        agent.ended(-1, 1, exit_code=0)
        bad = agent_pb2.AgentMessage()
        bad.gpus.gpus.add(index=0, mode="no such mode")
        agent.send(gpus=bad.gpus)
        agent.send(hello=agent_pb2.Hello(host="b", protocol=PROTOCOL))
        agent.send(output=agent_pb2.OutputReply(request=99, data=b"nobody asked"))
        agent.started(job_id, 1)
        agent.ended(job_id, 1, exit_code=7)
        assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 7)


def test_an_end_whose_time_cannot_be_is_an_end(two_hosts: Cluster):
    job_id = submit_to_b(two_hosts)
    with FakeAgent(two_hosts, "b") as agent:
        agent.hello()
        agent.wait_for_start(job_id, 1)
        agent.started(job_id, 1)
        agent.ended(job_id, 1, exit_code=7, ended_at=float("nan"))
        assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 7)
        agent.wait_for_forget(job_id, 1)
    assert f"host b tells of the end of attempt {job_id}.1 " in two_hosts.logs()


def test_malformed_and_oversized_requests_do_no_harm(two_hosts: Cluster):
    pid = two_hosts.pid("master")
    rng = random.Random(1)
    with grpc.insecure_channel(
        read_address(str(two_hosts.conf)), options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        for name in ("Submit", "Control", "HostControl", "Hosts", "Queues", "Cluster", "NoSuchMethod"):
            method = channel.unary_unary(f"/gsched.wire.v1.Scheduler/{name}")
            for size in (1, 10, 100, 1000):
                with pytest.raises(grpc.RpcError):
                    method(b"\xff" + rng.randbytes(size), timeout=PATIENCE_S)
        submit = channel.unary_unary("/gsched.wire.v1.Scheduler/Submit")
        with pytest.raises(grpc.RpcError) as problem:
            submit(b"\0" * (65 << 20), timeout=PATIENCE_S)
        assert problem.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        stream = channel.stream_stream("/gsched.wire.v1.AgentService/Session")
        for data in (b"\xff\xff", b"\0" * (65 << 20)):
            with pytest.raises(grpc.RpcError):
                list(stream(iter([data]), timeout=PATIENCE_S))
    assert two_hosts.pid("master") == pid
    job_id = two_hosts.submit("-m", "a", "-o", "/dev/null", "true")
    assert end_of(two_hosts.wait(job_id)[0]) == ("exit", 0)


@pytest.mark.nightly
def test_many_large_jobs_at_once_fit_through_every_stream(two_hosts: Cluster):
    """Together they are larger than the largest message that gRPC takes."""
    text = b"#!/bin/sh\n#" + b"x" * (12 << 20) + b"\nexit 3\n"
    two_hosts.run("gadmin", "hclose", "a")
    with two_hosts.client() as client:
        spec = JobSpec(command="large", user="", queue="", cwd="/", hosts=("a",), output_file="/dev/null")
        ids = [client.submit(Submission(spec=spec, script=text)).job_id for _ in range(6)]
        long = Submission(spec=JobSpec(command="x" * 1_000_000, user="", queue="", hold=True))
        held = [job.job_id for _ in range(2) for job in client.submit_many([long] * 35)]
        assert {job.job_id for job in client.jobs(JobFilter(user="all"))} == {*ids, *held}
        assert len(list(client.history(JobFilter(ids=tuple(held), user="all")))) == 70
        client.control("kill", held)
        too_large = Submission(spec=JobSpec(command="true", user="", queue=""), script=b"x" * (60 << 20))
        assert "is too large" in is_refused(lambda: client.submit(too_large))
    two_hosts.run("gadmin", "hopen", "a")
    assert [end_of(job) for job in two_hosts.wait(*ids)] == [("exit", 3)] * 6


STRANGE = [
    {"slots": 0},
    {"slots": -3},
    {"slots": 2**31 - 1},
    {"run_limit_s": -1},
    {"run_limit_s": 2**31 - 1},
    {"umask": 2**31 - 1},
    {"umask": -1},
    {"command": ""},
    {"command": "\0"},
    {"command": "x" * (2 << 20)},
    {"cwd": ""},
    {"cwd": "not/absolute"},
    {"cwd": "/no/such/folder"},
    {"cwd": "/\0"},
    {"name": "\n\r\t\0"},
    {"queue": "nowhere"},
    {"hosts": ("nowhere",)},
    {"hosts": ("a",) * 1000},
    {"res_req": "((((" * 5000},
    {"res_req": "rusage[ngpus_excl_p=1e400]"},
    {"res_req": "rusage[ngpus_excl_p=-1]"},
    {"res_req": "select[1/0]"},
    {"output_file": "\0"},
    {"output_file": "/no/such/folder/%J"},
    {"input_file": "/no/such/file"},
    {"input_file": "/"},
    {"home": "\0"},
    {"project": "p" * 100_000},
    {"environment": "no-such-blob"},
    {"script": "no-such-blob"},
    {"combined_req": "select[x]"},
    {"auto_gpu": True},
    {"user": "somebody-else"},
]


def test_strange_submissions_are_refused_or_run_and_never_stop_a_daemon(two_hosts: Cluster):
    cluster = two_hosts
    pids = {name: cluster.pid(name) for name in ("master", "agent-a")}
    accepted = []
    with cluster.client() as client:
        for fields in STRANGE:
            spec = JobSpec(**{"command": "true", "user": "", "queue": "", "hosts": ("a",), "cwd": "/", **fields})
            for environment, script in ((b"", b""), (b"\xff=\xfe\0NO-EQUALS\0=x\0A=\n\0", b"\xff\xfe\0")):
                one = Submission(spec=spec, environment=environment, script=script)
                try:
                    accepted.append(client.submit(one).job_id)
                except Exception as error:
                    assert "\n" not in str(error), fields
                    assert "log says why" not in str(error), fields
        assert cluster.pid("master") == pids["master"]
        for job_id in accepted:
            assert client.control("kill", [job_id])[0].error in ("", "Job has already finished")
        cluster.wait(*accepted)
        for action in ("kill", "signal", "stop", "resume", "nonsense", ""):
            for ids in ((0,), (-1,), (2**62,), (accepted[0],) * 3):
                is_refused(lambda action=action, ids=ids: client.control(ControlAction(action=action, signal=99), ids))
        assert is_refused(lambda: client.submit_many([]))
    assert {name: cluster.pid(name) for name in pids} == pids
    after = cluster.submit("-m", "a", "-o", "/dev/null", "exit 2")
    assert end_of(cluster.wait(after)[0]) == ("exit", 2)


# -- a real agent, a master that is played ----------------------------------------------------------------------------


@pytest.fixture
def master(make_cluster: Callable[..., Cluster]) -> Iterator[FakeMaster]:
    cluster = make_cluster("--sim-gpus", "1:exclusive_process")
    cluster.kill("master")
    with FakeMaster(cluster) as fake:
        yield fake
    cluster.kill(f"agent-{cluster.host}")


def test_an_agent_repeats_its_results_until_it_is_told_to_forget(master: FakeMaster):
    session = master.next_session()
    folder = master.cluster.folder
    session.start(1, f"echo 1 >> {folder}/ran; exit 9")
    assert session.wait_for_end_of(1).exit_code == 9
    session.start(1, f"echo 2 >> {folder}/ran")  # a repeat: nothing runs again, the news are told again
    master.cluster.until(lambda: sum(m.ended.job_id == 1 for m in session.messages) == 2, "the end is not told again")
    session.close()
    session = master.next_session()
    assert [(item.job_id, item.result.exit_code) for item in session.hello.ended] == [(1, 9)]
    assert [item.job_id for item in session.hello.started] == [1]
    session.send(forget=agent_pb2.Forget(attempts=[agent_pb2.AttemptId(job_id=1, attempt=1)]))
    attempts = folder / "spool" / master.cluster.host / "attempts"
    master.cluster.until(lambda: not list(attempts.iterdir()), "the journal is not cleared")
    session.close()
    assert not master.next_session().hello.ended
    assert (folder / "ran").read_text() == "1\n"


def test_a_bad_order_is_refused_and_the_next_one_carried_out(master: FakeMaster):
    session = master.next_session()
    session.start(1, "true", host="elsewhere")
    assert not session.wait_for_end_of(1).started
    session.send(start=agent_pb2.StartAttempt(job_id=2, attempt=1))
    assert not session.wait_for_end_of(2).started
    for kind in ("terminate", "suspend", "resume", "signal"):
        message = agent_pb2.MasterMessage()
        getattr(message, kind).job_id = 77
        session.outgoing.put(message)
    session.send(signal=agent_pb2.SignalAttempt(job_id=77, attempt=1, signal=-5))
    session.send(read_output=agent_pb2.ReadOutput(request=5, job_id=77, attempt=1))
    session.wait(lambda m: m.output.last)
    session.start(3, "exit 4")
    assert session.wait_for_end_of(3).exit_code == 4
    session.send(signal=agent_pb2.SignalAttempt(job_id=3, attempt=1, signal=999))
    session.start(4, "sleep 60")
    session.wait(lambda m: m.started.job_id == 4)
    session.send(signal=agent_pb2.SignalAttempt(job_id=4, attempt=1, signal=999))
    session.send(signal=agent_pb2.SignalAttempt(job_id=4, attempt=1, signal=9))
    assert session.wait_for_end_of(4).signal == 9
    assert session.wait(lambda m: m.HasField("load"))
    assert not session.is_over


def test_orders_about_one_attempt_keep_their_order(master: FakeMaster):
    session = master.next_session()
    for job_id in range(1, 9):
        session.start(job_id, "exit 3")
        for _ in range(3):
            session.send(suspend=agent_pb2.SuspendAttempt(job_id=job_id, attempt=1))
            session.send(resume=agent_pb2.ResumeAttempt(job_id=job_id, attempt=1))
    for job_id in range(1, 9):
        assert session.wait_for_end_of(job_id).exit_code == 3


def test_a_large_output_does_not_hold_up_other_news(master: FakeMaster):
    session = master.next_session()
    session.start(1, "true")
    session.wait_for_end_of(1)
    out = Path(master.cluster.folder / "spool" / master.cluster.host / "attempts" / "1.1" / "stdout")
    started = json.loads(out.with_name("started").read_text())
    with out.open("wb") as file:
        file.truncate(1 << 40)  # it has no end here
    out.with_name("started").write_text(json.dumps(started | {"stdout": str(out)}))
    session.is_noise = lambda m: m.HasField("output") and not m.output.last
    session.send(read_output=agent_pb2.ReadOutput(request=1, job_id=1, attempt=1, most=1 << 40))
    master.cluster.until(lambda: session.noise > 3, "there is no output")
    session.start(2, "exit 5")
    session.wait_for_end_of(2)
    assert not any(m.output.last for m in session.messages)
    session.close()
    session = master.next_session()
    out.write_bytes(os.urandom(1 << 20) * 80)
    session.send(read_output=agent_pb2.ReadOutput(request=2, job_id=1, attempt=1, most=1 << 30))
    session.wait(lambda m: m.output.request == 2 and m.output.last)
    assert sum(len(m.output.data) for m in session.messages if m.output.request == 2) == 80 << 20
