"""`gsla` (bsla) and `gresources -g` (bresources): service classes, and the pools that are guaranteed to them.

Source of the layouts: bsla(1), bresources(1) and the administrator's guide of LSF ("Viewing guarantee policy
information"); LOANED is what LSF's text says that -g shows, the place of its column is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.cli.render.text.text_columns import left, printable, right, width
from gsched.model.views.guarantee_view import PoolHost, PoolView, ServiceClassView

NO_POOLS = "No guaranteed resource pool found\n"
NO_CLASSES = "No service class found\n"
_STATES = ("PEND", "RUN", "SSUSP", "USUSP", "FINISH")
_SHORT = ("POOL_NAME", "TYPE", "STATUS", "TOTAL", "FREE", "CONFIG", "USED", "LOANED")
_WRITTEN = ("DISTRIBUTION", "LOAN_POLICIES", "HOSTS", "RES_SELECT", "ADMINISTRATORS")


def amount(value: float) -> str:
    """Units: whole numbers, or two decimals of amounts that are none."""
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def render_classes(classes: Iterable[ServiceClassView], pools: Sequence[PoolView], *, in_slots: bool = False) -> str:
    """Each class with what pools guarantee to it, and its jobs (with `in_slots` their slots) by state."""
    return "\n".join(_class(each, pools, in_slots=in_slots) for each in classes) or NO_CLASSES


def _class(shown: ServiceClassView, pools: Sequence[PoolView], *, in_slots: bool) -> str:
    lines = [
        f"SERVICE CLASS NAME:  {printable(shown.name)}",
        f" -- {printable(shown.description)}",
        f"{'ACCESS CONTROL:':<21}{printable(shown.access) or '-'}",
        f"{'AUTO ATTACH:':<21}{'Y' if shown.auto_attach else 'N'}",
        f"{'GOAL:':<21}GUARANTEE",
    ]
    mine = [(pool, owner) for pool in pools for owner in pool.owners if owner.name == shown.name]
    if mine:
        lines += [
            f"{'':<37} GUARANTEE  GUARANTEE   TOTAL",
            f"{'POOL NAME':<29}{'TYPE':>7}     CONFIG       USED    USED",
        ]
    for pool, owner in mine:
        kind = pool.kind.partition("[")[0]
        numbers = f"{amount(owner.guaranteed):>11}{amount(owner.used_of_guarantee):>11}{amount(owner.used):>8}"
        lines.append(f" {left(printable(pool.name), 24)}{right(kind, 11)}{numbers}")
    counts = shown.slots if in_slots else shown.jobs
    title = "NSLOTS" if in_slots else "NJOBS"
    lines += ["", " ".join(right(name, 6) for name in (title, *_STATES))]
    lines.append(" ".join(right(str(each), 6) for each in (sum(counts.values()), *(counts.get(s, 0) for s in _STATES))))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_pools(pools: Iterable[PoolView]) -> str:
    """-g: a row for each pool."""
    rows = [_SHORT]
    for pool in pools:
        numbers = (pool.total, pool.free, pool.guaranteed, pool.used, pool.lent)
        rows.append((printable(pool.name), printable(pool.kind), pool.status, *map(amount, numbers)))  # type: ignore[arg-type]
    if len(rows) == 1:
        return NO_POOLS
    widths = [max(width(row[column]) for row in rows) for column in range(len(_SHORT))]
    widths[5:7] = (max(widths[5], 10), max(widths[6], 10))
    above = ["", "", "", "", "", "GUARANTEE", "GUARANTEE", ""]
    return "".join(_row(each, widths) for each in (above, *rows))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = [
        left(text, size) if place < 3 else right(text, size)
        for place, (text, size) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(texts).rstrip() + "\n"


def render_pools_long(pools: Iterable[PoolView], *, hosts: bool) -> str:
    """-g -l: each pool with all that is known of it; `hosts`: and each of its hosts (-m)."""
    return "\n".join(_pool(pool, hosts=hosts) for pool in pools) or NO_POOLS


def _pool(pool: PoolView, *, hosts: bool) -> str:
    lines = [f"GUARANTEED RESOURCE POOL: {printable(pool.name)}"]
    lines += [printable(pool.description)] if pool.description else []
    lines += ["", f"TYPE: {printable(pool.kind)}"]
    written = {"HOSTS": "all", **pool.written}
    lines += [f"{key}: {printable(written[key])}" for key in _WRITTEN if key in written]
    lines += ["", f"STATUS: {pool.status}", "", "RESOURCE SUMMARY:"]
    summary = (
        ("TOTAL", pool.total),
        ("FREE", pool.free),
        ("", 0.0),
        ("GUARANTEE CONFIGURED", pool.guaranteed),
        ("GUARANTEE USED", pool.used),
        ("GUARANTEE LOANED", pool.lent),
    )
    lines += [f"  {name:<25}{amount(value):>8}" if name else "" for name, value in summary]
    lines += [
        "",
        f"{'':<30}{'GUAR':>9}{'GUAR':>11}{'TOTAL':>11}",
        f"{'CONSUMERS':<30}{'CONFIG':>9}{'USED':>11}{'USED':>11}",
    ]
    for owner in pool.owners:
        numbers = f"{amount(owner.guaranteed):>9}{amount(owner.used_of_guarantee):>11}{amount(owner.used):>11}"
        lines.append(left(printable(owner.name), 30) + numbers)
    if hosts:
        lines += ["", f"{'HOST':<30}{'TOTAL':>9}{'FREE':>11}  USED BY"]
        lines += [_host(each) for each in pool.hosts]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _host(host: PoolHost) -> str:
    users = ", ".join(f"{printable(name) or 'others'} {amount(units)}" for name, units in sorted(host.used.items()))
    return f"{left(printable(host.name), 30)}{amount(host.total):>9}{amount(host.free):>11}  {users or '-'}"
