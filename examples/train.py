#!/usr/bin/env python3
"""What the walk-through trains: a program that treats GPUs as a training framework of its time does.

It takes the first GPUs that it may see (CUDA_VISIBLE_DEVICES) and knows nothing of other programs; when one of them is
busy it says so and aborts, which a shell calls exit code 134. On real GPUs it makes a CUDA context on each; where they
are simulated, lock files in TRAIN_PRETEND stand in for the GPUs: TRAIN_SHARED=Y lets several programs hold one, as
compute mode Default does. It trains until a file `stop.JOB` appears beside it, at most five minutes, so that nobody
waits for it longer than needed and none is left behind.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import resource
import sys
import time
from pathlib import Path

ITERATION_S = 0.25
LONGEST_S = 300.0
BUSY = 46
"""cudaErrorDevicesUnavailable, what a GPU in compute mode Exclusive_Process answers to a second program."""


def fail(code: int, text: str) -> None:
    """Say what CUDA said, and abort."""
    print(f"Check failed: error == cudaSuccess ({code} vs. 0)  {text}", flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def visible_pretended(folder: Path) -> list[str]:
    """Simulated GPUs that this process may see, in its order.

    A number in CUDA_VISIBLE_DEVICES counts what can be opened, and no simulated GPU can; so those that the job was
    given are known by their UUIDs.
    """
    given, listed = os.environ.get("GSCHED_GPU_UUIDS"), os.environ.get("CUDA_VISIBLE_DEVICES")
    if given or listed is not None:
        return [word for word in (given or "").split(",") if word]
    return sorted(path.name for path in folder.iterdir())


def take_pretended(wanted: int, folder: Path) -> list[str]:
    """Lock the first GPUs; the locks last as long as this process."""
    visible = visible_pretended(folder)
    if len(visible) < wanted:
        fail(38, "no CUDA-capable device is detected")
    kind = fcntl.LOCK_SH if os.environ.get("TRAIN_SHARED") == "Y" else fcntl.LOCK_EX
    for name in visible[:wanted]:
        try:
            fcntl.flock(os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(BUSY, "all CUDA-capable devices are busy or unavailable")
    return [f"GPU {name}" for name in visible[:wanted]]


def take_real(wanted: int) -> list[str]:
    """Make a CUDA context on each of the first GPUs. Source of the calls: CUDA Driver API, cuda.h."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            cuda.cuGetErrorString(code, ctypes.byref(text))
            fail(code, (text.value or b"unknown error").decode())

    call("cuInit", 0)
    names = []
    for ordinal in range(wanted):
        device, context, bus_id = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(32)
        call("cuDeviceGet", ctypes.byref(device), ordinal)
        call("cuDeviceGetPCIBusId", bus_id, len(bus_id), device)
        call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        names.append(f"GPU {bus_id.value.decode()}")
    return names


def train(stop: Path) -> None:
    """Count iterations until the stop file is there."""
    began = time.monotonic()
    iteration = 0
    while not stop.exists() and time.monotonic() - began < LONGEST_S:
        iteration += 100
        print(f"Iteration {iteration}, loss = {0.3 + 200 / (iteration + 100):.3f}", flush=True)
        time.sleep(ITERATION_S)
    print("Optimization Done.", flush=True)


def main() -> int:
    """Take the GPUs, train, end."""
    parser = argparse.ArgumentParser(description="Train on the first GPUs that are visible.")
    parser.add_argument("--gpus", type=int, default=1, help="how many")
    wanted = parser.parse_args().gpus
    locks = os.environ.get("TRAIN_PRETEND")
    names = take_pretended(wanted, Path(locks)) if locks else take_real(wanted)
    if names:
        print(f"Using {', '.join(names)}", flush=True)
    train(Path(f"stop.{os.environ.get('LSB_JOBID', '0')}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
