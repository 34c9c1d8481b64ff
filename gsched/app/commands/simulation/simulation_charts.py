"""Charts of simulations, drawn by matplotlib, which `pip install 'gsched[sim]'` brings. Loaded only where one is asked.

It reads tables and gives the contents of files; it writes none and opens no window.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from gsched.sim.job_table import Table
from gsched.sim.simulation import SimulationTables

HOUR_S = 3600.0
_SIZE = (9.0, 4.5)
_FIGURES = (
    ("wait_mean_s", "mean wait in hours", 1 / HOUR_S),
    ("wait_p95_s", "wait, 95 %, in hours", 1 / HOUR_S),
    ("gpu_use", "GPUs in use, %", 100.0),
)


def charts_of(played: Mapping[str, SimulationTables], form: str) -> dict[str, bytes]:
    """File name -> content: GPUs held, jobs that wait, how long jobs waited; a line for each simulation by its name.
    `form`: png or svg.
    """
    over_time = {
        "gpus": _over_time({name: found.series for name, found in played.items()}, "gpus_held", "GPUs held"),
        "waiting": _over_time({name: found.series for name, found in played.items()}, "jobs_waiting", "jobs that wait"),
        "waits": _waits({name: found.jobs for name, found in played.items()}),
    }
    return {f"{name}.{form}": _content(figure, form) for name, figure in over_time.items()}


def sweep_chart(values: Sequence[str], summaries: Sequence[Mapping[str, Any]], title: str, form: str) -> bytes:
    """What the figures come to for each value."""
    figure = Figure(figsize=(_SIZE[0], 8.0), layout="constrained")
    for place, (key, label, factor) in enumerate(_FIGURES):
        axes = figure.add_subplot(len(_FIGURES), 1, place + 1)
        heights = [math.nan if each[key] is None else each[key] * factor for each in summaries]
        axes.plot(range(len(values)), heights, marker="o")
        axes.set_xticks(range(len(values)), values)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    figure.suptitle(_plain(title))
    return _content(figure, form)


def _over_time(series: Mapping[str, Table], column: str, label: str) -> Figure:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    for name, table in series.items():
        axes.step([at / HOUR_S for at in table["time_s"]], table[column], where="post", label=_plain(name), linewidth=1)
    axes.set_xlabel("hours")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    if len(series) > 1:
        axes.legend()
    return figure


def _waits(jobs: Mapping[str, Table]) -> Figure:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    for name, table in jobs.items():
        waits = sorted(wait for wait in table["wait_s"] if wait is not None)
        share = [100 * (place + 1) / len(waits) for place in range(len(waits))]
        axes.step([wait / HOUR_S for wait in waits], share, where="post", label=_plain(name))
    axes.set_xlabel("wait in hours")
    axes.set_ylabel("% of the jobs wait no longer")
    axes.set_ylim(0, 100)
    axes.grid(visible=True, alpha=0.3)
    if len(jobs) > 1:
        axes.legend()
    return figure


def _plain(text: str) -> str:
    """Not as formulas: what stands between two dollar signs is one to matplotlib."""
    return text.replace("$", r"\$")


def _content(figure: Figure, form: str) -> bytes:
    """Equal figures give equal bytes: no date, no random names in an SVG."""
    file = io.BytesIO()
    unsaid: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "gsched"}):
        figure.savefig(file, format=form, metadata=unsaid)
    return file.getvalue()
