"""A fleet of agents in one process, each with a channel and a session of its own, and no host behind it.

They say hello, heartbeats, loads and the readings of their GPUs as agents do, at the rates that the master sets, and
obey StartAttempt by telling a start and, after `--run-s`, an end. On standard output: `ready COUNT TIME` whenever all
have a session that the master has answered, and `start JOB TIME` for each order; TIME is CLOCK_MONOTONIC's, in seconds.

    python bench/virtual_agents.py CONF --gpus 8 HOST ...
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import secrets
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import grpc
import grpc.aio

from gsched import __version__
from gsched.agent.report_schedule import rest_s
from gsched.base.errors import GschedError
from gsched.config.configuration import load
from gsched.master.open_files import allow_sessions
from gsched.model.hosts.host import ComputeMode
from gsched.model.hosts.topology import Processor, Topology
from gsched.wire.address import read_address
from gsched.wire.channel import CHANNEL_OPTIONS, SMALL_MESSAGES
from gsched.wire.identity.master_trust import Trust
from gsched.wire.messages.convert import fill
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.messages.stream_batches import next_batch
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, model_pb2

CPUS, MEMORY_MIB = 64, 512 * 1024
RECONNECT_S = (0.1, 0.5)
"""As agents wait before they try again: at first, at most."""


class Fleet:
    """What all of them share."""

    def __init__(self, conf: str, hosts: int, gpus: int, run_s: float, is_steady: bool, address: str) -> None:
        self._config = load(conf).required()
        self._address = address
        self.gpus = gpus
        self.run_s = run_s
        self.is_steady = is_steady
        self._hosts = hosts
        self._credentials: dict[str, grpc.ChannelCredentials] = {}
        self._answered: set[str] = set()

    def channel(self, host: str) -> grpc.aio.Channel:
        """A connection of the host's own. Raises GschedError when it is not known where the master listens."""
        options: tuple[tuple[str, str | int], ...] = (
            *CHANNEL_OPTIONS,
            *SMALL_MESSAGES,
            ("grpc.use_local_subchannel_pool", 1),
        )
        config = self._config
        if not config.is_shared:
            return grpc.aio.insecure_channel(read_address(config.locations.conf_dir), options=options)
        options += (("grpc.ssl_target_name_override", config.master_host),)
        target = f"{self._address}:{config.network.port}"
        credentials = self._credentials.get(host)
        if credentials is None:  # looking at them costs as much as a connection, and is not the master's to pay
            trust = Trust(config.network.tls_dir, host)
            credentials = self._credentials[host] = trust.believed(config.master_address).credentials
        return grpc.aio.secure_channel(target, credentials, options=options)

    def answered(self, host: str) -> None:
        self._answered.add(host)
        if len(self._answered) == self._hosts:
            say(f"ready {self._hosts}")

    def left(self, host: str) -> None:
        self._answered.discard(host)


def say(what: str) -> None:
    print(f"{what} {time.monotonic():.6f}", flush=True)


