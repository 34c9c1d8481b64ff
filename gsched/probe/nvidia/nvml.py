"""NVML as a process of its own: `python -m gsched.probe.nvidia.nvml` answers one JSON line per request line.

Requests on standard input: `sample`, `use INDEXES` (what is made of these GPUs now, `use 0,2`), or `set-mode INDEXES
MODE` (`set-mode 0,2 exclusive_process`). A line `{"has_news":true}` comes unasked: a sample would tell more. It ends
when standard input does, and with its parent.

It is a process of its own because a call into the driver can hang for ever and cannot be called off: only a process can
be killed. This is the only module that imports pynvml; it changes nothing but by set-mode, it never runs nvidia-smi,
and each value is read on its own, so that what one driver or one GPU cannot tell does not hide the rest.

Source of functions, errors and compute modes: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, coded, listed
from gsched.model.gpus.gpu_use import DeviceUse
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, MigDevice
from gsched.probe.nvidia.nvml_events import Events
from gsched.probe.nvidia.nvml_facts import (
    DeviceFacts,
    processes_of,
    read_facts,
    read_links,
    read_memory_fault,
    read_mig,
    read_recovery_action,
)
from gsched.probe.nvidia.nvml_patience import NvmlPatience
from gsched.probe.nvidia.nvml_read import GpuReader, lost_errors, one_line, read_clock_reasons, value_of
from gsched.probe.nvidia.nvml_use import UseReader

LIBRARY = "libnvidia-ml.so.1"

MODES: dict[int, ComputeMode] = {
    0: ComputeMode.DEFAULT,
    1: ComputeMode.EXCLUSIVE_THREAD,
    2: ComputeMode.PROHIBITED,
    3: ComputeMode.EXCLUSIVE_PROCESS,
}
"""NVML's compute modes. Current drivers no longer let 1 be set."""

MOST_GPUS = 1024
GPU_LIMIT_S = 8.0
SILENT = coded("gpu.silent")

_MIB = 1024 * 1024
_UNCORRECTED = 1
_CORRECTED = 0
_VOLATILE = 0
_SLOWEST = 15
_PR_SET_PDEATHSIG = 1


class NvmlAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the process. `error` says why a mode could not be set; `denied` that it takes more rights."""

    report: GpuReport | None = None
    use: tuple[DeviceUse, ...] = ()
    error: AnyText = ""
    denied: bool = False
    has_news: bool = False
    """Unasked: the driver has told of something."""


class Nvml:
    """The library, loaded and initialised when it is first needed and again after it has failed."""

    def __init__(self, notify: Callable[[], None] = lambda: None, gpu_limit_s: float = GPU_LIMIT_S) -> None:
        """`notify` is called from another thread when a sample would tell news; `gpu_limit_s` is how long one GPU may
        take before it is left out.
        """
        self._api: Any = None
        self._notify = notify
        self._events: Events | None = None
        self._patience = NvmlPatience(self._gpu, gpu_limit_s)
        self._use = UseReader()
        self._use_patience = NvmlPatience(lambda index: self._use.read(self._api, index), gpu_limit_s)
        self._seen: dict[int, Gpu] = {}
        """The last good sight of each index: a GPU that is lost no longer tells its UUID."""
        self._facts: dict[str, DeviceFacts] = {}
        """UUID -> what cannot change while the driver is loaded."""
        self._links: dict[str, tuple[str, ...]] = {}
        self._worn: dict[str, tuple[int | None, AnyText]] = {}
        """UUID -> memory errors, and what has failed about the memory when there were so many."""

    def sample(self) -> GpuReport:
        """All GPUs now. Without library or driver the host is known to have none; any other failure is unknown."""
        try:
            import pynvml  # here, for a host may have none, and that is told
        except ImportError as problem:
            return _no_gpus(coded("nvml.no_bindings", str(problem)))
        try:
            self._begin(pynvml)
            count = pynvml.nvmlDeviceGetCount()
            driver = one_line(value_of(pynvml.nvmlSystemGetDriverVersion))
        except pynvml.NVMLError as problem:
            return self._failed(pynvml, problem)
        indexes = range(min(count, MOST_GPUS))
        seen = self._patience.seen(indexes)
        gpus = tuple(seen[index] if index in seen else self._silent(index, SILENT) for index in indexes)
        gpus = self._with_news(self._linked(gpus))
        reason: AnyText = "" if gpus else coded("nvml.no_gpu")
        unheard: AnyText = "" if self._events is None else self._events.unheard
        return GpuReport(gpus=gpus, reason=reason, provider="nvml", driver=driver, unheard=unheard)

    def use(self, indexes: list[int]) -> tuple[DeviceUse, ...]:
        """What is made of the GPUs with these indexes now; one that cannot be read is missing."""
        import pynvml  # it has been before, see above

        try:
            self._begin(pynvml)
            seen = self._use_patience.seen(indexes)
        except pynvml.NVMLError as problem:
            self._failed(pynvml, problem)
            return ()
        return tuple(use for index in indexes if (use := seen.get(index)) is not None)

    def _with_news(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """The GPUs with what the driver has told of them."""
        news = {} if self._events is None else self._events.taken()
        return tuple(msgspec.structs.replace(gpu, xids=news[gpu.uuid]) if gpu.uuid in news else gpu for gpu in gpus)

    def set_mode(self, indexes: list[int], mode: ComputeMode) -> NvmlAnswer:
        """Set the mode of each GPU; those that can be set are, even if others cannot."""
        import pynvml  # it has been before, see above

        number = next(number for number, known in MODES.items() if known is mode)
        denied = False
        failed: dict[AnyText, list[int]] = {}
        try:
            self._begin(pynvml)
        except pynvml.NVMLError as problem:
            return NvmlAnswer(error=self._failed(pynvml, problem).reason)
        for index in indexes:
            try:
                pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByIndex(index), number)
            except pynvml.NVMLError as problem:
                denied = denied or isinstance(problem, pynvml.NVMLError_NoPermission)
                failed.setdefault(_mode_error(pynvml, problem, mode), []).append(index)
        parts = [coded("nvml.of_gpus", ", ".join(map(str, where)), why) for why, where in failed.items()]
        return NvmlAnswer(error=listed(parts, "list.semicolon"), denied=denied)

    def _begin(self, pynvml: Any) -> None:
        if self._api is None:
            pynvml.nvmlInit()
            self._api = pynvml
            self._events = Events(pynvml, self._notify)

    def _failed(self, pynvml: Any, problem: Exception) -> GpuReport:
        """The report after NVML as a whole has failed; the next sample starts from the beginning."""
        if self._api is not None:
            if self._events is not None:
                self._events.end()
            value_of(pynvml.nvmlShutdown)
            self._api = self._events = None
            self._facts, self._links, self._worn = {}, {}, {}
            self._use = UseReader()  # what it remembers belongs to the driver that was loaded
        if isinstance(problem, pynvml.NVMLError_LibraryNotFound):
            reason = _library_problem()
            absent = reason.startswith(f"{LIBRARY}: ") and "No such file" in reason
            return _no_gpus(coded("nvml.no_library", reason)) if absent else _unknown(reason)
        if isinstance(problem, pynvml.NVMLError_DriverNotLoaded):
            return _no_gpus(coded("nvml.no_driver"))
        return _unknown(coded("nvml.failed", str(problem)))

    def _gpu(self, index: int) -> Gpu:
        """One GPU; whatever is wrong with it, its slot stays."""
        api = self._api
        try:
            handle = api.nvmlDeviceGetHandleByIndex(index)
            uuid = one_line(api.nvmlDeviceGetUUID(handle))
        except api.NVMLError as problem:
            text = coded("nvml.error", str(problem))
            return self._silent(index, text, text if problem.value in lost_errors(api) else "")
        events = self._events
        if events is not None:
            events.listen_to(index, uuid, handle)
        read = GpuReader(api, handle)
        facts = self._facts_of(uuid, read)
        memory_mib, used_mib, reserved_mib = _memory_mib(api, read)
        mode = read("nvmlDeviceGetComputeMode")
        use = read("nvmlDeviceGetUtilizationRates")
        power_mw = read("nvmlDeviceGetPowerUsage")
        pstate = _pstate(read)
        errors = read("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
        process_count, processes = processes_of(read)
        mig, mig_devices = self._mig(index, uuid, read) if facts.can_mig else (None, ())
        gpu = Gpu(
            uuid=uuid,
            index=index,
            model=facts.model,
            mode=MODES.get(mode) if mode is not None else None,
            memory_mib=memory_mib,
            used_mib=used_mib,
            reserved_mib=reserved_mib,
            utilization_percent=None if use is None else use.gpu,
            memory_utilization_percent=None if use is None else use.memory,
            temperature_c=_temperature(api, read),
            power_w=None if power_mw is None else round(power_mw / 1000),
            ecc_errors=errors,
            ecc_corrected=read("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
            throttle=read_clock_reasons(read),
            pstate=pstate,
            process_count=process_count,
            processes=processes,
            pci_bus_id=facts.pci_bus_id,
            minor=facts.minor,
            numa=facts.numa,
            mig=mig,
            mig_devices=mig_devices,
            problem=read.problem,
            fault=read.fault or self._memory_fault(uuid, errors, read),
            slowdown_c=facts.slowdown_c,
            factor=facts.factor,
            recovery=read_recovery_action(api, read),
        )
        if not gpu.problem:
            self._seen[index] = gpu
        elif read.fault and events is not None:
            events.forget(uuid)
        return gpu

    def _facts_of(self, uuid: str, read: GpuReader) -> DeviceFacts:
        """What cannot change; read again as long as some of it could not be read."""
        facts = self._facts.get(uuid)
        if facts is None or not facts.is_whole:
            facts = self._facts[uuid] = read_facts(read)
        return facts

    def _mig(self, index: int, uuid: str, read: GpuReader) -> tuple[bool | None, tuple[MigDevice, ...]]:
        """Whether the GPU is split, and its parts; as they were seen last where they cannot be read now."""
        mig, devices = read_mig(self._api, read)
        last = self._seen.get(index)
        if mig is None and last is not None and last.uuid == uuid:
            return last.mig, last.mig_devices
        return mig, devices

    def _silent(self, index: int, problem: AnyText, fault: AnyText = "") -> Gpu:
        """A GPU that cannot be read: what it was, without readings."""
        before = self._seen.get(index, Gpu(uuid=f"GPU-unknown-{index}", index=index))
        if fault and self._events is not None:
            self._events.forget(before.uuid)
        return msgspec.structs.replace(before, mode=None, problem=problem, fault=fault, **_NO_READINGS)

    def _memory_fault(self, uuid: str, errors: int | None, read: GpuReader) -> AnyText:
        """Whether parts of its memory could not be set aside; asked for when the number of errors has changed."""
        if uuid not in self._worn or self._worn[uuid][0] != errors:
            self._worn[uuid] = (errors, read_memory_fault(read))
        return self._worn[uuid][1]

    def _linked(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """The GPUs with their peers, which are asked for once for each set of GPUs that answer."""
        answering = {gpu.index: gpu.uuid for gpu in gpus if not gpu.problem}
        if not self._links.keys() >= set(answering.values()):
            self._links = read_links(self._api, answering)
        links = self._links
        return tuple(
            msgspec.structs.replace(gpu, links=links.get(gpu.uuid, ())) if links.get(gpu.uuid) else gpu for gpu in gpus
        )


_NO_READINGS: dict[str, Any] = {
    **dict.fromkeys(("used_mib", "utilization_percent", "temperature_c", "memory_utilization_percent", "power_w")),
    **dict.fromkeys(("ecc_errors", "pstate", "process_count", "recovery", "ecc_corrected", "throttle")),
    "processes": (),
    "xids": (),
}


def _memory_mib(api: Any, read: GpuReader) -> tuple[int | None, int | None, int | None]:
    """Total, used, and kept by the driver for itself; a driver before 510 does not tell the last."""
    memory = read("nvmlDeviceGetMemoryInfo", getattr(api, "nvmlMemory_v2", 0))
    if memory is not None:
        return memory.total // _MIB, memory.used // _MIB, memory.reserved // _MIB
    memory = read("nvmlDeviceGetMemoryInfo")
    return (None, None, None) if memory is None else (memory.total // _MIB, memory.used // _MIB, None)


def _pstate(read: GpuReader) -> int | None:
    pstate = read("nvmlDeviceGetPerformanceState")
    return pstate if pstate is not None and 0 <= pstate <= _SLOWEST else None


def _temperature(api: Any, read: GpuReader) -> int | None:
    sensor = getattr(api, "NVML_TEMPERATURE_GPU", 0)
    value = read("nvmlDeviceGetTemperatureV", sensor)  # newer drivers; the one below goes away with CUDA 14
    if value is None:
        value = read("nvmlDeviceGetTemperature", sensor)
    return None if value is None else int(value)


def _library_problem() -> str:
    """The loader's own words about the library; pynvml keeps them to itself."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as problem:
        return str(problem)
    return f"{LIBRARY} could not be loaded a moment ago"


