"""Why a job failed, by the last lines of its output that are known: texts of CUDA, NCCL, Python and the C library.

A line counts for most where it is how a program dies: an exception at the beginning of a line, a message of the loader.
The same words within a line may be a warning of a program that has gone on; they count where nothing else is found.
Of several causes the last one counts. What follows from a cause (NCCL's complaints about a process that is gone, the
exception of a launcher) counts only where there is no cause.

Pure. Never gives back what was printed, but a name: of a module, a library, an exception, an error of CUDA.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gsched.model.jobs.failure import LONGEST_DETAIL, FailureClass
from gsched.model.jobs.job import AttemptFailure

MOST_BYTES = 64 * 1024
"""Of the end of each stream."""
MOST_LINES = 600
LONGEST_LINE = 1_000
"""Characters of a line that are looked at."""

_CAUSE, _TIMEOUT, _EFFECT, _TRACEBACK = 3, 2, 1, 0
"""How near a line is to the root of what has happened."""

_PREFIX = re.compile(
    r"""^\s*(?:
        \x1b\[[0-9;]*m                              # colours
      | \[\s*(?:rank|Rank\ )?\d+\]:?                # torchrun, mpirun -tag-output
      | \[\d+,\d+\]<std(?:err|out)>:
      | \(\w+(?:\ pid)?=\d+[^)]*\)                  # ray
      | \d+:(?=\s)                                  # srun -l
      | [\w./-]+:\ line\ \d+:                       # bash
      | \d{4}-\d\d-\d\d[T ][\d:.,]+Z?               # dates
      | E\s+(?=\w+Error)                            # pytest
    )\s*""",
    re.VERBOSE,
)
_MOST_PREFIXES = 4
_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w*\.){0,8}[A-Za-z_]\w*(?:Error|Exception|Interrupt|Failure))(?::|$)")
_ANY_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w*\.){0,8}[A-Za-z_]\w*)(?:: |:?$)")
"""Below a traceback its name may be any."""
_LAST_WORDS = (
    "terminate called",
    "what():",
    "The NVIDIA driver on your system",
    "Error: ",
    "error: ",
    "FATAL",
    "Fatal",
)
_CHATTER = "NCCL INFO"
_NEAR_END = 60
"""Lines from the end in which a mere mention counts."""
_TRACEBACK_HEAD = "Traceback (most recent call last)"
_LAUNCHERS = frozenset(
    {
        *("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException"),
        *("BrokenPipeError", "ConnectionResetError", "EOFError", "KeyboardInterrupt", "SystemExit", "RayTaskError"),
        "SignalException",
    }
)
"""Exceptions of those who have lost a process: they follow from what it died of."""


class _Sign(NamedTuple):
    """`pattern` within a line: `kind`. Its first group that matches is the detail."""

    kind: FailureClass
    pattern: str
    level: int = _CAUSE
    is_final: bool = False
    """It is how a program dies wherever it stands."""
    detail: str = ""
    """The detail where the line has none."""


def _sign(kind: FailureClass, pattern: str, level: int = _CAUSE, *, final: bool = False, detail: str = "") -> _Sign:
    return _Sign(kind, pattern, level, final, detail)


_SIGNS: tuple[_Sign, ...] = (
    # CUDA. Numbers and words: "CUDA Runtime API", cudaError_t; those of before CUDA 11 have other words.
    _sign(FailureClass.GPU_BUSY, r"(?i)CUDA-capable device(?:s|\(s\))? (?:are|is|is/are) busy or unavailable"),
    _sign(
        FailureClass.GPU_BUSY, r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|cuda runtime error \(46\)"
    ),
    _sign(FailureClass.CUDA_OOM, r"(?i)CUDA(?: error)?: out of memory|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
    _sign(FailureClass.CUDA_OOM, r"cudaErrorMemoryAllocation|cuda runtime error \(2\)|CUBLAS_STATUS_ALLOC_FAILED"),
    _sign(FailureClass.CUDA_OOM, r"(?i)resource.exhausted: (?:out of memory while|failed to allocate request)"),
    _sign(FailureClass.CUDA_OOM, r"OOM when allocating tensor (?!.*\bCPU)|\bOut of GPU memory\b"),
    _sign(
        FailureClass.CUDA_OOM, r"cudaMalloc(?:Async|Managed|Host)?\b.*out of memory|std::bad_alloc: out_of_memory: CUDA"
    ),
    _sign(FailureClass.CUDA_OOM, r"CUDA error.{0,10}<out of memory>|Insufficient memory on accelerator"),
    _sign(FailureClass.CUDA_OOM, r"Cuda failure '?out of memory", final=True),
    _sign(FailureClass.CUDA_OOM, r"OutOfMemoryError: (?i:out of memory) (?:to allocate|allocating)"),
    _sign(FailureClass.CUDA_OOM, r"Free memory on device .*less than desired GPU memory"),
    _sign(FailureClass.GPU_DRIVER, r"(?i)CUDA driver version is insufficient|driver on your system is too old"),
    _sign(
        FailureClass.GPU_DRIVER,
        r"Driver/library version mismatch|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|Cuda driver error 80[34]",
    ),
    _sign(
        FailureClass.GPU_DRIVER,
        r"no kernel image is available for execution|invalid device function|provided PTX was compiled with an unsup",
    ),
    _sign(FailureClass.NO_GPU, r"(?i)no CUDA-capable device is detected|No CUDA GPUs are available"),
    _sign(FailureClass.NO_GPU, r"Found no NVIDIA driver on your system|CUDA_ERROR_NO_DEVICE|invalid device ordinal"),
    _sign(
        FailureClass.NO_GPU, r"Torch not compiled with CUDA enabled|did not correspond to any of the 0 detected device"
    ),
    _sign(
        FailureClass.CUDA_ERROR,
        r"(an illegal memory access was encountered|device-side assert triggered|unspecified launch failure"
        r"|uncorrectable (?:NVLink|ECC) error encountered|misaligned address|the launch timed out and was terminated)",
    ),
    _sign(FailureClass.CUDA_ERROR, r"\b(CUDNN_STATUS_[A-Z_]+|CUBLAS_STATUS_[A-Z_]+|CUFFT_[A-Z_]+)\b"),
    _sign(FailureClass.CUDA_ERROR, r"\b(CUDA_ERROR_[A-Z_]+|cudaError[A-Z]\w+)\b"),
    # NCCL by way of PyTorch, and by itself.
    _sign(FailureClass.NCCL_TIMEOUT, r"Watchdog caught collective operation timeout", _TIMEOUT, final=True),
    _sign(FailureClass.NCCL_TIMEOUT, r"Some NCCL operations have failed or timed out", _TIMEOUT),
    _sign(FailureClass.NCCL_TIMEOUT, r"(?i)NCCL.{0,80}\btimed? ?out\b", _TIMEOUT),
    _sign(FailureClass.NCCL_ERROR, r"nccl(?:Remote|System|Internal|UnhandledCuda)Error\b|NCCL error\b", _EFFECT),
    _sign(
        FailureClass.NCCL_ERROR,
        r"NCCL communicator was aborted on rank|\bnccl\w+ failed: (?:unhandled|internal)",
        _EFFECT,
    ),
    _sign(
        FailureClass.NCCL_ERROR,
        r"(?:DistNetworkError|DistStoreError|TimeoutError): .*(?:socket has timed|wait time)",
        _EFFECT,
    ),
    _sign(
        FailureClass.SIGNAL,
        r"\bexitcode ?: -9\b|exitcode +: -9\b|exits with return code = -9\b|Signal 9 \(SIGKILL\) received",
        _EFFECT,
        detail="SIGKILL",
    ),
    _sign(
        FailureClass.SEGFAULT,
        r"\bexitcode ?: -11\b|exits with return code = -11\b|Signal 11 \(SIGSEGV\) received",
        _EFFECT,
        detail="SIGSEGV",
    ),
    # Memory of the host.
    _sign(
        FailureClass.HOST_OOM, r"(?i)\boom[-_]kill (?:event|constraint)|killed by the cgroup out-of-memory", final=True
    ),
    _sign(FailureClass.HOST_OOM, r"(?i)out of memory: killed process|exceeded (?:job )?memory limit", final=True),
    _sign(FailureClass.HOST_OOM, r"DefaultCPUAllocator: (?:can't|not enough)|\[Errno 12\] Cannot allocate memory"),
    _sign(FailureClass.HOST_OOM, r"OutOfMemoryError: Task was killed due to the node running low on memory"),
    _sign(FailureClass.HOST_OOM, r"DataLoader worker \(pid \d+\) is killed by signal: Killed"),
    _sign(FailureClass.HOST_OOM, r"(?:what\(\):\s+|instance of ')std::bad_alloc\b|java\.lang\.OutOfMemoryError"),
    _sign(FailureClass.HOST_OOM, r"(?:Unable to allocate .* for an array|\bArrayMemoryError)"),
    # Files.
    _sign(
        FailureClass.SHM_FULL,
        r"out of shared memory|insufficient shared memory|killed by signal: Bus error|\"?/dev/shm\S* .*No space left",
    ),
    _sign(FailureClass.SHM_FULL, r"unable to (?:write to|mmap|open) file </torch_"),
    _sign(
        FailureClass.SHM_FULL,
        r"NCCL WARN (?:Error while creating shared memory|Call to posix_fallocate|Error: failed to extend /dev/shm)",
        final=True,
    ),
    _sign(FailureClass.DISK_FULL, r"(?i:no space left on device)|Disk quota exceeded|\bENOSPC\b|StorageFull"),
    # Programs.
    _sign(FailureClass.MISSING_LIBRARY, r"error while loading shared libraries: ([\w.+-]+)", final=True),
    _sign(FailureClass.MISSING_LIBRARY, r"\b(lib[\w.+-]+\.so[.\d]*): cannot open shared object file"),
    _sign(FailureClass.MISSING_LIBRARY, r"\.so[.\d]*: version [`'](\w+_[\d.]+)' not found"),
    _sign(FailureClass.PYTHON_IMPORT, r"ModuleNotFoundError: No module named '?([\w.]+)"),
    _sign(FailureClass.PYTHON_IMPORT, r"ImportError: cannot import name '?(\w+)"),
    _sign(FailureClass.PYTHON_IMPORT, r"(?:ImportError: No module named ([\w.]+)|ImportError: (?=lib))"),
)
_HINTS = re.compile(
    r"(?i)error|memory|nccl|cuda|cudnn|cublas|cufft|\boom|space left|quota|enospc|storagefull|shared|bad_alloc|allocate"
    r"|exception|interrupt|exit ?code|return code|device|\bsig|not found|killed|nvidia|driver|traceback"
)
"""What a line must have that any of the above, or an exception, is in."""


class _Found(NamedTuple):
    is_final: bool
    level: int
    line: int
    failure: AttemptFailure


def failure_in(stdout: bytes, stderr: bytes) -> AttemptFailure | None:
    """What the ends of both streams tell; None for nothing that is known. Standard error counts for more, where both
    are apart, for a line that decides nothing between them: it comes second.
    """
    found = [*_found(_lines(stdout), 0), *_found(_lines(stderr), MOST_LINES)]
    return _chosen(found)


def _lines(data: bytes) -> Sequence[str]:
    """The last ones; what a progress bar writes over itself is one line each time."""
    text = data[-MOST_BYTES:].decode(errors="replace").replace("\r", "\n")
    return [line[:LONGEST_LINE] for line in text.split("\n") if line.strip()][-MOST_LINES:]


def _found(lines: Sequence[str], first: int) -> Iterator[_Found]:
    is_in_traceback = False
    for place, line in enumerate(lines):
        if _TRACEBACK_HEAD in line:
            is_in_traceback = True
            continue
        if _CHATTER in line or not (is_in_traceback or _HINTS.search(line)):
            continue
        bare = _bare(line)
        exception = (_ANY_EXCEPTION if is_in_traceback else _EXCEPTION).match(bare)
        if exception is None and bare.startswith(_LAST_WORDS):
            is_death = True
        else:
            is_death = exception is not None
        known = _sign_in(line, first + place, is_death=is_death, is_near=len(lines) - place <= _NEAR_END)
        if known is not None:
            yield known
        if exception is not None and is_in_traceback:
            is_in_traceback = False
            if known is None:
                yield _of_exception(exception[1], first + place)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Only once a job has failed: compiling all of them takes long beside the rest of an agent's start."""
    return re.compile(pattern)


