"""What administrators do to hosts and queues, and anybody to job groups. Texts are LSF's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.authorization import (
    Caller,
    cluster_denied,
    denied_to_all_but,
    host_denied,
    of_cluster,
    queue_denied,
    some,
)
from gsched.core.command import ControlGroups, ControlHosts, ControlQueues, NoteArchiving
from gsched.core.decision import Decision
from gsched.core.records.entities import QueueState
from gsched.core.records.job_groups import groups_above
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    HistoryArchived,
    HostClosed,
    HostOpened,
    JobGroupMade,
    JobGroupRemoved,
    QueueControlled,
)
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import Answer

MOST_GROUPS = 1_000
"""Of one user; LSF knows no limit."""
MAX_GROUP = 512
"""Characters of a job group's path, as in LSF."""
_QUEUE_WORDS = {"open": "opened", "close": "closed", "activate": "activated", "inactivate": "inactivated"}


def control_hosts(command: ControlHosts, decision: Decision) -> None:
    """Reply: the hosts that were named."""
    config = decision.config
    ruled = hosts_ruled_by(command.user, config)
    if not command.is_admin and not ruled:
        host = next((name for name in command.hosts if name in config.hosts), "")
        raise PermissionDenied(f"{host}: {host_denied(host, config)}" if host else cluster_denied(config))
    if command.action not in ("open", "close"):
        raise BadRequest(f"'{command.action}' is not something that can be done to a host")
    hosts = hosts_named(command.hosts, config)
    strange = next((host for host in hosts if host not in ruled), "")
    if strange and not command.is_admin:
        raise PermissionDenied(f"{strange}: {host_denied(strange, config)}")
    for host in hosts:
        if command.action == "close":
            decision.record(HostClosed(at=decision.now, host=host, by=command.user, comment=command.comment))
        elif host in decision.state.closed_hosts:
            decision.observed(host).exits.clear()
            decision.record(HostOpened(at=decision.now, host=host, by=command.user))
        decision.state.touched_hosts.add(host)
    decision.reply = list(hosts)


def hosts_ruled_by(user: str, config: ClusterConfig) -> set[str]:
    """The hosts of groups and compute units of which the user is an administrator (GROUP_ADMIN, ADMIN)."""
    names = [name for name, admins in config.host_group_admins.items() if user in admins]
    return set(hosts_named(names, config))


def hosts_named(names: Iterable[str], config: ClusterConfig) -> list[str]:
    """The hosts that these names of hosts, host groups and compute units stand for, each once. Raises BadRequest."""
    units = {name: hosts for of_type in config.compute_units.values() for name, hosts in of_type.items()}
    found: dict[str, None] = {}
    for name in names:
        members = config.host_groups.get(name) or units.get(name)
        if members is None and name not in config.hosts:
            raise BadRequest(f"{name}: Bad host name, host group name or cluster name")
        found |= dict.fromkeys((name,) if members is None else members)
    return list(found)


def control_queues(command: ControlQueues, decision: Decision) -> None:
    """Reply: an Answer for each queue. `all` means every queue."""
    config = decision.config
    if command.action not in _QUEUE_WORDS:
        raise BadRequest(f"'{command.action}' is not something that can be done to a queue")
    names = tuple(config.queues) if command.queues == ("all",) else command.queues
    for name in names:
        if name not in config.queues:
            raise BadRequest(f"{name}: No such queue")
        if not Caller(command.user, command.is_admin).rules_queue(name, config):
            raise PermissionDenied(f"{name}: {queue_denied(name, config)}")
    for name in names:
        now_is = decision.state.queue_states.get(name, QueueState())
        is_open = now_is.is_open if command.action in ("activate", "inactivate") else command.action == "open"
        is_active = now_is.is_active if command.action in ("open", "close") else command.action == "activate"
        decision.record(
            QueueControlled(
                at=decision.now,
                queue=name,
                by=command.user,
                is_open=is_open,
                is_active=is_active,
                comment=command.comment,
                action=command.action,
            )
        )
    decision.reply = [Answer(name=name, text=f"Queue <{name}> is {_QUEUE_WORDS[command.action]}") for name in names]


