"""Fairshare: share trees of queues and the dynamic priority of whoever stands in them.

It says how much each user deserves to be next and never who may run: limits, places and reservations are others'
business. Source of the formula: LSF's fairshare scheduling, "dynamic user priority"; of the trees: lsb.queues(5),
FAIRSHARE, and lsb.users(5), USER_SHARES.

    ShareTree(queue, use, factors, groups, group_shares)
        .leaf(user, user_group) -> ShareNode     where the user's jobs are charged
        .placed(leaf, slots, gpus)               a job of his was given a place in this cycle
        .rows() -> list[ShareView]               the tables of gqueues -l and -r
    tree_of(snapshot, queue) -> ShareTree
    serving_priority(queues, name) -> int        when the turn of a queue comes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.scheduling.snapshot import FairshareUse, Snapshot
from gsched.model.views.view import ShareView

HOUR_S = 3600.0
LEAST_LOAD = 0.0001
"""What the shares are divided by when all factors are so small that next to nothing counts; less than what one slot
counts by default where hosts have GPUs.
"""
_EQUAL = (Share("default", 1),)
DEFAULT, OTHERS = "default", "others"
EVERYBODY = "all"


def queue_priority(queues: Mapping[str, Queue], name: str) -> int:
    """PRIORITY of the queue; 0 where it no longer exists."""
    return queues[name].priority if name in queues else 0


def serving_priority(queues: Mapping[str, Queue], name: str) -> int:
    """The priority at which jobs of the queue are come to: PRIORITY. Queues of one share tree without DISPATCH_ORDER
    are come to together, at the largest of theirs: users have one priority across them.
    """
    queue = queues.get(name)
    if queue is None or not queue.share_queues or queue.serves_queues_in_order:
        return queue_priority(queues, name)
    return max(queue_priority(queues, each) for each in queue.share_queues)


def member_name(user: str, user_group: str) -> str:
    """Under what name use is kept: the user's, or `group/user` for jobs charged to a group (-G)."""
    return f"{user_group}/{user}" if user_group else user


class ShareNode:
    """A user or a group in a share tree with the use of everybody below it."""

    __slots__ = (
        *("adjust", "children", "gpus", "is_group", "jobs", "load", "name", "parent", "reserved", "shares", "slots"),
        *("use", "weight", "weighs_jobs"),
    )

    def __init__(self, name: str, shares: int, parent: ShareNode | None, weight: float, *, is_group: bool) -> None:
        self.name = name
        self.shares = shares
        self.parent = parent
        self.is_group = is_group
        self.children: dict[str, ShareNode] = {}
        self.weight = weight
        """RUN_JOB_FACTOR."""
        self.weighs_jobs: bool = parent is not None and parent.weighs_jobs
        """FAIRSHARE_JOB_COUNT."""
        self.load = 0.0
        """Everything of the formula but the slots."""
        self.slots = 0
        self.jobs = 0
        self.reserved = 0
        """Slots that are free and kept for pending jobs; they do not count in the priority."""
        self.gpus = 0
        self.adjust = 0.0
        self.use = FairshareUse()

    @property
    def priority(self) -> float:
        """The dynamic priority; the larger, the sooner served."""
        held = self.jobs if self.weighs_jobs else self.slots
        return self.shares / max(self.load + (1 + held) * self.weight, LEAST_LOAD)

    def __repr__(self) -> str:
        return f"ShareNode({self.name}, shares={self.shares}, slots={self.slots}, load={self.load:g})"


