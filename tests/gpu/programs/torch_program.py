#!/usr/bin/env python3
"""Computes with PyTorch, for the checks on real GPUs: products of matrices on tensor cores, beside 2 GiB of memory that
must stay as they are.

It takes the options --say, --until, --seconds and --end of cuda_program.py, and writes the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

SIZE = 8192
FILLING = 7


def write(path: str, told: dict[str, object]) -> None:
    """The file is there when it is whole."""
    print(json.dumps(told), flush=True)
    if path:
        Path(f"{path}.new").write_text(json.dumps(told))
        os.rename(f"{path}.new", path)


def surroundings(device: torch.device) -> dict[str, object]:
    """What the job was told of its GPUs, and what PyTorch sees."""
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GSCHED_GPU_UUIDS")
    return {
        "error": "",
        "pid": os.getpid(),
        "at": time.time(),
        "count": torch.cuda.device_count(),
        "uuid": uuid if uuid.startswith("GPU-") else f"GPU-{uuid}",
        "torch": str(torch.__version__),
        **{name: os.environ.get(name) for name in names},
    }


def main() -> int:
    """Compute until told to end; 9 when the memory has changed."""
    parser = argparse.ArgumentParser(description="Compute with PyTorch.")
    parser.add_argument("--say", default="")
    parser.add_argument("--until", default="")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--end", default="")
    options = parser.parse_args()
    device = torch.device("cuda:0")
    kept = torch.full((256, 1 << 20), FILLING, dtype=torch.int64, device=device)
    left, right = (torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    product = left @ right
    torch.cuda.synchronize()
    write(options.say, surroundings(device))
    rounds, longest_s, last = 0, 0.0, time.monotonic()
    end = last + options.seconds
    while time.monotonic() < end and not (options.until and Path(options.until).exists()):
        for _ in range(20):
            product = left @ right
        torch.cuda.synchronize()
        rounds, now = rounds + 1, time.monotonic()
        longest_s, last = max(longest_s, now - last), now
    is_intact = bool((kept == FILLING).all().item()) and bool(torch.isfinite(product).all().item())
    write(options.end, {"rounds": rounds, "is_intact": is_intact, "longest_pause_s": longest_s})
    return 0 if is_intact else 9


if __name__ == "__main__":
    sys.exit(main())
