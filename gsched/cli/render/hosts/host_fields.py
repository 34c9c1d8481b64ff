"""The fields of `ghosts -o` and `gqueues -o`: names as in bhosts(1) and bqueues(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gsched.cli.render.cluster.queues import status
from gsched.cli.render.hosts.host_tables import gpu_count
from gsched.cli.render.text.output_formats import Field, FieldTable, FieldValue
from gsched.model.views.view import HostView, QueueView


def _host(value: Callable[[HostView], str | float | None]) -> FieldValue[HostView]:
    return lambda host, _: value(host)


def _limit(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


_EXCLUSIVE = ("ngpus_excl_p", "ngpus_excl_t")
_SHARED = ("ngpus_shared",)


def _reserved(host: HostView, names: Iterable[str]) -> str | None:
    """GPUs that jobs hold; a host that is known to have none has 0, for programs that reckon with it."""
    amounts = [index.reserved for index in host.externals if index.name in names and index.reserved is not None]
    return f"{sum(amounts):g}" if amounts or gpu_count(host) is not None else None


def _left(host: HostView, names: Iterable[str]) -> str | None:
    amounts = [index.total for index in host.externals if index.name in names and index.total is not None]
    return f"{sum(amounts):g}" if amounts or gpu_count(host) is not None else None


HOST_FIELDS: FieldTable[HostView] = FieldTable(
    "-o",
    (
        Field("host_name", 20, _host(lambda host: host.name), ("hname",)),
        Field("status", 15, _host(lambda host: host.status), ("stat",)),
        Field("cpuf", 10, _host(lambda host: f"{host.cpu_factor:.2f}")),
        Field("jl_u", 8, _host(lambda host: _limit(host.user_slots)), ("jl/u", "jlu")),
        Field("max", 8, _host(lambda host: _limit(host.max_slots))),
        Field("njobs", 8, _host(lambda host: str(host.njobs))),
        Field("run", 8, _host(lambda host: str(host.run))),
        Field("ssusp", 8, _host(lambda host: str(host.ssusp))),
        Field("ususp", 8, _host(lambda host: str(host.ususp))),
        Field("rsv", 8, _host(lambda host: str(host.rsv))),
        Field("dispatch_window", 50, _host(lambda host: host.dispatch_window), ("dispwin",)),
        Field("ngpus", 8, _host(lambda host: _limit(gpu_count(host))), ("ng",)),
        Field("ngpus_alloc", 12, _host(lambda host: _reserved(host, (*_EXCLUSIVE, *_SHARED))), ("ngu",)),
        Field("ngpus_excl_alloc", 17, _host(lambda host: _reserved(host, _EXCLUSIVE)), ("ngx",)),
        Field("ngpus_shared_alloc", 19, _host(lambda host: _reserved(host, _SHARED)), ("ngs",)),
        Field("ngpus_shared_jexcl_alloc", 25, _host(lambda host: _reserved(host, ())), ("ngsjx",)),
        Field("ngpus_excl_avail", 17, _host(lambda host: _left(host, _EXCLUSIVE)), ("ngfx",)),
        Field("ngpus_shared_avail", 19, _host(lambda host: _left(host, _SHARED)), ("ngfs",)),
        Field("attribute", 50, _host(lambda host: " ".join(host.resources)), ("attr",)),
        Field("mig_alloc", 10, _host(lambda host: None)),
        Field("comments", 50, _host(lambda host: host.comment)),
        Field("available_mem", 14, _host(lambda host: host.load.get("mem")), sized=True, compact=True),
        Field("reserved_mem", 14, _host(lambda host: host.reserved.get("mem", 0.0)), sized=True, compact=True),
    ),
)


def _queue(value: Callable[[QueueView], str | float | None]) -> FieldValue[QueueView]:
    return lambda queue, _: value(queue)


QUEUE_FIELDS: FieldTable[QueueView] = FieldTable(
    "-o",
    (
        Field("queue_name", 15, _queue(lambda queue: queue.name), ("qname",)),
        Field("description", 50, _queue(lambda queue: queue.description), ("desc",)),
        Field("priority", 10, _queue(lambda queue: str(queue.priority)), ("prio",)),
        Field("status", 12, _queue(status), ("stat",)),
        Field("max", 10, _queue(lambda queue: _limit(queue.job_limit))),
        Field("jl_u", 10, _queue(lambda queue: _limit(queue.user_limit)), ("jlu",)),
        Field("jl_p", 10, _queue(lambda queue: _limit(queue.processor_limit)), ("jlp",)),
        Field("jl_h", 10, _queue(lambda queue: _limit(queue.host_limit)), ("jlh",)),
        Field("njobs", 10, _queue(lambda queue: str(queue.njobs))),
        Field("pend", 10, _queue(lambda queue: str(queue.pend))),
        Field("run", 10, _queue(lambda queue: str(queue.run))),
        Field("susp", 10, _queue(lambda queue: str(queue.ssusp + queue.ususp))),
        Field("rsv", 10, _queue(lambda queue: str(queue.rsv))),
        Field("ususp", 10, _queue(lambda queue: str(queue.ususp))),
        Field("ssusp", 10, _queue(lambda queue: str(queue.ssusp))),
        Field("nice", 6, _queue(lambda queue: str(queue.nice))),
        Field("users", 50, _queue(lambda queue: " ".join(queue.users) or "all")),
        Field("hosts", 50, _queue(lambda queue: " ".join(queue.hosts) or "all")),
        Field("res_req", 20, _queue(lambda queue: queue.res_req)),
    ),
)
