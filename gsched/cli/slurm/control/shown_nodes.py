"""scontrol show node, partition, reservation and licenses. Source: scontrol(1) of Slurm 22.05, SHOW COMMAND."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched import __version__
from gsched.base.errors import NotFound
from gsched.base.node_lists import expand_lists, fold_nodes
from gsched.cli.slurm.control.scontrol_call import ScontrolCall, free_text, record
from gsched.cli.slurm.facts.node_facts import (
    CLOSED,
    all_cpus,
    features_of,
    full_state,
    gres_of,
    hosts_of_queue,
    node_state,
    partition_state,
    reason_of_node,
    time_limit,
)
from gsched.cli.slurm.facts.slurm_clock import clock_of, long_duration
from gsched.cli.slurm.facts.tres_texts import shown_size
from gsched.model.views.view import HostView, QueueView


def show_nodes(asked: ScontrolCall) -> int:
    """All nodes, or those of the lists that are given."""
    hosts = [host for host in asked.session.client.hosts() if host.server]
    queues = asked.session.client.queues()
    named = set(expand_lists(asked.words))
    unknown = named - {host.name for host in hosts} - {"ALL"}
    if unknown:
        raise NotFound(f"Node {min(unknown)[:60]} not found")
    for host in hosts:
        if not named or host.name in named or "ALL" in named:
            partitions = [queue.name for queue in queues if host in hosts_of_queue(queue, hosts)]
            record(asked, list(_node(host, partitions)))
    return 0


def _node(host: HostView, partitions: Sequence[str]) -> Iterator[str]:
    cpus, gpus = all_cpus(host), len(host.gpus)
    used_gpus = sum(bool(view.holders) for view in host.gpus)
    memory, held = host.max_mem_mib or 0.0, host.reserved.get("mem", 0.0)
    load = f"{host.load['r1m']:.2f}" if "r1m" in host.load else "N/A"
    free = f"{host.load['mem']:.0f}" if "mem" in host.load else "N/A"
    yield f"NodeName={host.name} Arch={host.type or 'unknown'} CoresPerSocket={cpus}"
    yield f"CPUAlloc={host.njobs} CPUEfctv={cpus} CPUTot={cpus} CPULoad={load}"
    yield f"AvailableFeatures={features_of(host)}"
    yield f"ActiveFeatures={features_of(host)}"
    yield f"Gres={gres_of(host)}"
    yield f"NodeAddr={host.name} NodeHostName={host.name} Version={__version__}"
    system = " ".join(str(host.facts[name]) for name in ("ostype", "osrel", "osver") if name in host.facts)
    if system:
        yield f"OS={system}"
    yield f"RealMemory={memory:.0f} AllocMem={held:.0f} FreeMem={free} Sockets=1 Boards=1"
    yield (
        f"State={full_state(host)} ThreadsPerCore=1 TmpDisk={host.max_tmp_mib or 0:.0f} Weight=1 Owner=N/A "
        "MCS_label=N/A"
    )
    yield f"Partitions={','.join(partitions)}"
    yield f"CfgTRES={_tres(cpus, memory, gpus)}"
    yield f"AllocTRES={_tres(host.njobs, held, used_gpus) if host.njobs else ''}"
    if node_state(host) in CLOSED:
        yield f"Reason={free_text(reason_of_node(host))}" + (f" [{host.closed_by}]" if host.closed_by else "")


def _tres(cpus: int, memory_mib: float, gpus: int) -> str:
    found = [f"cpu={cpus}", *([f"mem={shown_size(memory_mib)}"] if memory_mib else []), f"billing={cpus}"]
    return ",".join([*found, *([f"gres/gpu={gpus}"] if gpus else [])])


def show_partitions(asked: ScontrolCall) -> int:
    """All queues, or those that are named."""
    named = [name for word in asked.words for name in word.split(",") if name]
    queues = asked.session.client.queues()
    unknown = set(named) - {queue.name for queue in queues}
    if unknown:
        raise NotFound(f"Partition {min(unknown)[:60]} not found")
    hosts = asked.session.client.hosts()
    default = asked.session.client.cluster().default_queue.split()
    for queue in queues:
        if not named or queue.name in named:
            mine = hosts_of_queue(queue, hosts)
            record(asked, list(_partition(queue, mine, is_default=queue.name in default[:1])))
    return 0


def _partition(queue: QueueView, hosts: Sequence[HostView], *, is_default: bool) -> Iterator[str]:
    cpus, gpus = sum(map(all_cpus, hosts)), sum(len(host.gpus) for host in hosts)
    memory = sum(host.max_mem_mib or 0.0 for host in hosts)
    preempts = "REQUEUE" if any("PREEMPT" in policy for policy in queue.policies) else "OFF"
    yield f"PartitionName={queue.name}"
    yield "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL"
    yield f"AllocNodes=ALL Default={'YES' if is_default else 'NO'} QoS=N/A"
    yield (
        f"DefaultTime={time_limit(queue.default_run_limit_s, 'NONE')} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 "
        "Hidden=NO"
    )
    yield (
        f"MaxNodes=UNLIMITED MaxTime={time_limit(queue.run_limit_s, 'UNLIMITED')} MinNodes=0 LLN=NO "
        "MaxCPUsPerNode=UNLIMITED"
    )
    yield f"Nodes={fold_nodes(host.name for host in hosts)}"
    yield f"PriorityJobFactor=1 PriorityTier={queue.priority} RootOnly=NO ReqResv=NO OverSubscribe=NO"
    yield f"OverTimeLimit=NONE PreemptMode={preempts}"
    states = {"inact": "INACTIVE"}
    state = partition_state(queue)
    yield f"State={states.get(state, state.upper())} TotalCPUs={cpus} TotalNodes={len(hosts)} SelectTypeParameters=NONE"
    yield "JobDefaults=(null)"
    yield "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
    yield f"TRES={_tres(cpus, memory, gpus).replace(',billing', f',node={len(hosts)},billing')}"


def show_reservations(asked: ScontrolCall) -> int:
    """Advance reservations."""
    found = asked.session.client.reservations(asked.words)
    clock = clock_of(asked.call)
    for each in found:
        lines = [
            f"ReservationName={each.name} StartTime={clock.moment(each.start)} EndTime={clock.moment(each.end)} "
            f"Duration={long_duration(each.end - each.start)}",
            f"Nodes={fold_nodes(each.slots)} NodeCnt={len(each.slots)} CoreCnt={sum(each.slots.values())} "
            "Features=(null) PartitionName=(null) Flags=SPEC_NODES",
            f"TRES=cpu={sum(each.slots.values())}"
            + (f",gres/gpu={sum(each.gpus.values())}" if any(each.gpus.values()) else ""),
            f"Users={','.join(each.users) or '(null)'} Groups=(null) Accounts=(null) Licenses=(null) "
            f"State={'ACTIVE' if each.active else 'INACTIVE'}",
        ]
        record(asked, lines)
    if not found:
        asked.call.write("No reservations in the system\n")
    return 0


def show_licenses(asked: ScontrolCall) -> int:
    """Resources that hosts share and jobs take of."""
    _, shared = asked.session.client.sharing()
    found = [each for each in shared if each.there is not None and (not asked.words or each.name in asked.words)]
    for each in found:
        total, free = each.there or 0.0, each.total if each.total is not None else each.there or 0.0
        record(
            asked,
            [
                f"LicenseName={each.name}",
                f"Total={total:g} Used={max(0.0, total - free):g} Free={free:g} Reserved={each.reserved or 0.0:g} "
                "Remote=no",
            ],
        )
    if not found:
        asked.call.write("No licenses configured in Slurm.\n")
    return 0
