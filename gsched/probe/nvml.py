"""NVML as a process of its own: `python -m gsched.probe.nvml` answers one JSON line per request line.

Requests on standard input: `sample`, or `set-mode INDEXES MODE` (`set-mode 0,2 exclusive_process`). The process ends
when standard input does, and with its parent. It is apart because a call into the driver can hang for ever and cannot
be called off: only a process can be killed. This is the only module that imports pynvml; it is read-only but for
set-mode, it never runs nvidia-smi, and each value is read on its own, so that what one driver or one GPU cannot tell
does not hide the rest.

Source of functions, errors and compute modes: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gsched.model.host import ComputeMode, Gpu, GpuReport

T = TypeVar("T")

LIBRARY = "libnvidia-ml.so.1"

MODES: dict[int, ComputeMode] = {
    0: ComputeMode.DEFAULT,
    1: ComputeMode.EXCLUSIVE_THREAD,
    2: ComputeMode.PROHIBITED,
    3: ComputeMode.EXCLUSIVE_PROCESS,
}
"""NVML's compute modes. Current drivers no longer let 1 be set."""

_MIB = 1024 * 1024
_PR_SET_PDEATHSIG = 1


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the process. `error` says why a mode could not be set; `denied` that it takes more rights."""

    report: GpuReport | None = None
    error: str = ""
    denied: bool = False


class Nvml:
    """The library, loaded and initialised when it is first needed and again after it has failed."""

    def __init__(self) -> None:
        self._api: Any = None
        self._seen: dict[int, Gpu] = {}
        """The last good sight of each index: a GPU that is lost no longer tells its UUID."""

    def sample(self) -> GpuReport:
        """All GPUs now. Without library or driver the host is known to have none; any other failure is unknown."""
        try:
            import pynvml
        except ImportError as problem:
            return _no_gpus(f"the Python bindings of NVML are missing ({problem})")
        try:
            self._begin(pynvml)
            count = pynvml.nvmlDeviceGetCount()
            driver = str(_value(pynvml.nvmlSystemGetDriverVersion) or "")
        except pynvml.NVMLError as problem:
            return self._failed(pynvml, problem)
        gpus = tuple(self._gpu(index) for index in range(count))
        reason = "" if gpus else "the driver sees no GPU"
        return GpuReport(gpus=gpus, reason=reason, provider="nvml", driver=driver)

    def set_mode(self, indexes: list[int], mode: ComputeMode) -> Answer:
        """Set the mode of each GPU; those that can be set are, even if others cannot."""
        import pynvml

        number = next(number for number, known in MODES.items() if known is mode)
        denied = False
        failed: dict[str, list[int]] = {}
        try:
            self._begin(pynvml)
        except pynvml.NVMLError as problem:
            return Answer(error=self._failed(pynvml, problem).reason)
        for index in indexes:
            try:
                pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByIndex(index), number)
            except pynvml.NVMLError as problem:
                denied = denied or isinstance(problem, pynvml.NVMLError_NoPermission)
                failed.setdefault(_mode_error(pynvml, problem, mode), []).append(index)
        parts = [f"GPU {', '.join(map(str, where))}: {why}" for why, where in failed.items()]
        return Answer(error="; ".join(parts), denied=denied)

    def _begin(self, pynvml: Any) -> None:
        if self._api is None:
            pynvml.nvmlInit()
            self._api = pynvml

    def _failed(self, pynvml: Any, problem: Exception) -> GpuReport:
        """The report after NVML as a whole has failed; the next sample starts from the beginning."""
        if self._api is not None:
            _value(pynvml.nvmlShutdown)
            self._api = None
        if isinstance(problem, pynvml.NVMLError_LibraryNotFound):
            reason = _library_problem()
            absent = reason.startswith(f"{LIBRARY}: ") and "No such file" in reason
            return _no_gpus(f"no NVIDIA driver library: {reason}") if absent else _unknown(reason)
        if isinstance(problem, pynvml.NVMLError_DriverNotLoaded):
            return _no_gpus("the NVIDIA driver is not loaded")
        return _unknown(f"NVML failed: {problem}")

    def _gpu(self, index: int) -> Gpu:
        """One GPU; whatever is wrong with it, its slot stays."""
        api = self._api
        try:
            handle = api.nvmlDeviceGetHandleByIndex(index)
            uuid = str(api.nvmlDeviceGetUUID(handle))
        except api.NVMLError as problem:
            before = self._seen.get(index, Gpu(uuid=f"GPU-unknown-{index}", index=index))
            return msgspec.structs.replace(before, mode=None, problem=f"NVML: {problem}", **_NO_READINGS)
        read = _Readings(api, handle)
        memory = read("nvmlDeviceGetMemoryInfo")
        mode = read("nvmlDeviceGetComputeMode")
        pci = read("nvmlDeviceGetPciInfo")
        use = read("nvmlDeviceGetUtilizationRates")
        gpu = Gpu(
            uuid=uuid,
            index=index,
            model=str(read("nvmlDeviceGetName") or ""),
            mode=MODES.get(mode) if mode is not None else None,
            memory_mib=None if memory is None else memory.total // _MIB,
            used_mib=None if memory is None else memory.used // _MIB,
            utilization_percent=None if use is None else use.gpu,
            temperature_c=_temperature(api, read),
            pci_bus_id="" if pci is None else _text(pci.busId),
            minor=read("nvmlDeviceGetMinorNumber"),
            problem=read.problem,
        )
        if not gpu.problem:
            self._seen[index] = gpu
        return gpu


_NO_READINGS: dict[str, None] = {"used_mib": None, "utilization_percent": None, "temperature_c": None}


class _Readings:
    """Reads values of one GPU: None for what it does not have, and `problem` when the GPU itself is ill."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api = api
        self._handle = handle
        self.problem = ""

    def __call__(self, function: str, *arguments: object) -> Any:
        """What the NVML function called `function` says, None if it cannot."""
        api = self._api
        try:
            return getattr(api, function)(self._handle, *arguments)
        except (AttributeError, UnicodeDecodeError):  # bindings older than the function; a name that is no text
            return None
        except api.NVMLError as error:
            if isinstance(error, (api.NVMLError_NotSupported, api.NVMLError_FunctionNotFound)):
                return None
            if error.value in (api.NVML_ERROR_GPU_IS_LOST, api.NVML_ERROR_RESET_REQUIRED):
                self.problem = f"NVML: {error}"
            elif function == "nvmlDeviceGetComputeMode":
                # The one value without which a GPU cannot be offered: say why.
                self.problem = self.problem or f"NVML: compute mode cannot be read: {error}"
            return None


