"""What a hello says becomes a command."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest
from gsched.master.agents.agent_service import _hello
from gsched.model.hosts.topology import Processor, Topology
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2


def hello(host: str, *cpus: int) -> agent_pb2.Hello:
    message = agent_pb2.Hello(host=host)
    fill(message.topology, Topology(tuple(Processor(cpu, cpu, 0, 0) for cpu in cpus)))
    return message


def test_hosts_that_are_alike_share_their_processors() -> None:
    one, two, other = (_hello(hello(*each), 1) for each in (("a", 0, 1), ("b", 0, 1), ("c", 0)))
    assert one.topology is two.topology and one.topology is not None
    assert [each.cpu for each in one.topology.processors] == [0, 1]
    assert other.topology != one.topology and _hello(agent_pb2.Hello(host="d"), 1).topology is None


def test_nonsense_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(BadRequest):
            _hello(hello("a", 3, 3), 1)
