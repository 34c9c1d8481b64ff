"""Answers about jobs, hosts and queues, made of a board: the same for the board of now and for one of the past."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gsched import __version__
from gsched.base.errors import BadRequest, NotFound
from gsched.master.views.board import Board
from gsched.master.views.host_choice import admitted
from gsched.master.views.queue_views import queue_views
from gsched.master.views.shared_resource_views import shared_views, with_shared
from gsched.master.views.withheld_slots import queues_with_kept_slots, with_kept_slots
from gsched.model.config import ClusterConfig
from gsched.model.queues.window import minute_of_week
from gsched.model.views.view import ClusterView, HostView, JobFilter, ShareView
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import scheduler_pb2


def check_filter(wanted: JobFilter, board: Board) -> None:
    """Raises BadRequest for a queue or host that there is none."""
    if wanted.queue and wanted.queue not in board.config.queues:
        raise BadRequest(f"{wanted.queue}: No such queue")
    if wanted.host and wanted.host not in board.config.hosts:
        raise BadRequest(f"{wanted.host}: Bad host name, host group name or cluster name")


def hosts_reply(board: Board, request: Any, annotated: Callable[[HostView], HostView]) -> scheduler_pb2.HostsReply:
    """The hosts that a HostsRequest asks for. Raises NotFound, BadRequest."""
    hosts = {host.name: host for host in with_kept_slots(board.hosts(), board.shared.planned)}
    config, names = board.config, list(request.names) or list(hosts)
    shared = shared_views(config, hosts) if config.shared else {}
    if shared:
        hosts = {name: with_shared(view, config, shared) for name, view in hosts.items()}
    members = [host for name in names for host in config.host_groups.get(name, (name,))]
    for name in members:
        if name not in hosts:
            raise NotFound(f"{name}: Bad host name, host group name or cluster name")
    chosen = [hosts[name] for name in dict.fromkeys(members)]
    if request.requirement:
        chosen = admitted(chosen, request.requirement, config)
    reply = scheduler_pb2.HostsReply()
    for each in shared.values():
        fill(reply.shared.add(), each)
    for view in chosen:
        told = annotated(view)
        brief = told if request.topology else msgspec.structs.replace(told, topology=None, cpu_jobs={})
        fill(reply.hosts.add(), brief)
    return reply


def queues_reply(
    board: Board, names: Iterable[str], shares: Mapping[str, Sequence[ShareView]], now: float
) -> scheduler_pb2.QueuesReply:
    """All queues, or the named ones. Raises NotFound."""
    arrays, jobs = board.open_jobs()
    queues = queue_views(
        board.config,
        board.shared.queue_states,
        arrays,
        jobs,
        shares,
        minute_of_week(now),
        board.shared.gpu_hosts,
    )
    queues = queues_with_kept_slots(queues, board.hosts(), board.shared.planned)
    known, wanted = {queue.name for queue in queues}, list(names)
    for name in wanted:
        if name not in known:
            raise NotFound(f"{name}: No such queue")
    reply = scheduler_pb2.QueuesReply()
    for queue in queues:
        if not wanted or queue.name in wanted:
            fill(reply.queues.add(), queue)
    return reply


def cluster_view(config: ClusterConfig, **more: Any) -> ClusterView:
    """What a configuration tells of the cluster; `more`: fields of the moment."""
    return ClusterView(
        cluster=config.cluster,
        master_host=config.master_host,
        version=__version__,
        default_queue=" ".join(config.params.default_queues),
        external_resources=tuple(name for name in config.resources if config.mapped.get(name)),
        administrators=config.administrators,
        **more,
    )
