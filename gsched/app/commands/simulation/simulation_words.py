"""`gsched sim`: play a workload on a cluster in virtual time, and say what came of it.

The modules of the simulation are imported when the word is said: they are large.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from gsched.app.commands.simulation.progress_line import ProgressLine
from gsched.app.commands.simulation.table_files import csv_text, json_text, write_files
from gsched.cli.render.cluster.simulation_report import render_simulation
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import read_cluster
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import SimulationTables, run_simulation
from gsched.sim.workload import read_workload


@click.command()
@click.argument("cluster", metavar="CLUSTER")
@click.argument("workload", metavar="WORKLOAD")
@click.option("--config", "folder", metavar="DIR", help="Configuration folder (default: as gsched up writes it).")
@click.option(
    "--set",
    "settings",
    metavar="[FILE:[SECTION.]]KEY=VALUE",
    multiple=True,
    help="Another value than the configuration's, lsb.queues:short.PRIORITY=60 say; lsb.params where no file is named.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="For random:JOBS.")
@click.option(
    "--skip-refused", is_flag=True, help="Leave out jobs that the cluster refuses; else they end the command."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, every job too.")
@click.option("--csv", "csv_folder", metavar="DIR", help="Write jobs.csv, users.csv, queues.csv and series.csv there.")
@click.option("--progress", is_flag=True, help="Say how far it is, also where standard error is no terminal.")
def sim(  # noqa: PLR0913 - the options of a command
    cluster: str,
    workload: str,
    folder: str | None,
    settings: tuple[str, ...],
    seed: int,
    skip_refused: bool,
    as_json: bool,
    csv_folder: str | None,
    progress: bool,
) -> None:
    """Play a workload on a cluster in virtual time, with the scheduler of a real one.

    CLUSTER is a file (columns host, count, slots, mem_mib, gpus, gpu_model ..., or OpenB's nodes), or words such as
    4x8xH100,2x0:64: hosts x GPUs x model : slots. WORKLOAD is a file (our own CSV or JSON lines, SWF, what
    sacct --parsable2 prints, OpenB's tasks), or random:JOBS. No cluster is asked and none is changed.

    \b
    gsched sim 4x8xH100 random:1000
    gsched sim hosts.csv jobs.swf --set GPU_PLACEMENT=scarce --csv out
    """
    wanted = [parse_setting(text) for text in settings]
    hosts = read_cluster(cluster)
    config = simulation_config(folder, hosts, wanted)
    jobs = read_workload(workload, seed, sum(host.gpus for host in hosts))
    with ProgressLine(always=progress) as line:
        found = run_simulation(hosts, jobs, config, skip_refused=skip_refused, progress=line.show)
    if csv_folder is not None:
        write_files(csv_folder, {f"{name}.csv": csv_text(table) for name, table in tables(found).items()})
    say_notes(found.notes)
    if as_json:
        click.echo(json_text(found.summary, tables(found), found.notes), nl=False)
    else:
        groups = {"queue": found.queues, "user": found.users}
        click.echo(render_simulation(found.summary, groups), nl=False)


def tables(found: SimulationTables) -> dict[str, dict[str, list[object]]]:
    """By the names of their files."""
    return {"users": found.users, "queues": found.queues, "jobs": found.jobs, "series": found.series}


def say_notes(notes: Sequence[str]) -> None:
    """What was not taken as it stands, on standard error."""
    for note in notes:
        click.echo(f"note: {note}", file=sys.stderr)
