"""What `gsched sim` prints and writes: of one simulation, of two that are compared, of a sweep. It reckons nothing.

Files are written first: where they cannot be, nothing is printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from gsched.app.commands.simulation.table_files import json_text, rows_of_table, write_files, write_tables
from gsched.cli.render.cluster.simulation_report import render_comparison, render_simulation, render_sweep
from gsched.sim.job_table import Table
from gsched.sim.simulation import SimulationTables
from gsched.sim.what_if import user_changes, winners_and_losers


@dataclass(frozen=True, slots=True)
class SimulationOutput:
    """What the options say of it."""

    as_json: bool
    csv_folder: str | None
    chart_folder: str | None
    form: str
    """Of charts: png or svg."""


def print_one(output: SimulationOutput, found: SimulationTables) -> None:
    """A simulation."""
    _write(output, {"": found}, {})
    _say_notes(found.notes)
    if output.as_json:
        click.echo(json_text({"summary": found.summary, "notes": found.notes, **_rows(found)}), nl=False)
    else:
        click.echo(render_simulation(found.summary, {"queue": found.queues, "user": found.users}), nl=False)


def print_comparison(output: SimulationOutput, before: SimulationTables, after: SimulationTables) -> None:
    """Before and after a change, and who wins and loses."""
    changes = user_changes(before, after)
    _write(output, {"before": before, "after": after}, {"changes": changes})
    _say_notes([*before.notes, *(note for note in after.notes if note not in before.notes)])
    if output.as_json:
        each = {
            name: {"summary": found.summary, "notes": found.notes, **_rows(found)}
            for name, found in (("before", before), ("after", after))
        }
        click.echo(json_text({**each, "users": rows_of_table(changes)}), nl=False)
    else:
        text = render_comparison(before.summary, after.summary, changes, *winners_and_losers(changes))
        click.echo(text, nl=False)


def print_sweep(output: SimulationOutput, title: str, names: Sequence[str], found: Sequence[SimulationTables]) -> None:
    """A simulation for each value."""
    summaries = [each.summary for each in found]
    table: Table = {"value": list(names), **{key: [each[key] for each in summaries] for key in summaries[0]}}
    charts: dict[str, str | bytes] = {}
    if output.chart_folder is not None:
        draw = import_module("gsched.app.commands.simulation.simulation_charts")  # loads matplotlib
        charts[f"sweep.{output.form}"] = draw.sweep_chart(names, summaries, title, output.form)
    if output.csv_folder is not None:
        write_tables(output.csv_folder, {"sweep": table})
    if output.chart_folder is not None:
        write_files(output.chart_folder, charts)
    _say_notes(list(dict.fromkeys(note for each in found for note in each.notes)))
    if output.as_json:
        click.echo(json_text({"sweep": rows_of_table(table)}), nl=False)
    else:
        click.echo(render_sweep(title.partition("=")[0], names, summaries), nl=False)


def _write(output: SimulationOutput, found: Mapping[str, SimulationTables], more: Mapping[str, Table]) -> None:
    """The files of these simulations: names begin with theirs."""
    charts: dict[str, bytes] = {}
    if output.chart_folder is not None:
        draw = import_module("gsched.app.commands.simulation.simulation_charts")  # loads matplotlib
        charts = draw.charts_of(found, output.form)
    if output.csv_folder is not None:
        tables = {
            f"{name}-{table}" if name else table: columns
            for name, each in found.items()
            for table, columns in _tables(each).items()
        }
        write_tables(output.csv_folder, {**tables, **more})
    if output.chart_folder is not None:
        write_files(output.chart_folder, charts)


def _tables(found: SimulationTables) -> dict[str, Table]:
    return {"users": found.users, "queues": found.queues, "jobs": found.jobs, "series": found.series}


def _rows(found: SimulationTables) -> dict[str, list[dict[str, Any]]]:
    return {name: rows_of_table(table) for name, table in _tables(found).items()}


def _say_notes(notes: Sequence[str]) -> None:
    """What was not taken as it stands, on standard error."""
    for note in notes:
        click.echo(f"note: {note}", err=True)
