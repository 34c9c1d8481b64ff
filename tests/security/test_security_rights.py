"""Every call of every service has a rule, and the gate holds callers to it: over a real connection, as proven users."""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gsched.base.errors import BadRequest, Conflict, GschedError, PermissionDenied
from gsched.master.access import audit_log
from gsched.master.access.audit_log import AuditLog
from gsched.master.access.method_policy import RULES, Who
from gsched.master.access.rate_limit import RateLimit
from gsched.master.access.repeated_reads import READ_AGAIN_S, RepeatedReads
from gsched.master.access.request_gate import AdmittedCaller, RequestGate
from gsched.model.config import ClusterConfig, Locations, Params
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client
from gsched.wire.identity.caller_identity import ProvenCaller
from gsched.wire.messages.control_action import ControlAction
from gsched.wire.server import SERVER_OPTIONS, answers, listen, streams
from gsched.wire.v1 import (
    model_pb2,
    scheduler_pb2,
    scheduler_pb2_grpc,
    terminal_pb2_grpc,
)

PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")


def test_every_call_of_every_service_has_a_rule() -> None:
    """A new call must say who may make it: add it to method_policy.py and to docs/security.md if it matters."""
    names = sorted(path.stem for path in Path(scheduler_pb2.__file__).parent.glob("*_pb2.py"))
    files = [importlib.import_module(f"gsched.wire.v1.{name}").DESCRIPTOR for name in names]
    services = [service for file in files for service in file.services_by_name.values()]
    found = {f"{service.name}.{method.name}" for service in services for method in service.methods}
    assert found == set(RULES)


def test_whatever_is_not_everybodys_is_logged_and_closed_to_root() -> None:
    public = {name for name, rule in RULES.items() if not rule.changes and rule.who is not Who.AGENT}
    assert all(RULES[name].who is Who.EVERYBODY for name in public)
    # Each follows a call that is logged: keys on a terminal that was opened, and requests to a service that was found.
    assert {name for name, rule in RULES.items() if rule.quiet} == {"Terminal.Type", "JobServices.Connect"}


class Anybody:
    """Lets everyone in as whom the test wants."""

    def __init__(self) -> None:
        self.now: ProvenCaller | None = ProvenCaller("ann", False, "gpu1", "door")
        self.asked = 0

    async def prove(self, context: Any, path: str, body: bytes) -> ProvenCaller:
        self.asked += 1
        if self.now is None:
            raise PermissionDenied("no certificate")
        return self.now

    async def still(self, context: Any, caller: ProvenCaller) -> ProvenCaller:
        return await self.prove(context, "", b"")


class Answering(scheduler_pb2_grpc.SchedulerServicer):
    """A few calls of the service, without a cluster behind them."""

    def __init__(self) -> None:
        self.gate: RequestGate
        self.users: list[str] = []
        self.held = asyncio.Event()
        self.withheld: GschedError | None = None
        """Why no output is shown."""

    @answers
    async def Submit(self, request: Any, context: Any) -> Any:
        self.users.append(AdmittedCaller().caller(context).user)
        return scheduler_pb2.SubmitReply(jobs=[model_pb2.Submitted(job_id=number) for number in (7, 8, 9)])

    @answers
    async def Control(self, request: Any, context: Any) -> Any:
        errors = ["" if job_id == 1 else "User permission denied" for job_id in request.job_ids]
        results = [model_pb2.Control(job_id=job, error=e) for job, e in zip(request.job_ids, errors, strict=True)]
        return scheduler_pb2.ControlReply(results=results)

    @answers
    async def HostControl(self, request: Any, context: Any) -> Any:
        raise BadRequest("h9: Bad host name")

    @answers
    async def Texts(self, request: Any, context: Any) -> Any:
        raise PermissionDenied("Job <5>: User permission denied")

    @answers
    async def Cluster(self, request: Any, context: Any) -> Any:
        return model_pb2.ClusterView(cluster="c", master_host="m")

    @streams
    async def Jobs(self, request: Any, context: Any) -> Any:
        yield scheduler_pb2.JobsReply()
        await self.held.wait()

    @streams
    async def Output(self, request: Any, context: Any) -> Any:
        if self.withheld is not None:
            raise self.withheld
        yield model_pb2.OutputChunk(stream="stdout", data=b"secret")


