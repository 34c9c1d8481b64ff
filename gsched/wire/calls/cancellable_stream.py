"""A streaming call that can be broken off from another thread, also before it has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Cancellable:
    """A streaming method whose running call can be cancelled from another thread."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._call: Any = None
        self.is_stopped = False

    def __call__(self, request: Any) -> Any:
        self._call = self._method(request)
        if self.is_stopped:
            self._call.cancel()
        return self._call

    def cancel(self) -> None:
        self.is_stopped = True
        if self._call is not None:
            self._call.cancel()
