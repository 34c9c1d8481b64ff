"""Importing hundreds of modules without the collector of rings of objects, which would go through all of them again and
again, and find nothing: a tenth of the time that a daemon takes to start.

It imports nothing that Python has not imported by itself, and must not be left off where a process serves.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False  # as typing says it, which is not imported here
if TYPE_CHECKING:
    from types import TracebackType


class LargeImport:
    """`with LargeImport():` around imports. What is there at its end is never collected, and looked at no more."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        gc.freeze()
        if self._was_on:
            gc.enable()
