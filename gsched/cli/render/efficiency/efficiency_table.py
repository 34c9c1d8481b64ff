"""`geff` with a line for each job: percentages of what it asked for, and the gravest that is to be said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.coded_text import sentence
from gsched.cli.render.efficiency.amounts import duration, energy, money, percent
from gsched.cli.render.efficiency.judged_job import JudgedJob
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.model.efficiency.cost import Prices

_COLUMNS = (
    *(("JOBID", 9), ("USER", 8), ("STAT", 5), ("QUEUE", 10), ("GPUS", 4), ("GPU%", 5), ("GMEM%", 5), ("CPU%", 5)),
    *(("MEM%", 5), ("TIME%", 5), ("RUN", 9), ("WAIT", 9), ("ENERGY", 9)),
)
_COST = ("COST", 12)
_CUT = frozenset({"USER", "QUEUE"})


def efficiency_rows(jobs: Iterable[JudgedJob], prices: Prices, *, wide: bool) -> Iterator[str]:
    """The heading and a line for each job, as they come; `wide` cuts nothing. Without a price there is no cost."""
    columns = (*_COLUMNS, _COST) if prices.are_known else _COLUMNS
    head = " ".join(left(name, size) for name, size in columns) + " VERDICT\n"
    for job in jobs:
        cells = _cells(job)
        shown = [
            cell(cells[name], size) if name in _CUT and not wide else left(cells[name], size) for name, size in columns
        ]
        yield f"{head}{' '.join(shown)} {sentence(job.said(job.verdicts[0]))}\n"
        head = ""


def _cells(job: JudgedJob) -> dict[str, str]:
    use, spec = job.use, job.view.spec
    return {
        "JOBID": job.label,
        "USER": printable(spec.user),
        "STAT": job.view.state,
        "QUEUE": printable(spec.queue),
        "GPUS": "-" if use is None else str(len(use.asked.gpus)),
        "GPU%": percent(use.gpu_percent if use is not None else None),
        "GMEM%": percent(use.gmem_percent if use is not None else None),
        "CPU%": percent(use.cpu_percent if use is not None else None),
        "MEM%": percent(use.mem_percent if use is not None else None),
        "TIME%": percent(use.time_percent if use is not None else None),
        "RUN": duration(use.run_s if use is not None else None),
        "WAIT": duration(job.waited_s),
        "ENERGY": energy(job.energy_j),
        "COST": money(job.cost.total, job.prices.currency),
    }
