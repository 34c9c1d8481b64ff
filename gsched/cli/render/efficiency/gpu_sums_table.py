"""`geff -sum`: what jobs made of their GPUs week by week, by user, project or queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.cli.render.efficiency.amounts import energy, money, percent
from gsched.cli.render.text.text_columns import left, printable
from gsched.model.efficiency.cost import Prices, cost_of
from gsched.model.views.gpu_sums import GpuSums

_SIZES = (11, 16, 6, 11, 11, 11, 6, 11, 11)


def gpu_sum_rows(sums: Iterable[tuple[str, GpuSums]], by: str, prices: Prices) -> Iterator[str]:
    """The heading and a line for each week and name, as they come; then what of it is not known.

    `sums`: with the first day of the week. Hours are those of GPUs.
    """
    heads = ("WEEK", by.upper(), "JOBS", "GPU_HOURS", "KNOWN", "USED", "USED%", "WASTED", "ENERGY")
    head = _line((*heads, *(("COST",) if prices.are_known else ())))
    unseen = unpriced = jobs = 0
    for week, each in sums:
        yield head + _line(_cells(week, each, prices))
        head = ""
        jobs += each.jobs
        unseen, unpriced = unseen + each.jobs - each.seen_jobs, unpriced + each.jobs - each.energy_jobs
    if unseen or unpriced:
        yield f"Of {jobs} job(s) the use of GPUs is unknown of {unseen} and the energy of {unpriced}: not in the sums\n"


def _cells(week: str, sums: GpuSums, prices: Prices) -> tuple[str, ...]:
    energy_j = sums.energy_j if sums.energy_jobs else None
    used = None if not sums.seen_s else 100.0 * sums.busy_s / sums.seen_s
    cost = cost_of(prices, sums.held_s, energy_j).total
    return (
        week,
        printable(sums.name),
        str(sums.jobs),
        _hours(sums.held_s),
        _hours(sums.seen_s),
        _hours(sums.busy_s) if sums.seen_jobs else "-",
        percent(used),
        _hours(max(0.0, sums.seen_s - sums.busy_s)) if sums.seen_jobs else "-",
        energy(energy_j),
        *((money(cost, prices.currency),) if prices.are_known else ()),
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f}"


def _line(cells: tuple[str, ...]) -> str:
    sizes = (*_SIZES, 0)
    return " ".join(left(text, size) for text, size in zip(cells, sizes, strict=False)).rstrip() + "\n"
