"""Draws the figures of speed.py as one SVG: rates, latencies, growth with jobs, growth with hosts.

Text stays text, so that it can be searched and takes little room, and the same figures give the same file. Needs
matplotlib. Draws what it is given and nothing else: a peer that was not found is not in the picture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

OURS, THEIRS, LIMIT = "#1f6feb", "#8c959f", "#d0d7de"
"""Colours: of gsched, of its peers, of what the machine can do at most."""
LINES = ("#1f6feb", "#bf3989", "#1a7f37")
RATES = {
    "gsched_jobs_per_s": ("gsched", OURS),
    "slurm_jobs_per_s": ("Slurm", THEIRS),
    "hyperqueue_jobs_per_s": ("HyperQueue", THEIRS),
    "task_spooler_jobs_per_s": ("task-spooler", THEIRS),
    "fork_exec_jobs_per_s": ("fork + exec alone", LIMIT),
}
TIMES = {
    "start_ms": ("gsub returned → job runs", OURS),
    "gsub_ms": ("gsub", OURS),
    "slurm_sbatch_ms": ("Slurm's sbatch", THEIRS),
    "gjobs_ms": ("gjobs", OURS),
    "slurm_squeue_ms": ("Slurm's squeue", THEIRS),
    "python_ms": ("python -I -S -c pass", LIMIT),
}
"""Figure -> what it is called in the picture, and its colour."""
BY_JOBS = {
    r"submitted_(\d+)_per_s": "submitted in calls of 1,000",
    r"listed_(\d+)_per_s": "listed by gjobs",
    r"array_(\d+)_per_s": "run as an array",
}
BY_HOSTS = {r"cycle_half_free_(\d+)_ms": "half of the GPUs free", r"cycle_full_(\d+)_ms": "no GPU free"}
"""Names of figures, with the size in them -> what the line is called."""


def draw(figures: Mapping[str, float], path: Path) -> None:
    """Write the picture. Raises OSError."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsched", "font.size": 9.0}):
        picture = Figure(figsize=(10.0, 6.6), layout="constrained")
        FigureCanvasSVG(picture)
        (rates, times), (jobs, hosts) = picture.subplots(2, 2)
        bars(rates, figures, RATES, "Trivial jobs of an array, a second (more is better)")
        bars(times, figures, TIMES, "Milliseconds (less is better)")
        lines(jobs, figures, BY_JOBS, "Jobs a second, by how many there are")
        jobs.set_xlabel("jobs")
        lines(hosts, figures, BY_HOSTS, "Milliseconds of a scheduling cycle, by hosts")
        hosts.set_xlabel("hosts")
        picture.savefig(path, format="svg", metadata={"Date": None, "Creator": "gsched bench/speed.py"})


def bars(axes: Axes, figures: Mapping[str, float], names: Mapping[str, tuple[str, str]], title: str) -> None:
    """A bar for each of these figures that there is, with its value."""
    found = [(label, figures[name], color) for name, (label, color) in names.items() if name in figures]
    axes.set_title(title, loc="left")
    if not found:
        return
    drawn = axes.barh([each[0] for each in found], [each[1] for each in found], color=[each[2] for each in found])
    axes.bar_label(drawn, [_shown(each[1]) for each in found], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    _plain(axes)


def lines(axes: Axes, figures: Mapping[str, float], names: Mapping[str, str], title: str) -> None:
    """A line over the sizes for each kind of figure, both axes logarithmic."""
    axes.set_title(title, loc="left")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    for (pattern, label), color in zip(names.items(), LINES, strict=False):
        points = by_size(figures, pattern)
        if points:
            axes.plot([size for size, _ in points], [value for _, value in points], "o-", label=label, color=color)
            axes.annotate(_shown(points[-1][1]), points[-1], textcoords="offset points", xytext=(4, 4))
    if axes.lines:
        axes.set_ylim(top=axes.get_ylim()[1] * 8)  # room for the names
        axes.legend(frameon=False, loc="upper left")
    axes.margins(x=0.12, y=0.2)
    _plain(axes)


def by_size(figures: Mapping[str, float], pattern: str) -> Sequence[tuple[int, float]]:
    """Size and value of the figures whose names match, the smallest first; a logarithm has no place for 0."""
    found = ((re.fullmatch(pattern, name), value) for name, value in figures.items())
    return sorted((int(match[1]), value) for match, value in found if match is not None and value > 0)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
