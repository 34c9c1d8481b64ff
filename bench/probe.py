"""CPU time of one round of the GPU probe: NVML's answers read, told to the agent, judged and packed for the master.

A stand-in for the driver's library answers (built with gcc), so the figure is the probe's own and the stand-in's, which
reads a file for each answer. `--real` asks this machine's driver. Goal: under 1 % of a core at a round each 5 s.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from private_cluster import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.host_report import shown_of
from gsched.probe.nvidia.nvml import Nvml, NvmlAnswer
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2
from tests.fakenvml.build import NoCompiler, build

ROUNDS = 30
INTERVAL_S = 5.0
"""GSCHED_GPU_INTERVAL as it is by default."""


def main() -> int:
    """Print a line for each number of GPUs, then the figures; exit code 0."""
    if "--real" in sys.argv[1:]:
        report("probe", measured("real GPUs"))
        return 0
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = build(Path(folder))
        except NoCompiler as problem:
            print(problem)
            return 0
        state = Path(folder) / "state"
        os.environ["GSCHED_FAKE_NVML"] = str(state)
        ctypes.CDLL(str(library))  # its name is that of the driver's library: it is taken for it from here on
        for count in (8, 64):
            state.write_text(f"count={count}\ngpu.0.procs={os.getpid()}:1048576\n")
            figures |= {f"{name}_{count}": value for name, value in measured(f"{count} GPUs").items()}
    report("probe", figures)
    return 0


def measured(what: str) -> dict[str, float]:
    """CPU milliseconds of a round in the probe's process and in the agent; and the share of a core of both."""
    nvml, owners = Nvml(), GpuOwners(lambda pids: {})
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(NvmlAnswer)
    probe, agent = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        line = encoder.encode(NvmlAnswer(report=nvml.sample()))
        probe.append(time.process_time() - start)
        agent.append(asyncio.run(_agent_s(decoder, line, owners)))
    one, other = (statistics.median(each[1:]) * 1000 for each in (probe, agent))
    share = (one + other) / 10 / INTERVAL_S
    print(f"{what}: probe {one:.2f} ms, agent {other:.2f} ms of CPU a round: {share:.3f} % of a core")
    return {"probe_ms": one, "agent_ms": other, "core_percent": share}


async def _agent_s(decoder: msgspec.json.Decoder[NvmlAnswer], line: bytes, owners: GpuOwners) -> float:
    start = time.process_time()
    found = decoder.decode(line).report
    assert found is not None
    seen = await owners.told(found)
    shown_of(seen)
    fill(agent_pb2.AgentMessage().gpus, seen)
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
