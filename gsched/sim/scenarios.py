"""Several simulations of one workload: before and after a change, or one for each value of a sweep, on all processors.

Each runs in a process of its own (gsched.sim.scenario_process), so that none waits for another; the results are those
that one process would give.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from gsched.base.errors import BadRequest, GschedError, Internal
from gsched.config.changed_files import Setting
from gsched.sim.cluster_file import SimulatedHost, hosts_of_words
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import Progress, SimulationTables, run_simulation
from gsched.sim.workload import Workload

ScenariosFinished = Callable[[int, int], None]
"""(simulations that are over, all of them)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster under a configuration."""

    name: str
    hosts: tuple[SimulatedHost, ...]
    folder: str | None = None
    """Configuration folder; None: as `gsched up` writes it."""
    settings: tuple[Setting, ...] = ()


def changed(before: Scenario, settings: Sequence[Setting], added: Sequence[str]) -> Scenario:
    """The scenario with the settings and more hosts; the same one where there are none. Raises BadRequest."""
    more: list[SimulatedHost] = []
    if added:
        more = hosts_of_words(",".join(added), "added")
        clash = {host.name for host in more} & {host.name for host in before.hosts}
        if clash:
            raise BadRequest(f"--add-hosts: the cluster has a host {min(clash)} already")
    if not settings and not more:
        return before
    return Scenario("after", (*before.hosts, *more), before.folder, tuple(settings))


def play(
    scenario: Scenario, workload: Workload, *, skip_refused: bool = False, progress: Progress | None = None
) -> SimulationTables:
    """What the workload comes to there. Raises BadRequest as `run_simulation` and `simulation_config` do."""
    config = simulation_config(scenario.folder, scenario.hosts, scenario.settings)
    return run_simulation(scenario.hosts, workload, config, skip_refused=skip_refused, progress=progress)


def play_all(
    scenarios: Sequence[Scenario],
    workload: Workload,
    *,
    skip_refused: bool = False,
    finished: ScenariosFinished | None = None,
) -> list[SimulationTables]:
    """Each of them, in their order. Raises GschedError for one that cannot be played; for a configuration that cannot
    be, before anything is.
    """
    for scenario in scenarios:
        simulation_config(scenario.folder, scenario.hosts, scenario.settings)
    tasks = [pickle.dumps((scenario, workload, skip_refused)) for scenario in scenarios]
    running: list[subprocess.Popen[bytes]] = []
    with ThreadPoolExecutor(min(len(tasks), len(os.sched_getaffinity(0)))) as pool:
        played = [pool.submit(_in_a_process, task, running) for task in tasks]
        try:
            for over, each in enumerate(as_completed(played), 1):
                each.result()
                if finished is not None:
                    finished(over, len(played))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
            raise
    return [each.result() for each in played]


def _in_a_process(task: bytes, running: list[subprocess.Popen[bytes]]) -> SimulationTables:
    words = [sys.executable, "-P", "-m", "gsched.sim.scenario_process"]
    # In a session of its own: Ctrl-C is for the command, which ends it.
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        running.append(process)
        answer, _ = process.communicate(task)
    if process.returncode:
        raise Internal(f"a process of the simulation ended with code {process.returncode}")
    found = pickle.loads(answer)  # of a process that this one has started
    if isinstance(found, GschedError):
        raise found
    assert isinstance(found, SimulationTables)
    return found
