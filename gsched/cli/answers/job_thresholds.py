"""The load thresholds that a job is held to, for SCHEDULING PARAMETERS of `gjobs -l`.

It asks the master for queues and hosts once, and never for each job.
Rule: lsb.hosts(5), of the host's threshold and the queue's the stricter counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.hosts.resource import BUILTIN
from gsched.model.views.view import JobView
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import PastLook

_UNSET = "-"
_GROWS = "Inc"


class JobThresholds:
    """Thresholds of jobs in the manner of QueueView: index -> `sched/stop`."""

    def __init__(self, client: Client, look: Client | PastLook) -> None:
        """`look`: who is asked for queues and hosts."""
        self._client = client
        self._look = look
        self._queues = {queue.name: queue.thresholds for queue in look.queues()}
        self._hosts: dict[str, dict[str, str]] | None = None
        self._increasing: frozenset[str] | None = None

    def of(self, view: JobView) -> dict[str, str]:
        """Those of its queue; once it is started those of its hosts beside them, the stricter of two."""
        found = dict(self._queues.get(view.spec.queue, {}))
        if view.allocation is not None:
            if self._hosts is None:
                self._hosts = {host.name: host.thresholds for host in self._look.hosts()}
            for part in view.allocation.hosts:
                for name, text in self._hosts.get(part.host, {}).items():
                    found[name] = self._stricter(name, found[name], text) if name in found else text
        return found

    def _stricter(self, name: str, one: str, other: str) -> str:
        choose = min if self._grows(name) else max
        pairs = zip(one.split("/"), other.split("/"), strict=True)
        return "/".join(_UNSET if not (said := _set(pair)) else choose(said, key=float) for pair in pairs)

    def _grows(self, name: str) -> bool:
        """Whether more of the index is worse."""
        if name in BUILTIN:
            return BUILTIN[name].increasing
        if self._increasing is None:
            known = self._client.catalogue.definitions().resources
            self._increasing = frozenset(each.name for each in known if each.order == _GROWS)
        return name in self._increasing


def _set(values: Iterable[str]) -> list[str]:
    return [value for value in values if value != _UNSET]