def _mode_error(pynvml: Any, problem: Exception, mode: ComputeMode) -> AnyText:
    if isinstance(problem, pynvml.NVMLError_NoPermission):
        return coded("mode.needs_root")
    if isinstance(problem, pynvml.NVMLError_NotSupported):
        return coded("mode.not_supported", mode.value)
    if isinstance(problem, (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotFound)):
        return coded("nvml.no_such_gpu")
    return str(problem)


def _no_gpus(reason: AnyText) -> GpuReport:
    return GpuReport(reason=reason, provider="nvml")


def _unknown(reason: AnyText) -> GpuReport:
    return GpuReport(known=False, reason=reason, provider="nvml")


# The process


def answer(nvml: Nvml, request: str) -> NvmlAnswer:
    """Do what one request line asks. Never raises."""
    words = request.split()
    try:
        if words == ["sample"]:
            return NvmlAnswer(report=nvml.sample())
        if len(words) == 2 and words[0] == "use":
            return NvmlAnswer(use=nvml.use([int(index) for index in words[1].split(",")]))
        if len(words) == 3 and words[0] == "set-mode":
            return nvml.set_mode([int(index) for index in words[1].split(",")], ComputeMode(words[2]))
    except Exception as problem:  # whatever a driver does, the parent gets its line
        text = f"NVML failed: {type(problem).__name__}: {problem}"
        return NvmlAnswer(report=_unknown(text), error=text)
    return NvmlAnswer(error=f"request '{request.strip()}' is not understood")


