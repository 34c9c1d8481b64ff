"""How fast gsched is, in at most ten minutes: rates and latencies beside its peers, growth with jobs and with hosts.

One run on an otherwise idle machine gives the figures and the picture, docs/images/speed.svg. Peers take part if they
are found (see peers.py and commands.py); nothing is installed. Each part has its share of the time: rounds and the
largest sizes that do not fit into it are left out, and it is said which. The other benches go deeper, each into one
thing.

    python bench/speed.py [--minutes 9] [--picture docs/images/speed.svg] [--jobs 100,1000,10000,50000]
                          [--hosts 10,100,1000,5000] [--rounds 5]

The picture needs matplotlib (the extra `dev`). The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import commands
import cycle
import latency
import listing
import msgspec
import peers
from private_cluster import BIN, client_of, end_in_good_order, private_cluster, report, set_plain, submission, wall_ms

from gsched.wire.calls.client import Client

WAVE_S = 20.0
"""So long an array is watched, if it is not over before: 50,000 jobs would take minutes."""
LOOK_S = 0.1
LISTINGS = 3
CYCLES = 3
WAITING = 10_000
"""Jobs that wait while the number of hosts grows."""
PEERS_SHARE, JOBS_SHARE = 0.5, 0.6
"""Parts of what is left of the time then that the peers' rounds and the sizes of jobs may take."""
Figures = dict[str, float]


class Deadline:
    """What is left of the time."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return self._ends_at - time.monotonic()

    def steps(self, sizes: Sequence[int], what: str) -> Iterator[int]:
        """The sizes, the smallest first, until the next one would not be over in time. Part of what a size takes is the
        same for all, so it is reckoned with the square root of how much larger it is.
        """
        took, before = 0.0, 0
        for place, size in enumerate(sorted(sizes)):
            if before and took * (size / before) ** 0.5 > self.left_s:
                left_out = ", ".join(map(str, sorted(sizes)[place:]))
                print(f"{left_out} {what}: left out, there is no time for them")
                return
            begun = time.monotonic()
            yield size
            took, before = time.monotonic() - begun, size


def main() -> int:
    """Print the figures and draw them; exit code 0."""
    options = _options()
    end_in_good_order()
    whole = Deadline(options.minutes * 60)
    figures = latencies(options.times)
    rounds_s = whole.left_s * PEERS_SHARE
    figures |= peers.figures_of(peers.measured(options.array, options.rounds, list(peers.PEERS), rounds_s))
    figures |= grow_with_jobs(options.jobs, Deadline(whole.left_s * JOBS_SHARE))
    figures |= grow_with_hosts(options.hosts, whole)
    if options.picture:
        _draw(figures, options.picture)
    report("speed", figures)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="about how long all of it may take")
    parser.add_argument("--picture", type=Path, help="where to draw the figures, as SVG")
    parser.add_argument("--jobs", type=_sizes, default="100,1000,10000,50000", help="numbers of pending jobs")
    parser.add_argument("--hosts", type=_sizes, default="10,100,1000,5000", help="numbers of hosts")
    parser.add_argument("--rounds", type=int, default=5, help="of gsched and its peers in turn")
    parser.add_argument("--array", type=int, default=1000, help="jobs that gsched and its peers run in a round")
    parser.add_argument("--times", type=int, default=commands.TIMES, help="runs of each command")
    options = parser.parse_args()
    if min(options.rounds, options.array, options.times, options.minutes) <= 0:
        parser.error("--minutes, --rounds, --array, --times: more than 0")
    return options


def _sizes(text: str) -> list[int]:
    sizes = [int(word) for word in text.split(",")]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': each at least 1")
    return sizes


def latencies(times: int) -> Figures:
    """Milliseconds from a submission to the job's start, and of single commands."""
    found = latency.measured(times)
    print(f"submit returned -> job runs: median {statistics.median(found):.1f} ms, max {found[-1]:.1f}")
    return {"start_ms": statistics.median(found)} | commands.show(*commands.measured(times))


def grow_with_jobs(sizes: Sequence[int], deadline: Deadline) -> Figures:
    """What is done a second with so many jobs: run as an array, submitted in calls of 1,000, listed as a whole."""
    figures: Figures = {}
    for size in deadline.steps(sizes, "jobs"):
        with _cluster() as environment, client_of(environment) as client:
            figures[f"array_{size}_per_s"] = _wave(client, size)
            begun = time.perf_counter()
            listing.fill(client, size)
            figures[f"submitted_{size}_per_s"] = size / (time.perf_counter() - begun)
            figures[f"listed_{size}_per_s"] = size / listing.median_s(["gjobs"], environment, LISTINGS)[1]
            gsub = [str(BIN / "gsub"), "-o", "/dev/null", "true"]
            figures[f"gsub_ms_beside_{size}"] = wall_ms(gsub, environment, 2 * LISTINGS)
        shown = ", ".join(f"{figures[f'{what}_{size}_per_s']:.0f}/s" for what in ("array", "submitted", "listed"))
        beside = figures[f"gsub_ms_beside_{size}"]
        print(f"{size} jobs: array, submitted, listed {shown}; gsub beside them {beside:.1f} ms", flush=True)
    return figures


@contextlib.contextmanager
def _cluster() -> Iterator[dict[str, str]]:
    """A private cluster with 64 slots, at the intervals of a plain configuration."""
    with private_cluster("--sim-gpus", "8:exclusive_process") as environment:
        set_plain(Path(environment["GSCHED_ENVDIR"]))
        peers.text_of([str(BIN / "gadmin"), "reconfig"], environment)
        yield environment


def _wave(client: Client, size: int) -> float:
    """Jobs a second of an array of so many, from its submission on; it is ended when it has been watched for long."""
    plain = submission("/bin/true")
    array = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, name="a", indices=f"1-{size}"))
    begun = time.perf_counter()
    job_id = client.submit(array).job_id
    while (left := _unfinished(client)) and time.perf_counter() - begun < WAVE_S:
        time.sleep(LOOK_S)
    rate = (size - left) / (time.perf_counter() - begun)
    if left:
        client.control("kill", [job_id])
        while _unfinished(client):
            time.sleep(LOOK_S)
    return rate


def _unfinished(client: Client) -> int:
    return sum(queue.njobs for queue in client.queues())


def grow_with_hosts(sizes: Sequence[int], deadline: Deadline) -> Figures:
    """Milliseconds of a warm scheduling cycle over so many hosts, with half of the GPUs free and with none."""
    figures: Figures = {}
    for size in deadline.steps(sizes, "hosts"):
        for name, free in (("half_free", 0.5), ("full", 0.0)):
            cost, _ = cycle.measure(cycle.World(WAITING, size, free), CYCLES)
            figures[f"cycle_{name}_{size}_ms"] = cost.cpu
        half, full = (figures[f"cycle_{name}_{size}_ms"] for name in ("half_free", "full"))
        print(f"{size} hosts, {WAITING} jobs: a cycle takes {half:.1f} ms half free, {full:.1f} ms full", flush=True)
    return figures


def _draw(figures: Figures, path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print(f"{path} is not drawn: matplotlib is not installed (pip install '.[dev]')")
        return
    from speed_picture import draw  # matplotlib takes a second to load

    draw(figures, path)
    print(f"drawn: {path}")


if __name__ == "__main__":
    sys.exit(main())
