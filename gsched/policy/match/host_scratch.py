"""What one host of a cycle has left, counted beside its ledger, which is written later. It decides nothing."""

from __future__ import annotations

from gsched.model.hosts.host import Gpu


class HostScratch:
    """What one host has left, while nothing but fast paths take from it."""

    __slots__ = ("free", "host", "reserved")

    def __init__(self, host: str, free: list[Gpu], reserved: dict[str, float]) -> None:
        self.host = host
        self.free = free
        """GPUs that nobody holds, in the order in which they are given."""
        self.reserved = reserved