class ShareTree:
    """The tree of one queue. `use`: member (see `member_name`) -> what he has used; `groups`: user group -> users."""

    def __init__(
        self,
        queue: Queue,
        use: Mapping[str, FairshareUse],
        factors: FairshareFactors,
        groups: Mapping[str, tuple[str, ...]] | None = None,
        group_shares: Mapping[str, tuple[Share, ...]] | None = None,
    ) -> None:
        self._queue = queue.name
        self._factors = factors
        self._groups = {name: frozenset(users) for name, users in (groups or {}).items()}
        self._group_shares = group_shares or {}
        self._leaves: dict[tuple[str, str], ShareNode] = {}
        self._levels: dict[ShareNode, tuple[Share, ...]] = {}
        self.root = ShareNode("", 1, None, factors.run_job, is_group=True)
        self.root.weighs_jobs = factors.job_count
        self._divide(self.root, queue.fairshare or _EQUAL, ())
        for member, used in use.items():
            user_group, _, user = member.rpartition("/")
            self._charge(self.leaf(user, user_group), used)

    def leaf(self, user: str, user_group: str = "") -> ShareNode:
        """The user's place: below the group that -G names if it stands in the tree, else where the shares put him.

        A user whom no share names has none: he is served when nobody with a share waits.
        """
        key = (user, user_group)
        leaf = self._leaves.get(key)
        if leaf is None:
            group = self._group_node(self.root, user_group) if user_group else None
            leaf = self._leaves[key] = self._find(group or self.root, user)
        return leaf

    def path(self, user: str, user_group: str = "") -> str:
        """`/GROUP/USER`: the user's place below the queue."""
        names: list[str] = []
        node: ShareNode | None = self.leaf(user, user_group)
        while node is not None and node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(names))

    def placed(self, leaf: ShareNode, slots: int, gpus: int = 0) -> None:
        """A job that holds so many slots counts from now on."""
        node: ShareNode | None = leaf
        while node is not None:
            node.slots += slots
            node.jobs += 1
            node.gpus += gpus
            node = node.parent

    def keep(self, leaf: ShareNode, slots: int) -> None:
        """So many free slots are kept for a pending job of his."""
        node: ShareNode | None = leaf
        while node is not None:
            node.reserved += slots
            node = node.parent

    def rows(self) -> list[ShareView]:
        """All levels, top first; within a level by priority, then by name. The first level's path is `QUEUE/`."""
        return list(self._rows(self.root, f"{self._queue}/"))

    def _rows(self, node: ShareNode, path: str) -> Iterator[ShareView]:
        children = sorted(node.children.values(), key=lambda child: (-child.priority, child.name))
        yield from (self._row(child, path) for child in children)
        for child in children:
            if child.is_group:
                yield from self._rows(child, f"{path}{child.name}/")

    def row_of(self, node: ShareNode) -> ShareView:
        """The row of a user or group of this tree."""
        names, above = [], node.parent
        while above is not None and above.parent is not None:
            names.append(above.name)
            above = above.parent
        return self._row(node, "/".join([self._queue, *reversed(names), ""]))

    def _row(self, node: ShareNode, path: str) -> ShareView:
        use, factors = node.use, self._factors
        return ShareView(
            path=path,
            name=node.name,
            shares=node.shares,
            priority=node.priority,
            started=node.slots,
            reserved=node.reserved,
            cpu_s=use.cpu_s,
            run_s=use.run_s + (use.hist_run_s if factors.hist_run_time else 0.0),
            adjust=node.adjust,
            gpu_s=use.gpu_s + (use.hist_gpu_s if factors.gpu_hist_run_time else 0.0),
        )

    def _divide(self, node: ShareNode, shares: tuple[Share, ...], above: tuple[str, ...]) -> None:
        """Set up what configuration names below the node; users of a remainder or of `group@` come when they do."""
        self._levels[node] = shares
        for share in shares:
            name = share.name
            if name == DEFAULT or name.endswith("@") or name in above:
                continue
            is_group = name == OTHERS or name in self._groups
            child = node.children[name] = ShareNode(name, share.shares, node, node.weight, is_group=is_group)
            if is_group:
                self._divide(child, self._group_shares.get(name) or _EQUAL, (*above, name))

    def _find(self, node: ShareNode, user: str) -> ShareNode:
        child = node.children.get(user)
        if child is not None and not child.is_group:
            return child
        remainder = others = 0
        for share in self._levels[node]:
            if share.name == DEFAULT:
                remainder = share.shares
            elif share.name == OTHERS:
                others = share.shares
            elif share.name.endswith("@"):
                if self._has(share.name[:-1], user):
                    return self._grow(node, user, share.shares)
            elif self._has(share.name, user) and share.name in node.children:
                return self._find(node.children[share.name], user)
        if remainder:
            return self._grow(node, user, remainder)
        if others:
            return self._find(node.children[OTHERS], user)
        return self._grow(node, user, 0)

    def _has(self, group: str, user: str) -> bool:
        users = self._groups.get(group, frozenset())
        return user in users or EVERYBODY in users

    def _grow(self, node: ShareNode, user: str, shares: int) -> ShareNode:
        """A user who is not named himself. One of a group's name must not be taken for it."""
        key = user if user not in node.children else f"{user}."
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = ShareNode(user, shares, node, node.weight, is_group=False)
        return child

    def _group_node(self, node: ShareNode, name: str) -> ShareNode | None:
        """The first group node of that name, the higher levels first."""
        level = [node]
        while level:
            for each in level:
                found = each.children.get(name)
                if found is not None and found.is_group:
                    return found
            level = [child for each in level for child in each.children.values() if child.is_group]
        return None

    def _charge(self, leaf: ShareNode, used: FairshareUse) -> None:
        load = load_of(used, self._factors)
        node: ShareNode | None = leaf
        while node is not None:
            node.load += load
            node.slots += used.slots
            node.jobs += used.jobs
            node.gpus += used.gpus
            node.use = _sum(node.use, used)
            node = node.parent


