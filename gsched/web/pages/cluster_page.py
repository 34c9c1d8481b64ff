"""The page "Cluster": hosts with their GPUs as tiles, and the queues."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from gsched.base.coded_text import sentence
from gsched.model.views.view import HostView, QueueView
from gsched.web.pages.page_context import WebContext, packed, show, words_of
from gsched.web.shown.gpu_tiles import GpuTile, counts_of, tiles_of
from gsched.web.shown.json_texts import json_bytes

HOSTS_PER_PAGE = 200
MOST_NOTES = 3
LONGEST_WORD = 200


class HostLine(msgspec.Struct, frozen=True, kw_only=True):
    """A host with its GPUs."""

    view: HostView
    tiles: tuple[GpuTile, ...]
    notes: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Whether it takes jobs."""
        return self.view.status == "ok"

    @property
    def memory_used_percent(self) -> float | None:
        """Of its main memory."""
        free, most = self.view.load.get("mem"), self.view.max_mem_mib
        return None if free is None or not most else 100 * (1 - free / most)

    @property
    def cpu_percent(self) -> float | None:
        """Of its processors, as it told last."""
        used = self.view.load.get("ut")
        return None if used is None else 100 * used


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, as the page has it."""

    view: QueueView
    is_open: bool


def cluster_page(context: WebContext, request: Request) -> Response:
    """Answer `/`."""
    mirror = context.mirror
    text = request.query_params.get("text", "").strip()[:LONGEST_WORD]
    page = request.query_params.get("page", "")
    lines = host_lines(context, [host for host in mirror.hosts if text.casefold() in host.name.casefold()])
    pages = max(1, -(-len(lines) // HOSTS_PER_PAGE))
    shown = min(pages, int(page)) if page.isascii() and page.isdigit() and 0 < len(page) < 6 and int(page) else 1
    tiles = [tile for line in lines for tile in line.tiles]
    values = {
        "table": _table(context, request, text, shown, lines),
        "host_count": len(lines),
        "gpu_count": len(tiles),
        "counts": counts_of(tiles),
        "use": _mean([tile.use for tile in tiles]),
        "queues": [QueueLine(view=queue, is_open=queue.status == "Open:Active") for queue in mirror.queues],
        "summary": mirror.cluster.cycle_summary,
        "text": text,
        "page": shown,
        "pages": pages,
    }
    return show(context, request, "cluster.html", values)


def cluster_curves(context: WebContext, request: Request) -> Response:
    """Answer `/curves`: the load as lines of charts, as those of a job."""
    t, samples = words_of(request), context.mirror.load.samples()
    times = [round(sample.at) for sample in samples]
    lines = [
        {"name": t("load.use"), "times": times, "sm": [sample.use for sample in samples]},
        {"name": t("load.held"), "times": times, "sm": [sample.held for sample in samples]},
        {"name": t("queue.pending"), "times": times, "pending": [sample.pending for sample in samples]},
    ]
    return packed(request, json_bytes({"gpus": lines}), "application/json")


def _table(context: WebContext, request: Request, text: str, page: int, lines: Sequence[HostLine]) -> Markup:
    """The hosts of the page; a large one takes longer to be laid out than all the rest."""
    t = words_of(request)

    def make() -> str:
        hosts = lines[(page - 1) * HOSTS_PER_PAGE : page * HOSTS_PER_PAGE]
        return context.templates.get_template("hosts_table.html").render(t=t, hosts=hosts)

    return context.parts.get((t.language, text, page), context.mirror.version, make)


def host_lines(context: WebContext, hosts: Sequence[HostView]) -> list[HostLine]:
    """The hosts with their GPUs, in the order of the configuration."""
    return [
        HostLine(
            view=host,
            tiles=tuple(tiles_of(host, context.me, context.mirror.user_of)),
            notes=tuple(map(sentence, host.notes[:MOST_NOTES])),
        )
        for host in hosts
    ]


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
