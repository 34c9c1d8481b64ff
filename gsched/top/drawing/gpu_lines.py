"""Hosts with their GPUs as bars: a line for each host, below it as many GPUs beside each other as there is room for."""

from __future__ import annotations

from gsched.cli.render.text.text_columns import printable
from gsched.top.drawing.bars import bar, percent_text
from gsched.top.drawing.styled_lines import Line, Piece, column, line
from gsched.top.watching.look import ClusterLook, GpuLook, HostLook, Whose

STYLES = {
    Whose.FREE: "green",
    Whose.MINE: "bold cyan",
    Whose.OTHERS: "yellow",
    Whose.CLOSED: "dim",
    Whose.FAILED: "bold red",
    Whose.FOREIGN: "magenta",
    Whose.BARRED: "dim",
}
CELL = 38
_BAR, _WHO = 8, 9


def gpu_lines(look: ClusterLook, columns: int) -> list[Line]:
    """All hosts in so many columns."""
    found: list[Line] = []
    for host in look.hosts:
        found.append(_heading(host))
        beside = max(1, columns // (CELL + 1))
        for start in range(0, len(host.gpus), beside):
            found.append(tuple(piece for gpu in host.gpus[start : start + beside] for piece in _cell(gpu)))
    return found


def counts_text(look: ClusterLook) -> str:
    """`GPUs: 3 free, 1 mine`; those of which there are some."""
    kinds = [gpu.whose for host in look.hosts for gpu in host.gpus]
    counts = [f"{kinds.count(kind)} {kind}" for kind in Whose if kind in kinds]
    return "GPUs: " + (", ".join(counts) or "none")


def who(gpu: GpuLook) -> str:
    """Whose it is in a word: of others' the user."""
    if gpu.whose is Whose.OTHERS and gpu.users:
        return gpu.users[0] if len(gpu.users) == 1 else f"{len(gpu.users)} users"
    return str(gpu.whose)


def _heading(host: HostLook) -> Line:
    slots = "-" if host.max_slots is None else str(host.max_slots)
    is_fine = host.status == "ok" or host.status.startswith("closed_Full")
    told = f"  {host.njobs}/{slots} slots" + ("" if host.gpus else ", no GPUs")
    return line(
        Piece(printable(host.name), "bold"),
        "  ",
        Piece(printable(host.status), "" if is_fine else "bold red"),
        Piece(told, "dim"),
    )


def _cell(gpu: GpuLook) -> Line:
    style, memory = STYLES[gpu.whose], gpu.memory_percent
    return line(
        f"{gpu.index:2d} ",
        Piece(bar(gpu.use, _BAR), style),
        f"{percent_text(gpu.use)} ",
        Piece(bar(memory, _BAR), style),
        f"{percent_text(memory)} ",
        Piece(column(who(gpu), _WHO), style),
        " ",
    )