def _temperature(api: Any, read: _Readings) -> int | None:
    sensor = getattr(api, "NVML_TEMPERATURE_GPU", 0)
    value = read("nvmlDeviceGetTemperatureV", sensor)  # newer drivers; the one below goes away with CUDA 14
    if value is None:
        value = read("nvmlDeviceGetTemperature", sensor)
    return None if value is None else int(value)


def _text(value: bytes | str) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _value(function: Callable[[], T]) -> T | None:
    """What a function of pynvml gives, None if it fails in any way."""
    try:
        return function()
    except Exception:  # pynvml's errors, and what ctypes makes of a library that is not what it seems
        return None


def _library_problem() -> str:
    """The loader's own words about the library; pynvml keeps them to itself."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as problem:
        return str(problem)
    return f"{LIBRARY} could not be loaded a moment ago"


def _mode_error(pynvml: Any, problem: Exception, mode: ComputeMode) -> str:
    if isinstance(problem, pynvml.NVMLError_NoPermission):
        return "setting a compute mode needs root"
    if isinstance(problem, pynvml.NVMLError_NotSupported):
        return f"the driver does not support compute mode {mode.value}"
    if isinstance(problem, (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotFound)):
        return "there is no such GPU"
    return str(problem)


def _no_gpus(reason: str) -> GpuReport:
    return GpuReport(reason=reason, provider="nvml")


def _unknown(reason: str) -> GpuReport:
    return GpuReport(known=False, reason=reason, provider="nvml")


# The process


def answer(nvml: Nvml, request: str) -> Answer:
    """Do what one request line asks. Never raises."""
    words = request.split()
    try:
        if words == ["sample"]:
            return Answer(report=nvml.sample())
        if len(words) == 3 and words[0] == "set-mode":
            return nvml.set_mode([int(index) for index in words[1].split(",")], ComputeMode(words[2]))
    except Exception as problem:  # whatever a driver does, the parent gets its line
        text = f"NVML failed: {type(problem).__name__}: {problem}"
        return Answer(report=_unknown(text), error=text)
    return Answer(error=f"request '{request.strip()}' is not understood")


def main() -> int:
    """Answer requests until standard input ends or nobody reads the answers. An argument is the parent's process id."""
    # A call that hangs does not notice the end of standard input; this ends the process all the same.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if len(sys.argv) > 1 and sys.argv[1] != str(os.getppid()):
        return 0  # the parent was gone before the line above
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent; it closes standard input
    nvml = Nvml()
    encoder = msgspec.json.Encoder()
    try:
        for line in sys.stdin:
            os.write(1, encoder.encode(answer(nvml, line)) + b"\n")
    except BrokenPipeError:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
