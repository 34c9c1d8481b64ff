"""What the store keeps of hosts, as entries: who was seen how, when, and what has changed since the entry before.

Entries of a row follow each other, and so do the rows of one master's run. It looks at no host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gsched.base.packed_values import unpack
from gsched.base.value_delta import Delta, patched
from gsched.core.resources.kept_observations import KeptObservation

HostEntry = tuple[str, float, int, Delta]
"""Host, when it was seen so (UTC seconds), the newest event by then, what has changed."""
MOST_BYTES = 1 << 30
"""Of a row when it is unpacked."""


def unpack_entries(data: bytes) -> list[HostEntry]:
    """The entries of a row. Raises ValueError for bytes that were not packed as such."""
    return unpack(data, list[HostEntry], MOST_BYTES)


class HostEntries:
    """Entries one after the other, and what they add up to."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def begin(self) -> None:
        """A row follows that says all of all hosts."""
        self._known = {}

    def follow(self, host: str, delta: Delta) -> None:
        """The next entry. Raises ValueError for one that does not follow from those before it."""
        self._known[host] = patched(self._known.get(host, {}), delta)

    def seen(self, host: str) -> KeptObservation:
        """How the host was seen last. Raises ValueError where that is none of this gsched's forms."""
        return msgspec.convert(self._known.get(host, {}), KeptObservation)

    def all_seen(self) -> Iterator[tuple[str, KeptObservation]]:
        """All hosts. Raises as `seen`."""
        hosts: Iterable[str] = self._known
        yield from ((host, self.seen(host)) for host in hosts)
