"""How much processor time the engine takes at one go while one user's largest requests are carried out.

It drives the master's engine loop with a store in this process, without gRPC and other processes: what others do on the
machine counts little, where in `pauses.py` it counts in full. Goal: 50 ms where nothing else runs.

    python bench/turns.py [--jobs 100000] [--only NAME,NAME]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from private_cluster import report

from gsched.base.clock import SystemClock
from gsched.core.command import Command, KillJobs, ModifyJobs, MoveJobsToBottom, ResumeJobs, StopJobs, Submit
from gsched.core.engine import Engine
from gsched.core.state.cluster_state import ClusterState
from gsched.master.engine_thread import EngineLoop, InboxItem
from gsched.master.garbage_collection import settle_in, undisturbed
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.view import JobFilter
from gsched.policy.cycle import schedule_in_turns
from gsched.store.eventlog import EventLog

BATCH = 1_000
ALL = JobFilter()
TERMS = "select[" + "||".join(f"mem>{number}" for number in range(400)) + "]"


def spec(name: str, number: int = 0, **changes: Any) -> JobSpec:
    """A job of one of 50 kinds, with a name and a command of its own."""
    values = {"name": f"{name}-{number}", "command": f"./{name} {number}", "res_req": f"rusage[mem={1 + number % 50}]"}
    return JobSpec(user="", queue="", **(values | changes))


REQUESTS: dict[str, Callable[[], Command]] = {
    "stop": lambda: StopJobs("ann", False, wanted=ALL),
    "resume": lambda: ResumeJobs("ann", False, wanted=ALL),
    "requirement": lambda: Submit("ann", "r", (spec("r", res_req=TERMS),)),
    "bulk": lambda: Submit("ann", "b", tuple(spec("bulk", number) for number in range(10_000))),
    "alike": lambda: Submit("ann", "a", (spec("alike"),) * 10_000),
    "kinds": lambda: Submit(
        "ann", "k", tuple(spec("kinds", res_req=f"select[mem>{n}] rusage[mem={5_000 + n}]") for n in range(2_000))
    ),
    "bottom": lambda: MoveJobsToBottom("ann", False, tuple(range(1_000, 2_000))),
    "modify": lambda: ModifyJobs("ann", False, (), spec("m", run_limit_s=3600), ("run_limit_s",), ALL),
    "kill": lambda: KillJobs("ann", False, wanted=ALL),
}


class Measured:
    """An engine loop with a store in `folder`, whose turns are timed: from one look at who waits to the next."""

    def __init__(self, folder: Path) -> None:
        config = ClusterConfig(
            cluster="c",
            master_host="a",
            hosts={"a": HostConfig(name="a", max_slots=4)},
            queues={"normal": Queue(name="normal", priority=30)},
            locations=Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
        )
        clock = SystemClock()
        self.store = EventLog(folder / "gsched.db")
        engine = Engine(ClusterState(), config, clock.now(), schedule=undisturbed(schedule_in_turns))
        self.loop = EngineLoop(engine, self.store, Board(config), clock, deliver=lambda *_: None, fatal=sys.exit)
        self.turns: list[float] = []
        take, is_alone, begun = self.loop._take, self.loop._is_alone, [0.0]

        def note() -> None:
            self.turns.append((time.thread_time() - begun[0]) * 1000)
            begun[0] = time.thread_time()

        def taken(tick_at: float) -> list[InboxItem]:
            note()
            items = take(tick_at)
            begun[0] = time.thread_time()
            return items

        def looked(batch: Any, tick_at: float) -> bool:
            note()  # whoever has come by now waits for no further turn
            return is_alone(batch, tick_at)

        self.loop._take, self.loop._is_alone = taken, looked  # type: ignore[method-assign]
        self.loop.start()
        settle_in()

    def ask(self, command: Command) -> None:
        """Until it is carried out."""
        answered = threading.Event()
        self.loop.put(InboxItem(command, lambda answer, error: answered.set()))
        answered.wait()


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(Path(folder))
        for start in range(0, args.jobs, BATCH):
            measured.ask(Submit("ann", f"t{start}", tuple(spec("sweep", start + each) for each in range(BATCH))))
        for name in [each for each in args.only.split(",") if each] or list(REQUESTS):
            command = REQUESTS[name]()
            measured.turns.clear()
            start_s = time.perf_counter()
            measured.ask(command)
            took_s, turns = time.perf_counter() - start_s, list(measured.turns)
            longest, half = max(turns, default=0.0), statistics.median(turns or [0.0])
            print(f"{name:<12} {took_s:7.2f} s; longest turn {longest:5.1f} ms of CPU, median {half:5.1f}", flush=True)
            figures |= {f"{name}_s": took_s, f"{name}_longest_ms": longest}
        measured.loop.stop(60)
        measured.store.close()
    report("turns", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