def _teller() -> Callable[[NvmlAnswer], None]:
    """Writes answers as lines, whole ones whatever thread they come from."""
    encoder = msgspec.json.Encoder()
    lock = threading.Lock()

    def tell(answer: NvmlAnswer) -> None:
        line = memoryview(encoder.encode(answer) + b"\n")
        with lock:
            while line:
                line = line[os.write(1, line) :]

    return tell


def main() -> int:
    """Answer requests until standard input ends or nobody reads the answers.

    Arguments: the parent's process id, and how many seconds one GPU may take.
    """
    # A call that hangs does not notice the end of standard input; this ends the process all the same.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if len(sys.argv) > 1 and sys.argv[1] != str(os.getppid()):
        return 0  # the parent was gone before the line above
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent; it closes standard input
    tell = _teller()

    def notify() -> None:
        with contextlib.suppress(BrokenPipeError):
            tell(NvmlAnswer(has_news=True))

    nvml = Nvml(notify, float(sys.argv[2]) if len(sys.argv) > 2 else GPU_LIMIT_S)
    try:
        for line in sys.stdin:
            tell(answer(nvml, line))
    except BrokenPipeError:
        pass
    return 0


if __name__ == "__main__":
    os._exit(main())  # threads may hang in the driver: nobody waits for them
