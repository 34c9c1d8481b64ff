"""Many agents in one process, each with a connection and a certificate of its own: `virtual_agents.py ENVDIR PREFIX`.

They serve the hosts whose names begin with PREFIX: they say hello, report a load, and come back when the master has
gone, in the manner of the real agent. What they are told to start they only say to have started, and done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import Any

import grpc
import grpc.aio

from gsched.agent.contact import Contact
from gsched.base.service import ServiceManager
from gsched.config.files import load
from gsched.model.config import ClusterConfig
from gsched.wire.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc
from gsched.wire.vouching import agent_channel


async def serve(config: ClusterConfig, host: str) -> None:
    """One agent, for ever."""
    contact = Contact(host, ServiceManager())
    ended: dict[tuple[int, int], agent_pb2.Ended] = {}
    while True:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            async with agent_channel(config, host) as channel:
                contact.begin()
                call = agent_pb2_grpc.AgentServiceStub(channel).Session()
                hello = agent_pb2.Hello(host=host, protocol=PROTOCOL, boot_id="boot", journal=host)
                hello.ended.extend(ended.values())
                await say(call, hello=hello)
                beating = asyncio.create_task(beat(call, config.timing.exchange_s))
                try:
                    while isinstance(batch := await call.read(), agent_pb2.MasterBatch):
                        contact.heard()
                        for message in batch.messages:
                            await obey(call, message, ended)
                finally:
                    beating.cancel()
        await asyncio.sleep(contact.pause_s())


async def beat(call: Any, every_s: float) -> None:
    """Reports of a host that does nothing."""
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            message = agent_pb2.AgentMessage()
            message.load.ncpus = 4
            message.load.indices["ut"] = 0.1
            await call.write(agent_pb2.AgentBatch(messages=[message]))
            await say(call, gpus=agent_pb2.AgentMessage().gpus)
            await asyncio.sleep(every_s)


async def obey(call: Any, message: agent_pb2.MasterMessage, results: dict[tuple[int, int], agent_pb2.Ended]) -> None:
    """A job is over as soon as it is started; its result is kept until the master has it."""
    for each in message.forget.attempts:
        results.pop((each.job_id, each.attempt), None)
    if message.WhichOneof("kind") == "start":
        key = {"job_id": message.start.job_id, "attempt": message.start.attempt}
        ended = agent_pb2.Ended(**key)
        ended.result.started, ended.result.exit_code, ended.result.ended_at = True, 0, time.time()
        results[ended.job_id, ended.attempt] = ended
        await say(call, started=agent_pb2.Started(**key, pid=os.getpid(), at=time.time(), boot_id="boot"))
        await say(call, ended=ended)


async def say(call: Any, **kind: Any) -> None:
    await call.write(agent_pb2.AgentBatch(messages=[agent_pb2.AgentMessage(**kind)]))


async def main(conf_dir: str, prefix: str) -> None:
    hosts = [host for host in load(conf_dir).required().hosts if host.startswith(prefix)]
    config = load(conf_dir).required()
    print(f"{len(hosts)} agents", flush=True)
    await asyncio.gather(*(serve(config, host) for host in hosts))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
