"""How a call ended, as its future tells it: the value, the exception with the traceback of where it was raised, or why
there is neither.
"""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from typing import Any

from gsched.api.executor.run_calls import RAISED, RETURNED, CallOutcome
from gsched.base.errors import GschedError


class CallFailed(GschedError):
    """A call without a value and without an exception that could be brought here: it was never made, or what it
    returned or raised cannot be pickled.
    """


class RemoteTraceback(Exception):
    """Where an exception was raised, as its `__cause__`: printed with it."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told

    def __str__(self) -> str:
        return f'\n"""\n{self.told}"""'


def settle(future: Future[Any], outcome: CallOutcome, where: str) -> None:
    """Give the future the outcome. `where`: names the job."""
    kind, pickled, told = outcome
    if kind == RETURNED:
        try:
            value = pickle.loads(pickled)
        except Exception as error:
            future.set_exception(
                CallFailed(f"{where}: its result cannot be read here: {type(error).__name__}: {error}")
            )
        else:
            future.set_result(value)
    elif kind == RAISED:
        future.set_exception(_exception(pickled, told, where))
    else:
        future.set_exception(CallFailed(f"{where}: {told}"))


def _exception(pickled: bytes, told: str, where: str) -> BaseException:
    try:
        found = pickle.loads(pickled) if pickled else None
    except Exception:
        found = None
    if not isinstance(found, BaseException):
        last = told.rstrip().rpartition("\n")[2]
        found = CallFailed(f"{where}: {last}")
    found.__cause__ = RemoteTraceback(told)
    return found
