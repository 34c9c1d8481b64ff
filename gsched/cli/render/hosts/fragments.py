"""`gadmin frag`: how many GPUs one more job could get on each host, and what holds the others back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gsched.base.units import format_scaled_mib
from gsched.cli.render.text.text_columns import left, printable, width
from gsched.model.views.room_view import FragmentView

_HEADER = ("HOST_NAME", "GPUS", "FREE", "PARTLY", "SLOTS", "MEM", "USABLE", "HELD_BACK_BY")
NO_GPUS = "No host of this cluster has GPUs that are known.\n"


def render_fragments(fragments: Iterable[FragmentView]) -> str:
    """A row per host, those that a large job fits best first; then the sentences that matter."""
    found = sorted(fragments, key=lambda each: (-each.usable, -each.free, each.host))
    if not found:
        return NO_GPUS
    rows = [_HEADER, *(_row(each) for each in found)]
    widths = [max(width(row[column]) for row in rows) for column in range(len(_HEADER))]
    table = "".join("  ".join(_padded(row, widths)).rstrip() + "\n" for row in rows)
    return table + "\n" + "".join(f"{line}\n" for line in _sentences(found))


def _row(each: FragmentView) -> tuple[str, ...]:
    slots = "-" if each.slots_free is None else str(each.slots_free)
    memory = "-" if each.mem_free_mib is None else format_scaled_mib(each.mem_free_mib)
    numbers = (str(each.gpus), str(each.free), str(each.partly_free), slots, memory, str(each.usable))
    return (printable(each.host), *numbers, printable(each.blocked_by) or "-")


def _padded(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    return (left(text, size) for text, size in zip(cells, widths, strict=True))


def _sentences(found: Sequence[FragmentView]) -> Iterator[str]:
    largest = found[0]
    free = sum(each.free for each in found)
    if largest.usable:
        alike = sum(each.usable == largest.usable for each in found)
        where = f"on {printable(largest.host)}" + (f" (and {alike - 1} more like it)" if alike > 1 else "")
        yield f"The largest job on one host that fits now: {_gpus(largest.usable)}, {where}."
    else:
        yield "No job that needs a GPU fits now."
    usable, total = sum(each.usable for each in found), sum(each.gpus for each in found)
    yield f"Over all hosts {_gpus(usable)} could be had now; {free} of {total} are free."
    stranded = sum(each.free for each in found if not each.usable)
    if stranded:
        hosts = [printable(each.host) for each in found if each.free and not each.usable]
        more = f" and {len(hosts) - 5} more" if len(hosts) > 5 else ""
        yield f"Free but out of reach: {_gpus(stranded)}, on {', '.join(hosts[:5])}{more} (see HELD_BACK_BY)."


def _gpus(number: int) -> str:
    return f"{number} GPU" if number == 1 else f"{number} GPUs"
