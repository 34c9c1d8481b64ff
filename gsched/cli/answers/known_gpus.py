"""The GPUs of all hosts, as their agents see them now, for what is told of those that jobs hold or held."""

from __future__ import annotations

from gsched.model.hosts.host import Gpu
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import PastLook


def known_gpus(client: Client | PastLook) -> dict[str, Gpu]:
    """By UUID."""
    return {each.gpu.uuid: each.gpu for host in client.hosts() for each in host.gpus}
