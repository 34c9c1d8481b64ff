"""`gsched sim`: play a workload on a cluster in virtual time, and say what came of it; or decide a history once more.

Alone, beside the same with a change (--set, --add-hosts), or once for each value of a sweep.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import click
from click.core import ParameterSource

from gsched.app.commands.simulation.openb_words import OPENB, fill_by_list
from gsched.app.commands.simulation.progress_line import ProgressLine
from gsched.app.commands.simulation.replay_words import replay_history
from gsched.app.commands.simulation.simulation_output import SimulationOutput, print_comparison, print_one, print_sweep
from gsched.app.commands.simulation.table_files import refuse_input
from gsched.base.errors import BadRequest
from gsched.cli.session.time_zone import zone_of
from gsched.config.changed_files import parse_setting
from gsched.dialect.times import parse_moment
from gsched.sim.cluster_file import read_cluster
from gsched.sim.history.recorded_history import read_history
from gsched.sim.scenarios import Scenario, changed, play, play_all
from gsched.sim.setting_effects import idle_settings, notes_on
from gsched.sim.workload import Workload, is_made_up, read_workload

MOST_SWEPT = 100
"""Values of a sweep."""
_OF_SIMULATIONS = (
    *("folder", "settings", "added", "alone", "sweep", "seed", "skip_refused", "csv_folder", "chart_folder", "form"),
)
"""Parameters that nothing is done with where a history is decided again."""
_NOT_OF_FILLS = ("history", "since", "until", "alone", "sweep", "skip_refused", "chart_folder", "form")
"""The same where a list of tasks fills the cluster."""


@click.command()
@click.argument("cluster", metavar="[CLUSTER]", required=False)
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@click.option(
    "--history",
    metavar="STATE",
    help="In place of WORKLOAD: the state folder of a master, or its gsched.db. Without CLUSTER too: decide it again.",
)
@click.option("--from", "since", metavar="TIME", help="Of the history: from then on, '2026-11-20 03:00' say.")
@click.option("--to", "until", metavar="TIME", help="Of the history: until then.")
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
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="For random:JOBS and openb:FILE.")
@click.option(
    "--skip-refused", is_flag=True, help="Leave out jobs that the cluster refuses; else they end the command."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, every job too.")
@click.option("--csv", "csv_folder", metavar="DIR", help="Write all tables there.")
@click.option("--charts", "chart_folder", metavar="DIR", help="Draw charts there; needs gsched[sim].")
@click.option("--chart-format", "form", type=click.Choice(["png", "svg"]), default="png", show_default=True)
@click.option("--progress", is_flag=True, help="Say how far it is, also where standard error is no terminal.")
def sim(  # noqa: PLR0913 - the options of a command
    cluster: str | None,
    workload: str | None,
    history: str | None,
    since: str | None,
    until: str | None,
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
    sacct --parsable2 prints, OpenB's tasks), random:JOBS, or openb:FILE. No cluster is asked and none is changed.

    With openb:FILE the tasks of OpenB's list come by chance and never leave until 130 % of the GPUs were asked for: how
    much of them could be given out is what a placement policy is measured by.

    With --history and no CLUSTER nothing is simulated: each decision of the recorded scheduler is made again, on
    what it knew then and under the configuration of then, and those that come out otherwise are told.

    With --set or --add-hosts both are played, without and with the change, and shown side by side.

    \b
    gsched sim 4x8xH100 random:1000
    gsched sim hosts.csv jobs.swf --set GPU_PLACEMENT=scarce --add-hosts 2x8xH200
    gsched sim hosts.csv --history /var/lib/gsched/state --add-hosts 2x8xH200
    gsched sim --history /var/lib/gsched/state --from '2026-11-20 03:00'
    gsched sim hosts.csv jobs.csv --sweep lsb.queues:short.PRIORITY=20,40,60 --charts out
    """
    span = span_of(since, until, history)
    if cluster is None and history is not None:
        why = "needs a CLUSTER: without one the history is decided again as it was"
        refuse_options(click.get_current_context(), _OF_SIMULATIONS, why)
        replay_history(history, *span, as_json=as_json, progress=progress)
        return
    if cluster is None:
        raise BadRequest("wanted is a CLUSTER, 4x8xH100 say, or --history STATE")
    _refuse_for_inputs(cluster, workload, history, csv_folder)
    before = Scenario("before", tuple(read_cluster(cluster)), folder)
    after = changed(before, [parse_setting(text) for text in settings], added)
    if workload is not None and workload.startswith(OPENB):
        refuse_options(click.get_current_context(), _NOT_OF_FILLS, f"cannot be given with {OPENB}PATH")
        fill_by_list(after, workload.removeprefix(OPENB), seed, csv_folder, as_json=as_json, progress=progress)
        return
    _refuse_idle_options(is_changed=bool(settings or added), sweeps=sweep is not None, draws=chart_folder is not None)
    values = () if sweep is None else tuple(swept(after, sweep))
    jobs = work_of(workload, history, span, seed, [host.gpus for host in before.hosts])
    asked = AskedSimulations(before, after, values, sweep or "", alone, skip_refused)
    simulate_all(asked, jobs, SimulationOutput(as_json, csv_folder, chart_folder, form), progress=progress)


