"""-N of gjobs, gacct and ghist: CPU time as it would have been on another host, by the CPU factors of lsf.shared.

It asks the master for hosts and models once. A host that is gone, or has no factor, counts as one of factor 1.
Source: bacct(1): CPU time x factor of the first execution host / factor of what is named.
"""

from __future__ import annotations

from msgspec.structs import replace

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.dialect.options import Option
from gsched.model.jobs.job import Usage
from gsched.model.ledgers.allocation import Allocation
from gsched.model.views.view import JobView
from gsched.wire.calls.client import Client

NORMALIZED = Option("N", "HOST|MODEL|FACTOR", "CPU time as on this host, this model, or by this CPU factor", "-N gpu01")


class CpuFactors:
    """The factors of all hosts by that of one."""

    def __init__(self, call: Call, client: Client, named: str) -> None:
        """Raises BadRequest for what is no host, no model and no factor."""
        self._hosts = {host.name: host.cpu_factor for host in client.hosts()}
        models = {model.name: model.cpu_factor for model in client.catalogue.definitions().models}
        found = self._hosts.get(named, models.get(named))
        self._named = _number(named) if found is None else found
        if not self._named:
            raise BadRequest(f"{program(call)}: -N {named[:60]}: neither a host nor a host model, nor a CPU factor")

    def of(self, allocation: Allocation | None) -> float:
        """What CPU time of a job that ran there is multiplied by."""
        return (self._hosts.get(allocation.first_host, 1.0) if allocation is not None else 1.0) / self._named

    def scaled(self, view: JobView) -> JobView:
        """The job with its CPU time so."""
        by = self.of(view.allocation)
        usage = None if view.usage is None else _times(view.usage, by)
        result = None if view.result is None else replace(view.result, usage=_times(view.result.usage, by))
        return replace(view, usage=usage, result=result)


def _times(usage: Usage, by: float) -> Usage:
    return replace(usage, cpu_s=usage.cpu_s * by)


def _number(text: str) -> float:
    try:
        value = float(text) if text.isascii() and len(text) < 20 else 0.0
    except ValueError:
        return 0.0
    return value if 0.0 < value < 1e6 else 0.0
