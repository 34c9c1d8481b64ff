#!/usr/bin/env python3
"""Adds up a tensor over all ranks with NCCL, for the checks on real GPUs; rank 0 writes what it saw to the file that it
is given. torchrun starts it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed

ELEMENTS = 1024


def main() -> int:
    """One all-reduce."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    summed = torch.ones(ELEMENTS, device="cuda")
    torch.distributed.all_reduce(summed)
    torch.cuda.synchronize()
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    told = {
        "rank": int(os.environ["RANK"]),
        "world": int(os.environ["WORLD_SIZE"]),
        "mean": float(summed.sum()) / ELEMENTS,
        "uuid": uuid if uuid.startswith("GPU-") else f"GPU-{uuid}",
        "torch": str(torch.__version__),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    }
    if told["rank"] == 0:
        Path(sys.argv[1]).write_text(json.dumps(told))
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
