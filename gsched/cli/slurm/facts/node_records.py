"""sinfo --json: groups of nodes as Slurm's data_parser lays them out (component `sinfo`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.base.node_lists import fold_nodes
from gsched.cli.slurm.facts.node_facts import (
    all_cpus,
    cpu_counts,
    features_of,
    gres_of,
    gres_used,
    node_counts,
    partition_state,
    reason_of_node,
)
from gsched.cli.slurm.facts.slurm_json import json_answer, number
from gsched.cli.slurm.node_columns import NodeGroup


def node_pieces(rows: Iterable[NodeGroup], cluster: str) -> Iterator[str]:
    """The answer, piece by piece."""
    return json_answer("sinfo", map(_record, rows), cluster, "openapi/slurmctld")


def _record(row: NodeGroup) -> dict[str, Any]:
    queue, hosts = row.queue, row.hosts
    limit = queue.run_limit_s
    return {
        "node": {"state": [row.state.upper()]},
        "nodes": {
            **_counts(node_counts(hosts)),
            "nodes": [host.name for host in hosts],
            "hostnames": [host.name for host in hosts],
            "addresses": [host.name for host in hosts],
        },
        "cpus": {
            **_counts(cpu_counts(hosts)),
            **_least_most([all_cpus(host) for host in hosts]),
        },
        "memory": {
            **_least_most([int(host.max_mem_mib or 0) for host in hosts]),
            "allocated": int(sum(host.reserved.get("mem", 0.0) for host in hosts)),
        },
        "gres": {
            "total": ",".join(dict.fromkeys(map(gres_of, hosts))),
            "used": ",".join(dict.fromkeys(map(gres_used, hosts))),
        },
        "features": {"total": ",".join(dict.fromkeys(map(features_of, hosts)))},
        "cluster": row.cluster,
        "reason": {"description": ",".join(dict.fromkeys(map(reason_of_node, hosts)))},
        "partition": {
            "name": queue.name,
            "nodes": {"configured": fold_nodes(host.name for host in hosts), "total": len(hosts)},
            "maximums": {"time": number(None if limit is None else limit / 60, is_infinite=limit is None)},
            "partition": {"state": [partition_state(queue).upper()]},
            "priority": {"tier": queue.priority},
        },
    }


def _counts(text: str) -> dict[str, int]:
    return dict(zip(("allocated", "idle", "other", "total"), map(int, text.split("/")), strict=True))


def _least_most(values: list[int]) -> dict[str, int]:
    return {"minimum": min(values, default=0), "maximum": max(values, default=0)}
