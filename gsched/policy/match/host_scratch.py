"""What one host of a cycle has left, counted beside its ledger, which is written later. It decides nothing."""

from __future__ import annotations

from typing import NamedTuple

from gsched.model.hosts.host import Gpu
from gsched.model.ledgers.host_ledger import HostLedger


class ScratchStart(NamedTuple):
    """What a host's ledger says, kept with the columns from cycle to cycle; not to be written to."""

    idle: list[Gpu] | None
    """GPUs that nobody holds, in the order in which they are given; None where counting does not say all."""
    reserved: dict[str, float]

    @classmethod
    def of(cls, host_ledger: HostLedger) -> ScratchStart:
        return cls(host_ledger.idle_alike(), dict(host_ledger.reserved))


class HostScratch:
    """What one host has left, while nothing but fast paths take from it."""

    __slots__ = ("free", "host", "reserved")

    def __init__(self, host: str, free: list[Gpu], reserved: dict[str, float]) -> None:
        self.host = host
        self.free = free
        """GPUs that nobody holds, in the order in which they are given."""
        self.reserved = reserved
