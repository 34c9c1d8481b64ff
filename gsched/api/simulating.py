"""A cluster and its work in virtual time, for Python programs: what `gsched sim` does, as tables. It asks no cluster.

gsched.api does not import it: programs that submit jobs do not wait for the modules of the simulation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gsched.api.values import members, path, text, whole
from gsched.base.errors import BadRequest
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import read_cluster
from gsched.sim.scenarios import Scenario, changed, play
from gsched.sim.simulation import SimulationTables
from gsched.sim.workload import read_workload


def simulate(
    cluster: str | os.PathLike[str],
    workload: str | os.PathLike[str],
    *,
    config: str | os.PathLike[str] | None = None,
    settings: Sequence[str] = (),
    add_hosts: Sequence[str] = (),
    seed: int = 1,
    skip_refused: bool = False,
) -> SimulationTables:
    """Play a workload on a cluster with the scheduler of a real one.

    `cluster`, `workload`, `config` (a configuration folder), `settings` (`lsb.queues:short.PRIORITY=60`), `add_hosts`
    (`2x8xH200`), `seed` and `skip_refused` are as of `gsched sim`. Returns a `summary` and the tables `jobs`, `users`,
    `queues` and `series`, each a dict of columns, as pandas.DataFrame takes it; times are seconds. Raises BadRequest,
    with file and line for what stands in a file, and ConfigError for a configuration that a master would refuse.
    """
    hosts = read_cluster(path("cluster", cluster))
    folder = None if config is None else path("config", config)
    if whole("seed", seed) < 0:
        raise BadRequest(f"seed={seed}: a number from 0 on is wanted")
    before = Scenario("", tuple(hosts), folder)
    changes = [parse_setting(each) for each in _list_of("settings", settings)]
    wanted = changed(before, changes, _list_of("add_hosts", add_hosts))
    gpus = [host.gpus for host in hosts]
    jobs = read_workload(path("workload", workload), seed, sum(gpus), max(gpus))
    return play(wanted, jobs, skip_refused=skip_refused)


def _list_of(name: str, values: Any) -> list[str]:
    return [text(name, each) for each in members(name, values, "a list of texts")]