def note_archiving(command: NoteArchiving, decision: Decision) -> None:
    """Record who takes jobs of which part of an archive out of the store."""
    decision.record(HistoryArchived(at=decision.now, by=command.user, part=command.part))


def group_path(text: str) -> str:
    """The path of a job group in its one form. Raises BadRequest."""
    parts = text.split("/")
    if not text.startswith("/") or len(text) > MAX_GROUP or any(part != part.strip() for part in parts):
        raise BadRequest(f"{text[:60]}: Bad job group name: it begins with / and has at most {MAX_GROUP} characters")
    path = "/" + "/".join(part for part in parts if part)
    if path == "/" or any(part in (".", "..") or "%" in part for part in parts):
        raise BadRequest(f"{text[:60]}: Bad job group name")
    return path


def control_groups(command: ControlGroups, decision: Decision) -> None:
    """Reply: an Answer for each group."""
    own = Counter(each.made_by for each in decision.state.groups.values())
    acts: dict[str, Callable[[ControlGroups, str, Decision], str]]
    acts = {"add": partial(_add_group, own=own), "modify": _modify_group, "remove": _remove_group}
    if command.action not in acts:
        raise BadRequest(f"'{command.action}' is not something that can be done to a job group")
    if len(command.groups) > MOST_GROUPS:
        raise BadRequest(f"Bad argument: {len(command.groups)} job groups at once, {MOST_GROUPS} are the most")
    if command.job_limit < -1:
        raise BadRequest(f"Bad argument: a job limit of {command.job_limit}")
    decision.reply = []
    for path in [group_path(text) for text in command.groups]:
        error = acts[command.action](command, path, decision)
        words = {"add": "is added", "modify": "is modified", "remove": "is deleted"}
        decision.reply.append(Answer(name=path, text=f"Job group {path} {words[command.action]}.", error=error))


def _add_group(command: ControlGroups, path: str, decision: Decision, *, own: Counter[str]) -> str:
    """`own`: how many groups each user has made."""
    group = decision.state.groups.get(path)
    if group is not None and group.made_by:
        return "The group already exists"
    if not command.is_admin and own[command.user] >= MOST_GROUPS:
        return f"{MOST_GROUPS} job groups of {command.user} are the most"
    own[command.user] += sum(each == path or each not in decision.state.groups for each in groups_above(path))
    _make_group(command, path, decision)
    return ""


def _make_group(command: ControlGroups, path: str, decision: Decision) -> None:
    limit = command.job_limit if command.job_limit >= 0 else None
    decision.record(JobGroupMade(at=decision.now, group=path, by=command.user, job_limit=limit))


def _may(state: ClusterState, config: ClusterConfig, command: ControlGroups, path: str) -> str:
    """Empty, or why the group is not the caller's to change."""
    group = state.groups.get(path)
    if group is None:
        return "No such job group"
    owners = {state.groups[each].owner for each in groups_above(path) if each in state.groups} | {group.owner}
    if command.is_admin or command.user in owners or not group.owner:
        return ""
    above = sorted(owners - {group.owner, ""})
    of_above = [f"owners of groups above it ({some(above)})"] if above else []
    return denied_to_all_but(f"its owner ({group.owner})", *of_above, of_cluster(config))


def _modify_group(command: ControlGroups, path: str, decision: Decision) -> str:
    error = _may(decision.state, decision.config, command, path)
    if not error:
        _make_group(command, path, decision)
    return error


def _has_unfinished(state: ClusterState, path: str) -> bool:
    jobs = (job for job in state.jobs.values() if job.spec.group == path)
    arrays = (array for array in state.arrays.values() if array.spec.group == path)
    return any(job.state not in FINISHED for job in jobs) or any(not array.is_over() for array in arrays)


def _remove_group(command: ControlGroups, path: str, decision: Decision) -> str:
    state = decision.state
    error = _may(state, decision.config, command, path)
    if error:
        return error
    below = sorted((each for each in state.groups if each.startswith(path + "/")), reverse=True)  # the deepest first
    for each in (*below, path):
        if each in state.group_members and _has_unfinished(state, each):
            return "The group has jobs in it" if each == path else f"The group {each} in it has jobs"
    for each in (*below, path):
        decision.record(JobGroupRemoved(at=decision.now, group=each, by=command.user))
    return ""