@dataclass(frozen=True, slots=True)
class AskedSimulations:
    """What is to be played."""

    before: Scenario
    after: Scenario
    """The same where there is no change to compare with."""
    values: tuple[Scenario, ...]
    """Of a sweep."""
    sweep: str
    is_alone: bool
    skip_refused: bool


def simulate_all(asked: AskedSimulations, jobs: Workload, output: SimulationOutput, *, progress: bool) -> None:
    """Play the work once, twice or for each value, and print what comes of it. Raises BadRequest."""
    before, after, values = asked.before, asked.after, asked.values
    idle = said_of_settings((values[0], values[-1]) if values else (after,), jobs)
    with ProgressLine(always=progress) as line:
        if values:
            found = play_all(values, jobs, skip_refused=asked.skip_refused, finished=line.show_finished)
        elif after == before or asked.is_alone:
            found = [play(after, jobs, skip_refused=asked.skip_refused, progress=line.show)]
        else:
            found = play_all([before, after], jobs, skip_refused=asked.skip_refused, finished=line.show_finished)
    if len(found) == 2 and not (values or idle) and after.hosts == before.hosts:
        idle = notes_on(after.settings, *found)
    found[-1].notes += idle
    if values:
        print_sweep(output, asked.sweep, [scenario.name for scenario in values], found)
    elif len(found) == 1:
        print_one(output, found[0])
    else:
        print_comparison(output, *found)


def said_of_settings(scenarios: Sequence[Scenario], jobs: Workload) -> list[str]:
    """A line for each setting that can matter in none of these, whatever its value is in the others."""
    each = [idle_settings(scenario, jobs) for scenario in scenarios]
    elsewhere = [{(setting.file, setting.section, setting.key, why) for setting, why in idle} for idle in each[1:]]
    return [
        f"{setting.words}: {why}"
        for setting, why in each[0]
        if all((setting.file, setting.section, setting.key, why) in other for other in elsewhere)
    ]


def span_of(since: str | None, until: str | None, history: str | None) -> tuple[float | None, float | None]:
    """UTC seconds of --from and --to; None: open. Raises BadRequest."""
    if history is None and (since is not None or until is not None):
        raise BadRequest("--from and --to are of a history: --history STATE")
    now, zone = time.time(), zone_of(os.environ)
    first, last = (None if text is None else parse_moment(text, now, zone) for text in (since, until))
    if first is not None and last is not None and last < first:
        raise BadRequest(f"--to {until} is before --from {since}")
    return first, last


def refuse_options(context: click.Context, names: Sequence[str], why: str) -> None:
    """Raises BadRequest for one of these parameters that was given."""
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(each for each in context.command.params if each.name == name)
            raise BadRequest(f"{option.opts[0]} {why}")


def _refuse_for_inputs(cluster: str, workload: str | None, history: str | None, csv_folder: str | None) -> None:
    """Raises BadRequest for a --seed where nothing is left to chance, and tables in the place of what is read."""
    source = workload or history
    if source and not (source == workload and (source.startswith(OPENB) or is_made_up(source))):
        why = f"has no effect on {source}: random:JOBS and openb:FILE alone are left to chance"
        refuse_options(click.get_current_context(), ("seed",), why)
    refuse_input(csv_folder, [cluster, (workload or "").removeprefix(OPENB)])


def _refuse_idle_options(*, is_changed: bool, sweeps: bool, draws: bool) -> None:
    """Raises BadRequest for an option that nothing can come of."""
    context = click.get_current_context()
    if sweeps:
        refuse_options(context, ("alone",), "cannot be given with --sweep")
    if not is_changed:
        refuse_options(context, ("alone",), "needs --set or --add-hosts")
    if not draws:
        refuse_options(context, ("form",), "needs --charts")
    elif find_spec("matplotlib") is None:
        raise BadRequest("--charts needs matplotlib: pip install 'gsched[sim]'")


def work_of(
    workload: str | None, history: str | None, span: tuple[float | None, float | None], seed: int, gpus: Sequence[int]
) -> Workload:
    """What is played: a file, made-up jobs, or a recorded history. Raises BadRequest."""
    if (workload is None) == (history is None):
        raise BadRequest("wanted is either a WORKLOAD or --history STATE")
    if workload is None:
        return read_history(history or "", *span)
    return read_workload(workload, seed, sum(gpus), max(gpus))


def swept(base: Scenario, text: str) -> list[Scenario]:
    """One for each value of `[FILE:[SECTION.]]KEY=VALUE,VALUE…`. Raises BadRequest."""
    key, equals, values = text.partition("=")
    names = [value.strip() for value in values.split(",")]
    if not equals or len(names) < 2 or len(names) > MOST_SWEPT or not all(names):
        raise BadRequest(f"--sweep {text!r}: wanted are from 2 to {MOST_SWEPT} values, KEY=VALUE,VALUE say")
    return [
        Scenario(name, base.hosts, base.folder, (*base.settings, parse_setting(f"{key}={name}", "--sweep")))
        for name in names
    ]