def load_of(use: FairshareUse, factors: FairshareFactors) -> float:
    """What the shares are divided by, without the slots. The formula's times are hours."""
    run_s = use.run_s + (use.hist_run_s if factors.hist_run_time else 0.0)
    gpu_s = use.gpu_s + (use.hist_gpu_s if factors.gpu_hist_run_time else 0.0)
    weighted_s = (
        use.cpu_s * factors.cpu_time
        + run_s * factors.run_time
        + (use.committed_s - use.run_s) * factors.committed_run_time
        + gpu_s * factors.gpu_run_time
    )
    return weighted_s / HOUR_S


def tree_of(snapshot: Snapshot, queue: Queue) -> ShareTree:
    """The share tree of a queue as a cycle sees it; of several queues of one tree that of the first of them."""
    owner = snapshot.queues.get(queue.share_owner, queue)
    factors = snapshot.factors.get(owner.name) or FairshareFactors()
    return ShareTree(owner, _use_of(snapshot, owner), factors, snapshot.user_groups, snapshot.group_shares)


def _use_of(snapshot: Snapshot, owner: Queue) -> Mapping[str, FairshareUse]:
    """Member -> what he has used of all queues of the tree."""
    if not owner.share_queues:
        return snapshot.shares.get(owner.name, {})
    found: dict[str, FairshareUse] = {}
    for name in owner.share_queues:
        for member, use in snapshot.shares.get(name, {}).items():
            found[member] = _sum(found[member], use) if member in found else use
    return found


def _sum(a: FairshareUse, b: FairshareUse) -> FairshareUse:
    return FairshareUse(
        cpu_s=a.cpu_s + b.cpu_s,
        hist_run_s=a.hist_run_s + b.hist_run_s,
        run_s=a.run_s + b.run_s,
        slots=a.slots + b.slots,
        jobs=a.jobs + b.jobs,
        hist_gpu_s=a.hist_gpu_s + b.hist_gpu_s,
        gpu_s=a.gpu_s + b.gpu_s,
        gpus=a.gpus + b.gpus,
        committed_s=a.committed_s + b.committed_s,
    )
