#!/usr/bin/env python3
"""A CUDA program for the checks on real GPUs: it makes a context on the first GPU that it sees, and tells what it saw.

It calls the CUDA driver API through ctypes, so it needs the driver and nothing else, and runs with any Python. What it
saw goes as JSON to the file of --say, what became of its memory to that of --end. It never changes a setting of a GPU.
Source of the calls: CUDA Driver API, cuda.h.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import sys
import time
from pathlib import Path

WORD = 0x5A5A1234
"""What its memory is filled with."""
FAILED = 46
"""Exit code when CUDA refuses; what cudaErrorDevicesUnavailable is."""
WILD_ADDRESS = 0x7F00DEAD0000
WILD = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry wild(.param .u64 place)
{
 .reg .b64 %rd<3>;
 .reg .b32 %r<2>;
 ld.param.u64 %rd1, [place];
 cvta.to.global.u64 %rd2, %rd1;
 mov.u32 %r1, 42;
 st.global.u32 [%rd2], %r1;
 ret;
}
\0"""
"""A kernel that writes to the address it is given."""


class CudaError(Exception):
    """What the driver said, with the name of the call and the code."""


class Cuda:
    """The first visible GPU: a context, and memory filled with WORD. Every call raises CudaError when it fails."""

    def __init__(self) -> None:
        """Make the context. Raises OSError without the driver's library."""
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        count, device = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(raw), device)
        digits = bytes(raw).hex()
        self.count = count.value
        self.uuid = f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        self._call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, device)
        self._memory, self._size = ctypes.c_uint64(), 0

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(f"{name}: {code} {(text.value or b'unknown error').decode()}")

    def take(self, mib: int) -> None:
        """Allocate memory and fill it."""
        self._size = mib << 20
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(self._size))
        self.compute(rounds=1)

    def compute(self, rounds: int = 20) -> None:
        """Fill the memory so many times, and wait until that is done."""
        for _ in range(rounds):
            self._call("cuMemsetD32_v2", self._memory, ctypes.c_uint(WORD), ctypes.c_size_t(self._size // 4))
        self._call("cuCtxSynchronize")

    def is_intact(self) -> bool:
        """Whether the memory still holds what was written."""
        found = ctypes.c_uint()
        for offset in (0, self._size // 2, self._size - 4) if self._size else ():
            place = ctypes.c_uint64(self._memory.value + offset)
            self._call("cuMemcpyDtoH_v2", ctypes.byref(found), place, ctypes.c_size_t(4))
            if found.value != WORD:
                return False
        return True

    def write_to_a_wild_address(self) -> int:
        """What the driver says then; 0 when it did not notice."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), WILD)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, b"wild")
        address = ctypes.c_uint64(WILD_ADDRESS)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        self._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
        return int(self._library.cuCtxSynchronize())


def write(path: str, told: dict[str, object]) -> None:
    """The file is there when it is whole."""
    print(json.dumps(told), flush=True)
    if path:
        Path(f"{path}.new").write_text(json.dumps(told))
        os.rename(f"{path}.new", path)


def surroundings() -> dict[str, object]:
    """Who this is, and what the job was told of its GPUs."""
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GSCHED_GPU_UUIDS", "CUDA_MPS_PIPE_DIRECTORY")
    return {"pid": os.getpid(), "at": time.time(), **{name: os.environ.get(name) for name in names}}


def devices() -> dict[str, str]:
    """Device files of GPUs, and whether this process may open them: `opened`, or the name of the error."""
    found = {}
    for path in sorted(Path("/dev").glob("nvidia[0-9]*")):
        try:
            os.close(os.open(path, os.O_RDWR))
            found[path.name] = "opened"
        except OSError as error:
            found[path.name] = errno.errorcode.get(error.errno or 0, "?")
    return found


def leave_behind(say: str) -> None:
    """Go on in a process that is nobody's child and has lost its session and its environment; the job's first process
    ends when that one has said what it saw.
    """
    if os.fork():
        while not Path(say).exists():
            time.sleep(0.05)
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    words = [word for word in sys.argv if word != "--leave-behind"]
    kept = ("PATH", "LD_LIBRARY_PATH", "GSCHED_FAKE_NVML", "HOME")
    os.execve(sys.executable, [sys.executable, *words], {name: os.environ[name] for name in kept if name in os.environ})


def hold(cuda: Cuda, options: argparse.Namespace) -> int:
    """Stay until the file of --until is there, or for --seconds; exit code."""
    rounds, longest_s, end = 0, 0.0, time.monotonic() + options.seconds
    last = time.monotonic()
    while time.monotonic() < end and not (options.until and Path(options.until).exists()):
        if options.busy and options.mib:
            cuda.compute()
        else:
            time.sleep(0.05)
        rounds, now = rounds + 1, time.monotonic()
        longest_s, last = max(longest_s, now - last), now
    is_intact = cuda.is_intact()
    write(options.end, {"rounds": rounds, "is_intact": is_intact, "longest_pause_s": longest_s})
    return 0 if is_intact else 9


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Hold a GPU.")
    parser.add_argument("--mib", type=int, default=0, help="memory to take")
    parser.add_argument("--busy", action="store_true", help="compute all the time")
    parser.add_argument("--until", default="", metavar="FILE", help="end when this file is there")
    parser.add_argument("--seconds", type=float, default=120.0, help="end then at the latest")
    parser.add_argument("--say", default="", metavar="FILE", help="write there what it sees")
    parser.add_argument("--end", default="", metavar="FILE", help="write there how it went")
    parser.add_argument("--look", action="store_true", help="only tell what it sees")
    parser.add_argument("--wild", action="store_true", help="write to an address that is not its own")
    parser.add_argument("--leave-behind", action="store_true", help="end, and leave a process behind")
    return parser.parse_args()


def main() -> int:
    """Do what the options say; FAILED when CUDA refuses."""
    options = read_options()
    if options.leave_behind:
        leave_behind(options.say)
    told: dict[str, object] = {"error": "", "devices": devices(), **surroundings()}
    try:
        cuda = Cuda()
        told |= {"count": cuda.count, "uuid": cuda.uuid}
        if options.wild:
            code = cuda.write_to_a_wild_address()
            write(options.say, {**told, "code": code})
            return 3 if code else 0
        if options.mib:
            cuda.take(options.mib)
    except (OSError, CudaError) as error:
        write(options.say, {**told, "error": str(error)})
        return 0 if options.look else FAILED
    write(options.say, {**told, "at": time.time()})
    return 0 if options.look else hold(cuda, options)


if __name__ == "__main__":
    sys.exit(main())