def _sign_in(line: str, number: int, *, is_death: bool, is_near: bool) -> _Found | None:
    """What is known of the line. One that is only a mention is nothing far from the end: the program has gone on."""
    for sign in _SIGNS:
        match = _compiled(sign.pattern).search(line)
        if match is None:
            continue
        is_final = is_death or sign.is_final
        detail = next((group for group in match.groups() if group), sign.detail)[:LONGEST_DETAIL]
        return (
            _Found(is_final, sign.level, number, AttemptFailure(kind=sign.kind, detail=detail))
            if is_final or is_near
            else None
        )
    return None


def _of_exception(name: str, number: int) -> _Found:
    own = name.rpartition(".")[2]
    if own == "MemoryError":
        return _Found(True, _CAUSE, number, AttemptFailure(kind=FailureClass.HOST_OOM))
    level = _TRACEBACK if own in _LAUNCHERS else _EFFECT
    return _Found(True, level, number, AttemptFailure(kind=FailureClass.PYTHON_ERROR, detail=own[:LONGEST_DETAIL]))


def _bare(line: str) -> str:
    """Without what launchers and logs put before it."""
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(line)
        if match is None:
            break
        line = line[match.end() :]
    return line.strip()


def _chosen(found: Sequence[_Found]) -> AttemptFailure | None:
    """The last of those nearest to the root. One that is only mentioned does not count beside one that ends a program
    and is no mere effect of it.
    """
    final = [each for each in found if each.is_final]
    among = final if any(each.level > _TRACEBACK for each in final) else found
    return max(among, key=lambda each: (each.level, each.line)).failure if among else None
