"""The two ends of the agents' stream, played by a test: an agent that says what it likes, a master that orders it."""

from __future__ import annotations

import getpass
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
from fault_tools import run_dir
from live_cluster import PATIENCE_S, Cluster

from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.wire.address import MASTER_FILE, read_address, write_address
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.messages.convert import fill
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.server import SERVER_OPTIONS
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc


class _Heard:
    """Messages that came, and waiting for one."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.is_over = False
        self._changed = threading.Condition()
        self.is_noise: Callable[[Any], object] = lambda message: False
        """What is not kept, only counted."""
        self.noise = 0

    def take(self, batches: Iterator[Any]) -> None:
        try:
            for batch in batches:
                with self._changed:
                    heard = [message for message in batch.messages if not self.is_noise(message)]
                    self.noise += len(batch.messages) - len(heard)
                    self.messages.extend(heard)
                    self._changed.notify_all()
        except grpc.RpcError:
            pass
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def wait(self, is_it: Callable[[Any], object]) -> Any:
        """The first message, from the beginning, that is it."""

        def found() -> Any:
            return next((message for message in self.messages if is_it(message)), None)

        with self._changed:
            assert self._changed.wait_for(found, PATIENCE_S), [str(message)[:200] for message in self.messages]
            return found()

    def wait_for_end(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.is_over, PATIENCE_S), "the stream goes on"


class FakeAgent(_Heard):
    """An agent's stream to a real master."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        super().__init__()
        self.host = host
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(read_address(str(cluster.conf)), options=CHANNEL_OPTIONS)
        stream = agent_pb2_grpc.AgentServiceStub(self._channel).Session(self._batches())
        threading.Thread(target=self.take, args=(stream,), daemon=True).start()

    def __enter__(self) -> FakeAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._channel.close()

    def _batches(self) -> Iterator[Any]:
        for message in iter(self._outgoing.get, None):
            yield agent_pb2.AgentBatch(messages=[message])

    def send(self, **kind: Any) -> None:
        self._outgoing.put(agent_pb2.AgentMessage(**kind))

    def hello(self, **fields: Any) -> None:
        """Hello and the reports without which no job is sent."""
        fields = {"host": self.host, "protocol": PROTOCOL, "boot_id": "boot", **fields}
        self.send(hello=agent_pb2.Hello(**fields))
        message = agent_pb2.AgentMessage()
        message.load.ncpus = 4
        message.load.indices["ut"] = 0.1
        self._outgoing.put(message)

    def started(self, job_id: int, attempt: int) -> None:
        self.send(started=agent_pb2.Started(job_id=job_id, attempt=attempt, pid=1, at=1.0, boot_id="boot"))

    def ended(self, job_id: int, attempt: int, **result: Any) -> None:
        message = agent_pb2.Ended(job_id=job_id, attempt=attempt)
        message.result.started = True
        for name, value in result.items():
            setattr(message.result, name, value)
        self.send(ended=message)

    def wait_for_start(self, job_id: int, attempt: int) -> Any:
        return self.wait(lambda m: (m.start.job_id, m.start.attempt) == (job_id, attempt)).start

    def wait_for_forget(self, job_id: int, attempt: int) -> None:
        self.wait(lambda m: any((a.job_id, a.attempt) == (job_id, attempt) for a in m.forget.attempts))


class FakeMaster(agent_pb2_grpc.AgentServiceServicer):
    """Listens where a real agent looks for its master; every session is a `_Heard`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.sessions: queue.SimpleQueue[MasterSession] = queue.SimpleQueue()
        self._opened: list[MasterSession] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(8), options=SERVER_OPTIONS)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self, self._server)
        address = f"unix:{run_dir(cluster)}/fake.sock"
        self._server.add_insecure_port(address)
        self._server.start()
        write_address(str(cluster.conf), MASTER_FILE, address)

    def __enter__(self) -> FakeMaster:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()
        for session in self._opened:
            session.close()  # its thread waits for what it is to send

    def Session(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        session = MasterSession(self.cluster)
        threading.Thread(target=session.take, args=(request_iterator,), daemon=True).start()
        self._opened.append(session)
        self.sessions.put(session)
        for message in iter(session.outgoing.get, None):
            yield agent_pb2.MasterBatch(messages=[message])

    def next_session(self) -> MasterSession:
        """The agent's next session; its hello has come."""
        session = self.sessions.get(timeout=PATIENCE_S)
        session.hello = session.wait(lambda m: m.HasField("hello")).hello
        return session


class MasterSession(_Heard):
    """One session of the agent with the fake master."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.hello: Any = None

    def close(self) -> None:
        self.outgoing.put(None)

    def send(self, **kind: Any) -> None:
        self.outgoing.put(agent_pb2.MasterMessage(**kind))

    def start(self, job_id: int, command: str, *, host: str = "") -> None:
        message = agent_pb2.MasterMessage()
        message.start.job_id, message.start.attempt = job_id, 1
        folder = str(self.cluster.folder)
        fill(
            message.start.spec,
            JobSpec(command=command, user=getpass.getuser(), queue="normal", cwd=folder, output_file="/dev/null"),
        )
        part = HostAllocation(host=host or self.cluster.host, slots=1)
        fill(message.start.allocation, Allocation(hosts=(part,)))
        self.outgoing.put(message)

    def wait_for_end_of(self, job_id: int) -> Any:
        return self.wait(lambda m: m.ended.job_id == job_id).ended.result