class Setting:
    """A gate, what is behind it, and a client on the other end of a socket."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "audit.log"
        self.auth = Anybody()
        self.params = Params(root_may_submit=False)
        self.audit = AuditLog(str(self.log))
        self.behind = Answering()
        self.clock = 0.0
        rate_limit, reads = RateLimit(lambda: self.clock), RepeatedReads(lambda: self.clock)
        self.checks: list[int] = []
        """How many calls had been answered at each look at the lease."""
        self.gate = RequestGate(
            self.auth,
            self.config,
            self.audit,
            rate_limit,
            reads=reads,
            check_lease=lambda: self.checks.append(len(self.behind.users)),
        )
        self.socket = str(folder / "s")
        self.client: Client

    def config(self) -> ClusterConfig:
        return ClusterConfig(cluster="c", master_host="m", locations=PLACES, params=self.params)

    async def ask(self, call: Callable[[Client], Any]) -> Any:
        return await asyncio.to_thread(call, self.client)

    async def lines(self, count: int) -> list[dict[str, str]]:
        """So many lines of the log, each line's facts by name; a line may come a moment after the answer."""
        while not self.log.exists() or self.log.read_bytes().count(b"\n") < count:
            await asyncio.sleep(0.002)
        return [facts_of(line) for line in self.log.read_text().splitlines()]


def facts_of(line: str) -> dict[str, str]:
    """As a reader of the log takes it apart."""
    found, rest = {}, line.partition(" ")[2]
    while rest:
        name, _, rest = rest.partition("=")
        if rest.startswith('"'):
            value, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].lstrip(" ")
        else:
            value, _, rest = rest.partition(" ")
        found[name] = value
    return found


@pytest.fixture
def played(tmp_path: Path) -> Callable[[Callable[[Setting], Awaitable[None]]], None]:
    def run(story: Callable[[Setting], Awaitable[None]]) -> None:
        async def main() -> None:
            setting = Setting(tmp_path)
            server = grpc.aio.server(interceptors=[setting.gate], options=SERVER_OPTIONS)
            scheduler_pb2_grpc.add_SchedulerServicer_to_server(setting.behind, server)
            terminal_pb2_grpc.add_TerminalServicer_to_server(terminal_pb2_grpc.TerminalServicer(), server)
            address = listen(server, setting.socket)
            await server.start()
            setting.client = Client(address, wait_s=60.0)
            try:
                await asyncio.wait_for(story(setting), 60)
            finally:
                setting.client.close()
                await server.stop(0)
                setting.audit.close()

        asyncio.run(main())

    return run


Played = Callable[[Callable[[Setting], Awaitable[None]]], None]
SPEC = JobSpec(command="echo PASSWORD", user="", queue="normal")


def test_the_lease_is_looked_at_before_each_answer(played: Played) -> None:
    """A master that goes on after a stop must not tell what it knew before: another one may lead."""

    async def story(setting: Setting) -> None:
        await setting.ask(lambda client: client.submit(Submission(spec=SPEC)))
        await setting.ask(lambda client: client.cluster())
        setting.behind.held.set()
        await setting.ask(lambda client: list(client.jobs()))
        assert len(setting.checks) == 3 and setting.checks[0] == 0

    played(story)


def test_a_caller_is_asked_for_once_and_known_behind_the_gate(played: Played) -> None:
    """A proof may be good for one use only: munge refuses a credential that it has seen."""

    async def story(setting: Setting) -> None:
        await setting.ask(lambda client: client.submit(Submission(spec=SPEC)))
        assert setting.behind.users == ["ann"]
        assert setting.auth.asked == 1

    played(story)


def test_who_is_not_proven_gets_nothing_and_is_logged(played: Played) -> None:
    async def story(setting: Setting) -> None:
        setting.auth.now = None
        with pytest.raises(PermissionDenied, match="no certificate"):
            await setting.ask(lambda client: client.cluster())
        (line,) = await setting.lines(1)
        assert (line["user"], line["way"], line["outcome"], line["why"]) == (
            "?",
            "unproven",
            "refused",
            "no certificate",
        )

    played(story)


