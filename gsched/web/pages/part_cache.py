"""Parts of pages that are alike for all who look: made once for each change, however many pages are open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from markupsafe import Markup

MOST_PARTS = 16
"""Those that were asked for last."""


class PartCache:
    """Any thread asks; of those who want the same one makes it, and the others wait for that."""

    def __init__(self) -> None:
        self._parts: OrderedDict[tuple[object, ...], tuple[int, Markup]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[object, ...], version: int, make: Callable[[], str]) -> Markup:
        """The part as of that version. What `make` returns is markup already."""
        with self._lock:
            known = self._parts.get(key)
            if known is None or known[0] != version:
                known = self._parts[key] = (version, Markup(make()))
            self._parts.move_to_end(key)
            while len(self._parts) > MOST_PARTS:
                self._parts.popitem(last=False)
            return known[1]
