"""One value of one GPU at a time from NVML: what a driver, or a GPU, cannot tell is None and hides nothing else.

Never raises, and never changes anything. Source of functions and errors: NVIDIA's NVML API reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gsched.base.coded_text import AnyText, coded
from gsched.model.gpus import clock_reasons

T = TypeVar("T")

MOST_CHARACTERS = 200
"""A name that is longer is cut."""


class GpuReader:
    """Reads values of one GPU: None for what it does not have, and `problem` when it cannot be offered, `fault` when
    it has failed."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api = api
        self.handle = handle
        self.problem: AnyText = ""
        self.fault: AnyText = ""

    def __call__(self, function: str, *arguments: object) -> Any:
        """What the NVML function called `function` says, None if it cannot."""
        api = self._api
        try:
            return getattr(api, function)(self.handle, *arguments)
        except (AttributeError, UnicodeDecodeError):  # bindings older than the function; a name that is no text
            return None
        except api.NVMLError as error:
            if isinstance(error, (api.NVMLError_NotSupported, api.NVMLError_FunctionNotFound)):
                return None
            if error.value in lost_errors(api):
                self.problem = self.fault = coded("nvml.error", str(error))
            elif function == "nvmlDeviceGetComputeMode":
                # The one value without which a GPU cannot be offered: say why.
                self.problem = self.problem or coded("gpu.mode_unreadable", str(error))
            return None


def lost_errors(api: Any) -> tuple[int, ...]:
    """Errors that say that the GPU itself has failed, and not the call."""
    return api.NVML_ERROR_GPU_IS_LOST, api.NVML_ERROR_RESET_REQUIRED


def read_clock_reasons(read: GpuReader) -> int | None:
    """Why its clocks are lower than they could be, as bits; a driver before 535 knows the older name alone."""
    reasons = read("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = read("nvmlDeviceGetCurrentClocksThrottleReasons")
    return reasons if reasons is not None and 0 <= reasons <= clock_reasons.MOST else None


def value_of(function: Callable[[], T]) -> T | None:
    """What a function of pynvml gives, None if it fails in any way."""
    try:
        return function()
    except Exception:  # pynvml's errors, and what ctypes makes of a library that is not what it seems
        return None


def one_line(value: object) -> str:
    """A name as one short printable line; empty for None."""
    text = "" if value is None else value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return "".join(each for each in text[:MOST_CHARACTERS] if each.isprintable())