class VirtualAgent:
    """One host's agent. What runs on it is a timer."""

    def __init__(self, host: str, fleet: Fleet) -> None:
        self._host = host
        self._fleet = fleet
        self._boot_id = secrets.token_hex(16)
        self._journal = secrets.token_hex(16)
        self._outgoing: asyncio.Queue[agent_pb2.AgentMessage] = asyncio.Queue()
        self._held: dict[tuple[int, int], agent_pb2.HeldAttempt] = {}
        self._started: dict[tuple[int, int], agent_pb2.Started] = {}
        self._parts: set[tuple[int, int]] = set()
        """Attempts whose jobs have another first host."""
        self._ended: dict[tuple[int, int], agent_pb2.Ended] = {}
        self._settings = agent_pb2.Settings()
        self._gpus = _gpus(host, fleet.gpus)
        self._tasks: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        """One session after another."""
        delay = RECONNECT_S[0]
        while True:
            with contextlib.suppress(GschedError, grpc.aio.AioRpcError):
                async with self._fleet.channel(self._host) as channel:
                    stub = cast("agent_pb2_grpc.AgentServiceAsyncStub", agent_pb2_grpc.AgentServiceStub(channel))
                    if await self._session(stub.Session()):
                        delay = RECONNECT_S[0]
            await asyncio.sleep(delay)
            delay = min(delay * 2, RECONNECT_S[1])

    async def _session(self, call: Any) -> bool:
        self._outgoing = asyncio.Queue()
        self._send(hello=self._hello())
        self._settings = agent_pb2.Settings()
        writing = asyncio.create_task(self._write(call))
        reporting: asyncio.Task[None] | None = None
        try:
            while isinstance(batch := await call.read(), agent_pb2.MasterBatch):
                for message in batch.messages:
                    self._obey(message)
                if reporting is None and self._settings.exchange_s:
                    self._fleet.answered(self._host)
                    reporting = asyncio.create_task(self._report())
        finally:
            self._fleet.left(self._host)
            call.cancel()
            writing.cancel()
            if reporting is not None:
                reporting.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return reporting is not None

    def _hello(self) -> agent_pb2.Hello:
        hello = agent_pb2.Hello(
            host=self._host, protocol=PROTOCOL, version=__version__, boot_id=self._boot_id, pid=os.getpid()
        )
        hello.journal = self._journal
        hello.held.extend(self._held.values())
        hello.started.extend(self._started.values())
        hello.ended.extend(self._ended.values())
        processors = tuple(Processor(cpu, cpu // 2, cpu // 32, cpu // 32) for cpu in range(CPUS))
        fill(hello.topology, Topology(processors))
        return hello

    async def _write(self, call: Any) -> None:
        while True:
            await call.write(agent_pb2.AgentBatch(messages=await next_batch(self._outgoing)))

    def _send(self, **kind: Any) -> None:
        self._outgoing.put_nowait(agent_pb2.AgentMessage(**kind))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- reports --------------------------------------------------------------------------------------------------

    async def _report(self) -> None:
        """Readings and load together, at the host's own moment of the interval. Who reports needs no heartbeat."""
        self._send(gpus=self._gpus)
        self._send(load=self._load())
        while True:
            await asyncio.sleep(rest_s(self._host, self._settings.exchange_s, time.time()))
            if not self._fleet.is_steady:
                self._send(gpus=self._read(), can_wait=True)
            self._send(load=self._load(), can_wait=True)

    def _read(self) -> model_pb2.GpuReport:
        for gpu in self._gpus.gpus:
            gpu.utilization_percent = random.randrange(101)
            gpu.temperature_c = random.randrange(40, 80)
            gpu.power_w = random.randrange(60, 700)
        return self._gpus

    def _load(self) -> model_pb2.LoadReport:
        busy = 0.0 if self._fleet.is_steady else random.random()
        load = model_pb2.LoadReport(ncpus=CPUS, maxmem_mib=MEMORY_MIB, maxswp_mib=8192, maxtmp_mib=1 << 20)
        values = {"r15s": busy, "r1m": busy, "r15m": busy, "ut": busy, "pg": 0.0, "io": busy, "ls": 1.0, "it": 10.0}
        load.indices.update({**values, "tmp": 1e6, "swp": 8000.0, "mem": MEMORY_MIB - 1000 * busy})
        mode = {"ngpus_excl_p": float(self._fleet.gpus), "ngpus": float(self._fleet.gpus)}
        for name in ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpus_excl_p", "ngpuprohibited"):
            load.external[name].number = mode.get(name, 0.0)
        return load

    # -- orders ---------------------------------------------------------------------------------------------------

    def _obey(self, message: agent_pb2.MasterMessage) -> None:
        match message.WhichOneof("kind"):
            case "settings":
                self._settings = message.settings
            case "start":
                self._start(message.start)
            case "terminate":
                self._end((message.terminate.job_id, message.terminate.attempt), message.terminate.reason, 9)
            case "forget":
                for each in message.forget.attempts:
                    for attempts in (self._held, self._started, self._ended):
                        attempts.pop((each.job_id, each.attempt), None)

    def _start(self, start: agent_pb2.StartAttempt) -> None:
        key = (start.job_id, start.attempt)
        if key in self._held or key in self._ended:
            return
        is_first = start.allocation.hosts[0].host == self._host
        if is_first:
            say(f"start {start.job_id}")
        else:
            self._parts.add(key)
        held = agent_pb2.HeldAttempt(job_id=key[0], attempt=key[1])
        for part in start.allocation.hosts:
            if part.host == self._host:
                held.part.CopyFrom(part)
        self._held[key] = held
        started = agent_pb2.Started(job_id=key[0], attempt=key[1], pid=1 + key[0] % 30_000, at=time.time())
        started.boot_id = self._boot_id
        self._started[key] = started
        self._send(started=started)
        if not is_first:
            return  # it ends when it is told to
        if self._fleet.run_s:
            self._beside(self._run(key))
        else:
            self._end(key)

    async def _run(self, key: tuple[int, int]) -> None:
        await asyncio.sleep(self._fleet.run_s)
        self._end(key)

    def _end(self, key: tuple[int, int], reason: str = "", signal: int = 0) -> None:
        if self._held.pop(key, None) is None:
            return
        ended = agent_pb2.Ended(job_id=key[0], attempt=key[1], is_part=key in self._parts)
        self._parts.discard(key)
        ended.result.started = True
        if signal:
            ended.result.signal = signal
        else:
            ended.result.exit_code = 0
        ended.result.term_reason = reason
        ended.result.ended_at = time.time()
        self._ended[key] = ended
        self._send(ended=ended)


def _gpus(host: str, count: int) -> model_pb2.GpuReport:
    report = model_pb2.GpuReport(known=True, provider="nvml", driver="570.86.10")
    for index in range(count):
        report.gpus.add(
            uuid=f"GPU-{host}-{index:04d}",
            index=index,
            minor=index,
            model="NVIDIA H100 80GB HBM3",
            mode=ComputeMode.EXCLUSIVE_PROCESS.value,
            memory_mib=81_559,
            reserved_mib=559,
            used_mib=0,
            utilization_percent=0,
            memory_utilization_percent=0,
            temperature_c=40,
            power_w=60,
            pci_bus_id=f"0000:{index:02X}:00.0",
            numa=index // 4,
            ecc_errors=0,
            pstate=0,
            process_count=0,
        )
    return report


def _hosts(words: list[str]) -> Iterator[str]:
    for word in words:
        name, dots, last = word.partition("..")
        if not dots:
            yield name
            continue
        stem = name.rstrip("0123456789")
        yield from (f"{stem}{number}" for number in range(int(name[len(stem) :]), int(last) + 1))


async def _live(fleet: Fleet, hosts: list[str]) -> None:
    await asyncio.gather(*(VirtualAgent(host, fleet).live() for host in hosts))


def main() -> int:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conf", help="configuration folder of the cluster")
    parser.add_argument("hosts", nargs="+", help="names of hosts; v1..300 is v1 to v300")
    parser.add_argument("--gpus", type=int, default=8, help="of each host")
    parser.add_argument("--run-s", type=float, default=0.0, help="how long a job runs")
    parser.add_argument("--steady", action="store_true", help="readings of GPUs never change")
    parser.add_argument("--address", default="127.0.0.1", help="where the master of a shared cluster listens")
    asked = parser.parse_args()
    hosts = list(_hosts(asked.hosts))
    allow_sessions(len(hosts))
    gc.set_threshold(100_000, 50, 50)
    with contextlib.suppress(KeyboardInterrupt):
        fleet = Fleet(asked.conf, len(hosts), asked.gpus, asked.run_s, asked.steady, asked.address)
        asyncio.run(_live(fleet, hosts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
