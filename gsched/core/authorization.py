"""Who may do what: the one place where a user's name becomes a right. It decides; it never acts, nor asks who it is.

Roles: a user (his own jobs); an administrator of a user group (GROUP_ADMIN of lsb.users: controls its members' jobs);
one of a queue (ADMINISTRATORS of lsb.queues: the queue, and controls the jobs in it); one of the cluster
(ClusterAdmins). Who controls a job is still not its owner: what its processes are, and what they read and write, only
the owner says, and the cluster's administrators, whose configuration can say so anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gsched.base.coded_text import CodedText, coded
from gsched.model.config import ALL_HOSTS, ClusterConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import UserGroup
from gsched.model.views.message_boxes import OWN_BOXES

ROOT = "root"
DENIED = "User permission denied"
ROOT_DENIED = "Root may not do this: LSF_ROOT_USER=Y in lsf.conf lets root act as any other user"
ACTS_FOR_OWNER = frozenset(
    {"command", "pre_exec", "post_exec", "login_shell", "specified_cwd", "output_dir", "input_file", "output_file"}
    | {"output_overwrite", "error_file", "error_overwrite", "file_copies", "mail_user", "application"}
    | {"notices", "notice_targets", "service_users"}
)
"""Fields of a job that say what is run, read or written with its owner's rights, and by whom."""


MOST_NAMED = 5
"""Users or hosts that a refusal names."""


class Denial(str):
    """Why somebody may not: an answer that is one is told from other refusals by its type, never by its words."""

    __slots__ = ()


def denied_to_all_but(*may: str) -> Denial:
    """LSF's words, and who may."""
    return Denial(f"{DENIED}: for {', '.join(may[:-1])}{' and ' if len(may) > 1 else ''}{may[-1]}")


def of_cluster(config: ClusterConfig) -> str:
    """The administrators of the cluster, and from where they may: on other hosts they are users like any other."""
    where = ""
    if config.is_shared and ALL_HOSTS not in config.admin_hosts:
        where = f" from {some(config.administration_hosts)}"
    return f"administrators of the cluster ({some(config.administrators)}{where})"


def job_denied(spec: JobSpec, config: ClusterConfig) -> Denial:
    """Why somebody may not control the job."""
    groups = [group for group in config.user_groups.values() if _has(group, spec.user)]
    admins = list(dict.fromkeys(admin for group in groups for admin in group.admins))
    of_groups = [f"administrators of the owner's groups ({some(admins)})"] if admins else []
    return denied_to_all_but(f"its owner ({spec.user})", *of_groups, _of_queue(spec.queue, config), of_cluster(config))


def owner_denied(spec: JobSpec, config: ClusterConfig) -> Denial:
    """Why somebody may not say or see what the job runs with its owner's rights."""
    owner = f"its owner ({spec.user})"
    return denied_to_all_but(owner) if spec.user == ROOT else denied_to_all_but(owner, of_cluster(config))


def box_denied(box: int, spec: JobSpec, config: ClusterConfig) -> Denial:
    """Why somebody may not read what is attached to the message in the box, or post to one of the owner's own."""
    return denied_to_all_but(f"its owner ({spec.user})") if box in OWN_BOXES else job_denied(spec, config)


def queue_denied(name: str, config: ClusterConfig) -> Denial:
    """Why somebody may not control the queue."""
    return denied_to_all_but(_of_queue(name, config), of_cluster(config))


def host_denied(host: str, config: ClusterConfig) -> Denial:
    """Why somebody may not open and close the host."""
    units = [unit for of_type in config.compute_units.values() for unit in of_type.items()]
    names = {name for name, members in (*config.host_groups.items(), *units) if host in members}
    of_groups = [
        f"administrators of host group {name} ({some(admins)})"
        for name, admins in config.host_group_admins.items()
        if name in names
    ]
    return denied_to_all_but(*of_groups[:MOST_NAMED], of_cluster(config))


def queue_closed_to_user(queue: Queue, config: ClusterConfig) -> CodedText:
    """Why a user's jobs do not get into the queue: LSF's words, and who may."""
    may = "others" if queue.users is None else some([user for user in queue.users if user not in queue.excluded_users])
    return coded("refusal.user", queue.name, may, of_cluster(config))


def cluster_denied(config: ClusterConfig) -> Denial:
    """Why somebody may not do what is for administrators of the cluster."""
    return denied_to_all_but(of_cluster(config))


def _has(group: UserGroup, user: str) -> bool:
    return user in group.users or "all" in group.users


def _of_queue(name: str, config: ClusterConfig) -> str:
    queue = config.queues.get(name)
    named = f" ({some(queue.administrators)})" if queue is not None and queue.administrators else ""
    return f"administrators of queue {name}{named}"


def some(names: Sequence[str]) -> str:
    """The first of them, in a refusal."""
    return " ".join([*names[:MOST_NAMED], *(["..."] if len(names) > MOST_NAMED else [])]) or "none"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, proven. `is_admin`: an administrator of the cluster."""

    user: str
    is_admin: bool

    def may_touch(self, spec: JobSpec, config: ClusterConfig) -> bool:
        """Control the job, and see its output: its owner and whoever administers it."""
        return self.user == spec.user or self.administers(spec, config)

    def may_read_box(self, box: int, spec: JobSpec, config: ClusterConfig) -> bool:
        """Read what is attached to the message in that box: who may control the job; of the owner's own he alone."""
        return self.user == spec.user if box in OWN_BOXES else self.may_touch(spec, config)

    def administers(self, spec: JobSpec, config: ClusterConfig) -> bool:
        """Administrators of the cluster, of the job's queue, and of a group that its owner is in (GROUP_ADMIN)."""
        return self.rules_queue(spec.queue, config) or any(
            self.user in group.admins and _has(group, spec.user) for group in config.user_groups.values()
        )

    def rules_queue(self, name: str, config: ClusterConfig) -> bool:
        """Open, close and order the queue: administrators of the cluster and of the queue."""
        queue = config.queues.get(name)
        return self.is_admin or (queue is not None and self.user in queue.administrators)

    def speaks_for(self, spec: JobSpec) -> bool:
        """See the job's script and environment, say what it runs: its owner, and administrators of the cluster. What
        runs as root is root's alone to say.
        """
        return self.user == spec.user or (self.is_admin and spec.user != ROOT)

    def may_change(self, spec: JobSpec, fields: Iterable[str], config: ClusterConfig) -> bool:
        """Give the job other values for these fields of its spec."""
        if not self.may_touch(spec, config):
            return False
        return self.speaks_for(spec) or ACTS_FOR_OWNER.isdisjoint(fields)
