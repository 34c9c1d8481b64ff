"""`gsched sim NODES openb:PODS`: how much of a cluster's GPUs can be given out to tasks that never leave."""

from __future__ import annotations

from dataclasses import replace

import click

from gsched.app.commands.simulation.progress_line import ProgressLine
from gsched.app.commands.simulation.table_files import json_text, rows_of_table, write_tables
from gsched.base.errors import BadRequest
from gsched.sim.openb_fill import ClusterFill, fill_cluster, in_thousandths
from gsched.sim.scenarios import Scenario
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import default_queue
from gsched.sim.workload import read_openb_requests

OPENB = "openb:"


def fill_by_list(
    scenario: Scenario, path: str, seed: int, csv_folder: str | None, *, as_json: bool, progress: bool
) -> None:
    """Fill the scenario's hosts with the tasks of the list and print what comes of it. Raises BadRequest."""
    if not path:
        raise BadRequest(f"{OPENB} without a path: {OPENB}FILE is wanted, a list of OpenB's tasks")
    tasks = read_openb_requests(path)
    if not tasks:
        raise BadRequest(f"{path}: there is no task in it")
    hosts = in_thousandths(scenario.hosts)
    config = simulation_config(scenario.folder, hosts, scenario.settings)
    with ProgressLine(always=progress) as line:
        listed = [replace(task, queue=default_queue(config)) for task in tasks]
        found = fill_cluster(hosts, listed, config, seed, progress=line.show_arrived)
    if csv_folder is not None:
        write_tables(csv_folder, {"fill": found.curve})
    if as_json:
        click.echo(json_text({"fill": found.summary, "curve": rows_of_table(found.curve)}), nl=False)
    else:
        click.echo(_text(found), nl=False)


def _text(found: ClusterFill) -> str:
    counts = (
        ("Hosts", "hosts"),
        ("GPUs", "gpus"),
        ("Tasks of the list", "tasks"),
        ("Arrivals", "arrivals"),
        ("Placed", "placed"),
    )
    shares = (
        ("Allocated when 100 % are asked for", "allocated_at_100_percent"),
        ("Allocated when 130 % are asked for", "allocated_at_130_percent"),
        ("Free and of no use then", "fragments_at_130_percent"),
    )
    lines = [f"{label:<36}{found.summary[key]}\n" for label, key in counts]
    lines += [f"{label:<36}{100 * found.summary[key]:.2f} %\n" for label, key in shares]
    return "".join(lines)
