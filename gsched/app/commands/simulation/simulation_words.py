"""`gsched sim`: play a workload on a cluster in virtual time, and say what came of it.

Alone, beside the same with a change (--set, --add-hosts), or once for each value of a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import click

from gsched.app.commands.simulation.progress_line import ProgressLine
from gsched.app.commands.simulation.simulation_output import SimulationOutput, print_comparison, print_one, print_sweep
from gsched.base.errors import BadRequest
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import read_cluster
from gsched.sim.history.recorded_history import read_history
from gsched.sim.scenarios import Scenario, changed, play, play_all
from gsched.sim.setting_effects import idle_settings, notes_on
from gsched.sim.workload import Workload, read_workload

MOST_SWEPT = 100
"""Values of a sweep."""


@click.command()
@click.argument("cluster", metavar="CLUSTER")
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@click.option(
    "--history", metavar="STATE", help="In place of WORKLOAD: the state folder of a master, or its gsched.db."
)
@click.option("--config", "folder", metavar="DIR", help="Configuration folder (default: as gsched up writes it).")
@click.option(
    "--set",
    "settings",
    metavar="[FILE:[SECTION.]]KEY=VALUE",
    multiple=True,
    help="A change to compare with: another value, lsb.queues:short.PRIORITY=60 say; no file: lsb.params.",
)
@click.option("--add-hosts", "added", metavar="2x8xH200", multiple=True, help="A change to compare with: more hosts.")
@click.option("--alone", is_flag=True, help="With --set or --add-hosts: play the changed cluster only.")
@click.option(
    "--sweep", metavar="[FILE:[SECTION.]]KEY=VALUE,VALUE...", help="Play once for each value, on all processors."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="For random:JOBS.")
@click.option(
    "--skip-refused", is_flag=True, help="Leave out jobs that the cluster refuses; else they end the command."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, every job too.")
@click.option("--csv", "csv_folder", metavar="DIR", help="Write all tables there.")
@click.option("--charts", "chart_folder", metavar="DIR", help="Draw charts there; needs gsched[sim].")
@click.option("--chart-format", "form", type=click.Choice(["png", "svg"]), default="png", show_default=True)
@click.option("--progress", is_flag=True, help="Say how far it is, also where standard error is no terminal.")
def sim(  # noqa: PLR0913 - the options of a command
    cluster: str,
    workload: str | None,
    history: str | None,
    folder: str | None,
    settings: tuple[str, ...],
    added: tuple[str, ...],
    alone: bool,
    sweep: str | None,
    seed: int,
    skip_refused: bool,
    as_json: bool,
    csv_folder: str | None,
    chart_folder: str | None,
    form: str,
    progress: bool,
) -> None:
    """Play a workload on a cluster in virtual time, with the scheduler of a real one.

    CLUSTER is a file (columns host, count, slots, mem_mib, gpus, gpu_model ..., or OpenB's nodes), or words such as
    4x8xH100,2x0:64: hosts x GPUs x model : slots. WORKLOAD is a file (our own CSV or JSON lines, SWF, what
    sacct --parsable2 prints, OpenB's tasks), or random:JOBS. No cluster is asked and none is changed.

    With --set or --add-hosts both are played, without and with the change, and shown side by side.

    \b
    gsched sim 4x8xH100 random:1000
    gsched sim hosts.csv jobs.swf --set GPU_PLACEMENT=scarce --add-hosts 2x8xH200
    gsched sim hosts.csv --history /var/lib/gsched/state --add-hosts 2x8xH200
    gsched sim hosts.csv jobs.csv --sweep lsb.queues:short.PRIORITY=20,40,60 --charts out
    """
    if chart_folder is not None and find_spec("matplotlib") is None:
        raise BadRequest("--charts needs matplotlib: pip install 'gsched[sim]'")
    hosts = read_cluster(cluster)
    before = Scenario("before", tuple(hosts), folder)
    after = changed(before, [parse_setting(text) for text in settings], added)
    values = [] if sweep is None else swept(after, sweep)
    jobs = work_of(workload, history, seed, [host.gpus for host in hosts])
    output = SimulationOutput(as_json, csv_folder, chart_folder, form)
    idle = said_of_settings((values[0], values[-1]) if values else (after,), jobs)
    with ProgressLine(always=progress) as line:
        if values:
            found = play_all(values, jobs, skip_refused=skip_refused, finished=line.show_finished)
        elif after == before or alone:
            found = [play(after, jobs, skip_refused=skip_refused, progress=line.show)]
        else:
            found = play_all([before, after], jobs, skip_refused=skip_refused, finished=line.show_finished)
    if len(found) == 2 and not (values or added or idle):
        idle = notes_on(after.settings, *found)
    found[-1].notes += idle
    if values:
        print_sweep(output, sweep or "", [scenario.name for scenario in values], found)
    elif len(found) == 1:
        print_one(output, found[0])
    else:
        print_comparison(output, *found)


def said_of_settings(scenarios: Sequence[Scenario], jobs: Workload) -> list[str]:
    """A line for each setting that can matter in none of these, whatever its value is in the others."""
    each = [idle_settings(scenario, jobs) for scenario in scenarios]
    elsewhere = [{(setting.file, setting.section, setting.key, why) for setting, why in idle} for idle in each[1:]]
    return [
        f"--set {setting.text}: {why}"
        for setting, why in each[0]
        if all((setting.file, setting.section, setting.key, why) in other for other in elsewhere)
    ]


def work_of(workload: str | None, history: str | None, seed: int, gpus: Sequence[int]) -> Workload:
    """What is played: a file, made-up jobs, or a recorded history. Raises BadRequest."""
    if (workload is None) == (history is None):
        raise BadRequest("wanted is either a WORKLOAD or --history STATE")
    if workload is None:
        return read_history(history or "")
    return read_workload(workload, seed, sum(gpus), max(gpus))


def swept(base: Scenario, text: str) -> list[Scenario]:
    """One for each value of `[FILE:[SECTION.]]KEY=VALUE,VALUE…`. Raises BadRequest."""
    key, equals, values = text.partition("=")
    names = [value.strip() for value in values.split(",")]
    if not equals or len(names) < 2 or len(names) > MOST_SWEPT or not all(names):
        raise BadRequest(f"--sweep {text!r}: wanted are from 2 to {MOST_SWEPT} values, KEY=VALUE,VALUE say")
    return [Scenario(name, base.hosts, base.folder, (*base.settings, parse_setting(f"{key}={name}"))) for name in names]