@pytest.mark.parametrize("problem", [PermissionDenied("revoked"), RuntimeError("never thought of")])
def test_a_stream_ends_when_its_caller_would_be_let_in_no_more(
    played: Played, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """Also where that cannot be told."""
    monkeypatch.setattr("gsched.master.access.request_gate.LOOK_S", 0.02)

    async def story(setting: Setting) -> None:
        async def still(context: Any, caller: ProvenCaller) -> ProvenCaller:
            raise problem

        setting.auth.still = still  # type: ignore[method-assign]
        with pytest.raises(GschedError, match=str(problem)):
            await setting.ask(lambda client: list(client.jobs()))

    played(story)


def test_a_call_without_a_rule_is_answered_to_nobody(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "Scheduler.Cluster")

    async def story(setting: Setting) -> None:
        setting.auth.now = ProvenCaller("boss", True)
        with pytest.raises(PermissionDenied, match="no rule"):
            await setting.ask(lambda client: client.cluster())

    played(story)


def test_calls_for_administrators_are_refused_to_others_before_they_are_looked_at(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "Scheduler.HostControl", RULES["Administration.EndOrphans"])

    async def story(setting: Setting) -> None:
        with pytest.raises(PermissionDenied, match="User permission denied"):
            await setting.ask(lambda client: client.host_control("close", ["h9"], "why not"))
        setting.auth.now = ProvenCaller("boss", True, "gpu1", "door")
        with pytest.raises(BadRequest, match="Bad host name"):
            await setting.ask(lambda client: client.host_control("close", ["h9"]))
        first, second = await setting.lines(2)
        assert (first["user"], first["action"], first["hosts"]) == ("ann", "host close", "h9")
        assert (first["outcome"], first["comment"]) == ("refused", "why not")
        assert (second["user"], second["outcome"], second["why"]) == ("boss", "refused", "h9: Bad host name")

    played(story)


def test_root_of_a_host_may_only_look_unless_configured(played: Played) -> None:
    async def story(setting: Setting) -> None:
        setting.auth.now = ProvenCaller("root", False, "gpu1", "door")
        assert (await setting.ask(lambda client: client.cluster())).cluster == "c"
        for call in (
            lambda client: client.submit(Submission(spec=SPEC)),
            lambda client: client.control("kill", [1]),
            lambda client: list(client.output(5)),
        ):
            with pytest.raises(PermissionDenied, match="LSF_ROOT_USER"):
                await setting.ask(call)
        setting.params = Params(root_may_submit=True)
        await setting.ask(lambda client: client.control("kill", [1]))

    played(story)


def test_each_deed_is_one_line_with_who_whence_how_what_and_outcome(played: Played) -> None:
    async def story(setting: Setting) -> None:
        await setting.ask(lambda client: client.submit_many([Submission(spec=SPEC)] * 3))
        await setting.ask(lambda client: client.control("kill", [1, 2]))
        await setting.ask(lambda client: list(client.output(5)))
        await setting.ask(lambda client: client.cluster())
        submitted, killed, read = await setting.lines(3)  # what everybody may know is no deed
        assert submitted == {
            "user": "ann", "host": "gpu1", "way": "door", "action": "submit", "count": "3", "queue": "normal",
            "outcome": "ok", "jobs": "7-9",
        }  # fmt: skip
        assert (killed["action"], killed["on"], killed["outcome"]) == ("kill", "1-2", "partly")
        assert killed["why"] == "User permission denied"
        assert (read["action"], read["on"], read["outcome"]) == ("read output", "5", "ok")

    played(story)


def test_refused_reads_of_what_is_private_are_logged(played: Played) -> None:
    async def story(setting: Setting) -> None:
        with pytest.raises(PermissionDenied):
            await setting.ask(lambda client: client.texts(5))
        (line,) = await setting.lines(1)
        assert (line["user"], line["action"], line["on"], line["outcome"]) == ("ann", "read script", "5", "refused")

    played(story)


def test_who_follows_an_output_is_one_reader_in_the_log(played: Played) -> None:
    """An open page asks every few seconds."""

    async def story(setting: Setting) -> None:
        for start in (0, 100, 200):
            await setting.ask(partial(_read, start))
        setting.auth.now = ProvenCaller("bob", True, "gpu1", "door")
        await setting.ask(partial(_read, 300))
        setting.clock += READ_AGAIN_S
        await setting.ask(partial(_read, 400))
        await setting.ask(lambda client: client.control("kill", [1]))
        await setting.ask(
            lambda client: client.control("kill", [1])
        )  # what is no read is logged as often as it is done
        found = [(line["user"], line["action"], line["on"], line["outcome"]) for line in await setting.lines(5)]
        reads = [(user, "read output", "5", "ok") for user in ("ann", "bob", "bob")]
        assert found == [*reads, ("bob", "kill", "1", "ok"), ("bob", "kill", "1", "ok")]

    played(story)


def test_a_read_is_logged_where_it_was_denied_and_not_where_there_was_nothing(played: Played) -> None:
    async def story(setting: Setting) -> None:
        setting.behind.withheld = Conflict("Job <5> : Job has already finished; its output is in /dev/null")
        with pytest.raises(Conflict):
            await setting.ask(partial(_read, 0))
        setting.behind.withheld = PermissionDenied("Job <5>: User permission denied")
        for _ in range(3):
            with pytest.raises(PermissionDenied):
                await setting.ask(partial(_read, 0))
        await setting.ask(lambda client: client.control("kill", [1]))
        denied, killed = await setting.lines(2)
        assert (denied["action"], denied["on"], denied["outcome"]) == ("read output", "5", "refused")
        assert (denied["why"], killed["action"]) == ("Job <5>: User permission denied", "kill")

    played(story)


def _read(start: int, client: Client) -> None:
    list(client.output(5, stdout_from=start))


def test_no_secret_reaches_the_log(played: Played) -> None:
    async def story(setting: Setting) -> None:
        submission = Submission(
            spec=SPEC, environment=b"TOKEN=sesame\0", script=b"#!/bin/sh\nsesame\n", input=b"sesame"
        )
        await setting.ask(lambda client: client.submit(submission))
        await setting.lines(1)
        text = setting.log.read_text()
        assert text and "sesame" not in text and "PASSWORD" not in text

    played(story)


def test_nobody_writes_a_line_of_his_own_into_the_log(played: Played) -> None:
    async def story(setting: Setting) -> None:
        forged = 'x\n2026-01-01T00:00:00.000Z user=boss action=kill\r\u2028\x1b[2J" outcome=ok'
        await setting.ask(lambda client: client.control(ControlAction(action="kill", text=forged), [1]))
        await setting.ask(lambda client: client.control(forged, [1]))
        lines = await setting.lines(2)
        assert [line["user"] for line in lines] == ["ann", "ann"]
        assert lines[0]["text"] == forged and lines[1]["action"] == forged
        assert setting.log.read_bytes().isascii()

    played(story)


def test_the_log_is_for_its_owner_and_group_and_may_be_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = AuditLog(str(path))
    before = os.umask(0o077)
    try:
        audit.write(0.0, {"user": "ann"})
        _until(path.exists)
        _until(lambda: path.read_text() == "1970-01-01T00:00:00.000Z user=ann\n")
        assert path.stat().st_mode & 0o777 == 0o640
        path.rename(tmp_path / "audit.log.1")
        audit.write(1.0, {"user": "bob"})
        audit.close()
    finally:
        os.umask(before)
    assert path.read_text() == "1970-01-01T00:00:01.000Z user=bob\n"


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next line was joined to the half of it."""
    room = 100
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        nonlocal room
        if os.readlink(f"/proc/self/fd/{descriptor}") != str(tmp_path / "audit.log"):
            return write(descriptor, data)
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        wrote = write(descriptor, data[:room])
        room -= wrote
        return wrote

    monkeypatch.setattr(audit_log.os, "write", full)
    audit = AuditLog(str(tmp_path / "audit.log"))
    audit.write(0.0, {"user": "ann", "text": "a" * 20})
    _until(lambda: room < 100)
    audit.write(0.0, {"user": "bob", "text": "b" * 200})
    _until(lambda: "bob" in caplog.text)
    room = 1000
    audit.write(0.0, {"user": "eve"})
    audit.close()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["user=ann", "user=eve"], lines


def test_the_log_is_not_written_through_a_link_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "audit.log").symlink_to(target)
    audit = AuditLog(str(tmp_path / "audit.log"))
    audit.write(0.0, {"user": "ann"})
    audit.close()
    assert target.read_text() == "precious"
    assert "user=ann" in caplog.text and "cannot be written" in caplog.text


def test_a_user_who_asks_too_often_waits_and_others_do_not(played: Played) -> None:
    async def story(setting: Setting) -> None:
        setting.params = Params(max_requests_per_s=2)
        for _ in range(20):
            await setting.ask(lambda client: client.cluster())
        impatient = Client(setting.client.address, wait_s=1.5)
        with pytest.raises(Exception, match="more than 2 requests a second of ann"):
            await asyncio.to_thread(impatient.cluster)
        impatient.close()
        setting.auth.now = ProvenCaller("bob", False, "gpu1", "door")
        await setting.ask(lambda client: client.cluster())
        setting.auth.now = ProvenCaller("ann", False, "gpu2", "munge")
        waiting = asyncio.create_task(setting.ask(lambda client: client.cluster()))
        (line,) = await setting.lines(1)
        assert line["outcome"] == "refused" and line["user"] == "ann"
        setting.clock += 1.0
        await waiting  # a patient one comes again by itself

    played(story)


def test_a_user_has_a_few_large_queries_at_a_time(played: Played) -> None:
    async def story(setting: Setting) -> None:
        channel = grpc.aio.insecure_channel(setting.client.address)
        stub = scheduler_pb2_grpc.SchedulerStub(channel)
        running = [stub.Jobs(model_pb2.JobFilter()) for _ in range(8)]
        for call in running:
            await call.read()
        ninth = stub.Jobs(model_pb2.JobFilter())
        with pytest.raises(grpc.aio.AioRpcError, match="8 queries of ann are under way"):
            await ninth.read()
        await stub.Cluster(scheduler_pb2.ClusterRequest())  # a small one is answered
        setting.behind.held.set()
        for call in running:
            await call.read()
        assert await stub.Jobs(model_pb2.JobFilter()).read()
        await channel.close()

    played(story)


def test_a_list_without_end_is_refused_before_the_engine_sees_it(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.access.request_sizes.MOST_LISTED", 1_000)
    monkeypatch.setattr("gsched.master.access.request_sizes.LISTS", {"SubmitRequest.submissions": 1_000})

    async def story(setting: Setting) -> None:
        await setting.ask(lambda client: client.control("kill", range(1, 1001)))
        for call in (
            lambda client: client.control("kill", range(1, 1002)),
            lambda client: list(client.jobs(JobFilter(ids=tuple(range(1, 1002))))),
            lambda client: client.submit_many([Submission(spec=SPEC)] * 1001),
        ):
            with pytest.raises(BadRequest, match=r"1001 .* in one request: 1000 are the most"):
                await setting.ask(call)
        assert not setting.behind.users

    played(story)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda client: client.control("stop", wanted=JobFilter(name="*a" * (1 << 19))),
            "Bad argument: name too long (1048576 characters, at most 4095)",
        ),
        (lambda client: list(client.jobs(JobFilter(user="x" * 257))), "Bad argument: user too long (257 characters"),
        (
            lambda client: client.control(ControlAction(action="run", hosts=["h" * 300]), [1]),
            "Bad argument: hosts too long (300 characters",
        ),
        (
            lambda client: client.control(ControlAction(action="requeue", states=["RUN"] * 21), [1]),
            "21 states in one request: 20 are the mo",
        ),
        (lambda client: client.hosts(requirement="x" * 70_000), "Bad argument: requirement too long (70000 character"),
        (lambda client: list(client.jobs(JobFilter(name="x" * (5 << 20)))), "a request of 5242885 bytes: 4194304 are"),
    ],
)
def test_every_text_of_a_request_has_a_length(played: Played, call: Callable[[Client], object], said: str) -> None:
    async def story(setting: Setting) -> None:
        with pytest.raises(BadRequest) as caught:
            await setting.ask(call)
        assert caught.value.text.startswith(said)
        assert not setting.behind.users

    played(story)


def test_a_message_that_is_too_large_harms_nobody(played: Played) -> None:
    """The transport refuses it before it is read; the same connection goes on."""

    async def story(setting: Setting) -> None:
        huge = Submission(spec=SPEC, script=b"x" * (65 << 20))
        with pytest.raises(GschedError, match="larger than max"):
            await setting.ask(lambda client: client.submit(huge))
        assert not setting.behind.users
        assert (await setting.ask(lambda client: client.cluster())).cluster == "c"

    played(story)


def test_what_is_no_message_harms_nobody(played: Played, caplog: pytest.LogCaptureFixture) -> None:
    async def story(setting: Setting) -> None:
        async with grpc.aio.insecure_channel(setting.client.address) as channel:
            for path in ("Scheduler/Submit", "Scheduler/Control", "Administration/Modify", "Scheduler/Nonsense"):
                call = channel.unary_unary(f"/gsched.wire.v1.{path}")
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(b"\xff\xff\xff\xff\x07rubbish")
                assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
        _, writer = await asyncio.open_unix_connection(setting.socket)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(1000))
        writer.close()
        submitted, controlled = await setting.lines(2)
        assert (submitted["user"], submitted["action"]) == ("ann", "Scheduler.Submit")
        assert controlled["outcome"] == "refused" and controlled["why"].startswith("what was sent is no message")
        assert (await setting.ask(lambda client: client.cluster())).cluster == "c"

    played(story)
    assert not [record for record in caplog.records if record.name.startswith("grpc")]


def test_the_owner_on_the_masters_own_socket_is_not_held_up(played: Played) -> None:
    async def story(setting: Setting) -> None:
        setting.params = Params(max_requests_per_s=1)
        setting.auth.now = ProvenCaller("me", True)
        for _ in range(50):
            await setting.ask(lambda client: client.cluster())

    played(story)


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
