"""A look as plain text, for where there is no terminal: hosts with their GPUs, then jobs. No colour, no bars."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.cli.render.text.text_columns import printable
from gsched.top.drawing.bars import percent_text
from gsched.top.drawing.gpu_lines import counts_text, who
from gsched.top.drawing.job_list import Choice, chosen, heading, row_line
from gsched.top.drawing.styled_lines import column, text_of
from gsched.top.watching.look import ClusterLook

_COLUMNS = 120


def plain_listing(look: ClusterLook) -> Iterator[str]:
    """Lines without their ends."""
    yield f"{printable(look.cluster)}: {counts_text(look)}"
    yield f"{'HOST':20} {'STATUS':14} {'GPU':>3} {'USE':>4} {'MEM':>4} {'WHOSE':12} JOBS".rstrip()
    for host in look.hosts:
        begin = f"{column(host.name, 20)} {column(host.status, 14)}"
        if not host.gpus:
            yield f"{begin}   -".rstrip()
        for gpu in host.gpus:
            numbers = f"{gpu.index:3d} {percent_text(gpu.use)} {percent_text(gpu.memory_percent)}"
            yield f"{begin} {numbers} {column(who(gpu), 12)} {' '.join(gpu.jobs)}".rstrip()
    yield ""
    yield text_of(heading(_COLUMNS))
    for row in chosen(look, Choice(), look.at):
        yield text_of(row_line(row, _COLUMNS, look.at))
    if look.is_cut:
        yield "... and more"
