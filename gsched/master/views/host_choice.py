"""Which hosts a requirement string means when somebody lists hosts: ghosts, gload, glshosts with -R.

The hosts' values are those that the tables show: what is left after reservations. Beside the resources of jobs it knows
`mg`, the hosts that may be master. Source: lsload(1), option -R.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from gsched.base.errors import BadRequest
from gsched.core.resources.resource_values import LOCAL_TYPE
from gsched.core.submission.known_resources import check_requirement
from gsched.model.config import ClusterConfig
from gsched.model.hosts.reported_resources import gpu_names_in, gpu_value
from gsched.model.hosts.resource import Resource, ResourceType
from gsched.model.views.view import HostView
from gsched.resreq.ast import Name, OrderKey, Requirement
from gsched.resreq.judging.evaluate import compile_number, compile_select
from gsched.resreq.parsing.names import canonical, select_names
from gsched.resreq.parsing.syntax import parse

MANAGEMENT = Resource(name="mg", type=ResourceType.BOOLEAN, description="management host", builtin=True)
_Value = float | str | bool | None


def admitted(hosts: list[HostView], requirement: str, config: ClusterConfig) -> list[HostView]:
    """The hosts that select[] admits, sorted by order[] where the requirement has one; unknown values come last.

    Raises RequirementError for what cannot be read or names no resource, BadRequest for what says nothing of a host.
    """
    known = config
    if MANAGEMENT.name not in config.resources:
        known = msgspec.structs.replace(config, resources={**config.resources, MANAGEMENT.name: MANAGEMENT})

    def is_increasing(name: str) -> bool:
        resource = known.resource(canonical(name))
        return resource is not None and resource.increasing

    asked = parse(requirement, is_increasing=is_increasing)
    if not isinstance(asked, Requirement) or (requirement.strip() and asked.select is None and not asked.order):
        raise BadRequest(f"-R {requirement[:60]}: only select[...] and order[...] choose among hosts")
    check_requirement(asked, known)
    judge = compile_select(asked.select, local_type=LOCAL_TYPE)
    values = {host.name: _of_gpus(host, requirement) | values_of(host, known) for host in hosts}
    chosen = [host for host in hosts if judge(values[host.name]).holds is True]
    for key in reversed(asked.order or ()):
        rank = _rank(key, is_increasing)
        chosen.sort(key=lambda host: rank(values[host.name]))
    return chosen


def values_of(host: HostView, config: ClusterConfig) -> dict[str, _Value]:
    """The host's values by name; None is unknown."""
    values: dict[str, _Value] = {name: resource.name in host.resources for name, resource in _booleans(config)}
    values[MANAGEMENT.name] = values.get(MANAGEMENT.name) or host.name == config.master_host
    values.update(host.facts)
    values.update(host.values)
    values.update(host.load)
    values.update({each.name: value for each in host.externals if (value := each.text or each.total) is not None})
    values.update(
        type=host.type,
        model=host.model,
        hname=host.name,
        status="unavail" if host.status in ("unavail", "unreach") else "ok",
        cpuf=host.cpu_factor,
        server=host.server,
        rexpri=0.0,
        ncpus=float(host.ncpus) or None,
        maxmem=host.max_mem_mib,
        maxswp=host.max_swp_mib,
        maxtmp=host.max_tmp_mib,
        slots=math.inf if host.slots_free is None else float(host.slots_free),
        maxslots=math.inf if host.max_slots is None else float(host.max_slots),
    )
    return values


def _of_gpus(host: HostView, requirement: str) -> dict[str, _Value]:
    """What the requirement asks about the host's GPUs, where no elim says it."""
    gpus = [each.gpu for each in host.gpus]
    return {name: gpu_value(name, gpus, host.gpu_driver) for name in gpu_names_in(requirement)}


def _booleans(config: ClusterConfig) -> list[tuple[str, Resource]]:
    return [(name, each) for name, each in config.resources.items() if each.type is ResourceType.BOOLEAN]


def _rank(key: OrderKey, is_increasing: Callable[[str], bool]) -> Callable[[dict[str, _Value]], float]:
    """Smallest first: little load, or much of what is offered; `-` the other way round."""
    expression = key.expression if key.expression is not None else Name(key.name, key.position)
    first = next(select_names(expression), (key.name, 0))[0]
    upwards = is_increasing(first) != key.is_reversed
    number = compile_number(expression)

    def rank(values: dict[str, _Value]) -> float:
        value = number(values)
        return math.inf if value is None else value if upwards else -value

    return rank
