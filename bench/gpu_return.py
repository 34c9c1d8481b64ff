"""From the end of a job to its GPUs offered again, and to the first instruction of the job that waits for them.

On three hosts: one whose probe does not show processes, so that nothing is looked at before and after jobs, and two
with 8 and 64 GPUs behind a stand-in for the driver's library (built with gcc), which reads a file for each answer.
Goal: offered again within 200 ms when clean. Every job takes all GPUs of the host.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from private_cluster import client_of, private_cluster, report, submission

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gsched.wire.calls.client import Client
from tests.fakenvml.build import NoCompiler, build

TIMES = 12


def main() -> int:
    """Print a line for each host, then the figures; exit code 0."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures |= measured("unseen_8", 8, Path(folder) / "s", "--sim-gpus", "8")
        try:
            build(Path(folder))
        except NoCompiler as problem:
            print(problem)
            return 0
        for count in (8, 64):
            state = Path(folder) / f"state{count}"
            state.write_text(f"count={count}\n")
            env = {"LD_LIBRARY_PATH": folder, "GSCHED_FAKE_NVML": str(state)}
            figures |= measured(f"nvml_{count}", count, Path(folder) / str(count), **env)
    report("gpu_return", figures)
    return 0


def measured(what: str, count: int, output: Path, *words: str, **env: str) -> dict[str, float]:
    """Medians in milliseconds: end of a job to its GPUs free for the next, to the next one's first instruction."""
    output.mkdir()
    with private_cluster(*words, **env) as environment, client_of(environment) as client:
        found = [one(client, count, output, turn) for turn in range(TIMES + 1)][1:]
    offered, begun = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"{what}: end of job -> GPUs offered {offered:.1f} ms, -> next job runs {begun:.1f} ms ({TIMES} times)")
    return {f"offered_ms_{what}": offered, f"next_ms_{what}": begun}


def one(client: Client, count: int, output: Path, turn: int) -> tuple[float, float]:
    """By the machine's one clock: job and submission, then from the last instruction of the one that runs."""
    go, end, start = (output / f"{name}.{turn}" for name in ("go", "end", "start"))
    first = submit(client, count, f"while [ ! -e {go} ]; do sleep 0.01; done; date +%s.%N > {end}")
    second = submit(client, count, f"date +%s.%N > {start}")
    time.sleep(0.3)  # what comes with the submissions is over
    go.touch()
    client.wait([first], timeout_s=30)
    offered = time.time()
    client.wait([second], timeout_s=30)
    ended = float(end.read_text())
    return (offered - ended) * 1000, (float(start.read_text()) - ended) * 1000


def submit(client: Client, count: int, command: str) -> int:
    """A job that wants all GPUs."""
    plain = submission(command)
    spec = msgspec.structs.replace(plain.spec, res_req=f"rusage[ngpus={count}]")
    return client.submit(msgspec.structs.replace(plain, spec=spec)).job_id


if __name__ == "__main__":
    sys.exit(main())
