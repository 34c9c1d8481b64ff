"""What a requirement may name on this cluster: resources, types, models, compute units; and what is reservable.

It looks at the configuration alone, never at hosts or jobs. Sources: bsub(1), lsf.shared(5), lsb.queues(5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from gsched.base.errors import BadRequest
from gsched.core.resources.resource_values import LOCAL_TYPE, UNKNOWN_MODEL
from gsched.model.config import ClusterConfig
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, ResourceType
from gsched.resreq.ast import (
    AnyRequirement,
    Comparison,
    Expression,
    Name,
    Reservation,
    Span,
    StringValue,
    simple_parts,
)
from gsched.resreq.judging.host_types import LINUX_TYPES
from gsched.resreq.parsing.gpu import GpuRequirement, gpu_of, unsupported_by_agent
from gsched.resreq.parsing.lexer import one_line, refuse
from gsched.resreq.parsing.names import canonical, check_names, walk
from gsched.resreq.parsing.syntax import BAD_NAME, BAD_SYNTAX

_SIZES = ("mem", "swp", "tmp")
GPUS_OF_LSF = "ngpus_physical"
"""What -gpu counts; in rusage it asks as -gpu does."""


def check_requirement(requirement: AnyRequirement, config: ClusterConfig) -> None:
    """Raises RequirementError for names the cluster does not know and for what cannot be reserved or sorted by."""
    source = requirement.source
    check_names(
        requirement,
        lambda name: name == GPUS_OF_LSF or config.resource(canonical(name)) is not None,
        [*BUILTIN, *config.resources],
        is_text=lambda name: has_type(config, name, ResourceType.STRING),
    )
    for part in simple_parts(requirement):
        for key in part.order:
            if key.expression is None and not has_type(config, key.name, ResourceType.NUMERIC):
                detail = f"order[{key.name}]: {key.name} is not a number to sort by"
                refuse(detail, source, key.position, BAD_NAME)
        for usage in part.every_rusage:
            for item in usage:
                _check_reservable(item, source, config)
        if part.cu is not None and (not config.compute_units or part.cu.type not in ("", *config.compute_units)):
            known = f"compute units are {', '.join(config.compute_units)}" if config.compute_units else _NO_UNITS
            what = f"cu[type={part.cu.type}]" if part.cu.type else "cu[...]"
            refuse(f"{what}: {known}", source, part.cu.position, BAD_NAME)
        for expression in walk(part.select) if part.select is not None else ():
            _check_value(expression, source, config)
        if part.span is not None:
            _check_types(part.span, source, config)


def check_reserved(asked: AnyRequirement, queue: str, config: ClusterConfig) -> None:
    """Refuse amounts of rusage, of the job or its profile, outside of what the queue allows. Source: lsb.queues(5),
    RESRSV_LIMIT. Raises BadRequest.
    """
    limits = config.queues[queue].reserve_limits
    if not limits:
        return
    for part in simple_parts(asked):
        for item in (each for usage in part.every_rusage for each in usage):
            least, most = limits.get(canonical(item.name), (0.0, math.inf))
            amounts = [phase.amount for phase in item.phases] or [item.amount]
            if min(amounts) < least or max(amounts) > most:
                size = "MB" if canonical(item.name) in _SIZES else ""
                allowed = f"from {least:g}{size} to {most:g}{size}" if least else f"at most {most:g}{size}"
                raise BadRequest(
                    f"{item.name}={item.text}: the queue {queue} allows {allowed} in rusage (RESRSV_LIMIT)"
                )


def check_units(whole: AnyRequirement, queue: str, config: ClusterConfig) -> None:
    """Refuse cu[excl] in a queue that does not allow it for units of the type. Source: lsb.queues(5), EXCLUSIVE."""
    allowed = config.queues[queue].exclusive_units
    for part in simple_parts(whole):
        if part.cu is not None and part.cu.excl:
            wanted = part.cu.type or next(iter(config.compute_units), "")
            no = f"{queue}: Queue does not accept EXCLUSIVE jobs"
            if not allowed:
                raise BadRequest(f"{no}: cu[excl] needs EXCLUSIVE = CU[{wanted}] in lsb.queues")
            if not _are_within(config.compute_units.get(wanted, {}), config.compute_units.get(allowed, {})):
                raise BadRequest(f"{no} with cu[excl:type={wanted}]: it has EXCLUSIVE = CU[{allowed}]")


def _are_within(inner: Mapping[str, Sequence[str]], outer: Mapping[str, Sequence[str]]) -> bool:
    """Whether each of the units is part of one of the others, or the same."""
    return all(any(set(each) <= set(larger) for larger in outer.values()) for each in inner.values())


_NO_UNITS = "no compute units are configured (COMPUTE_UNIT_TYPES of lsb.params, ComputeUnit of lsb.hosts)"
_STATUSES = ("ok", "busy", "lock", "lockU", "lockW", "lockM", "lockUW", "closed", "unreach", "unavail")


def _check_value(expression: Expression, source: str, config: ClusterConfig) -> None:
    """Refuse a host type, model or status that no host can ever have. Source: lsf.shared(5), HostType, HostModel."""
    match expression:
        case Comparison(op, Name("type" | "model" | "status" as name, position), StringValue(value)):
            known = {"type": config.host_types, "model": config.host_models, "status": _STATUSES}[name]
            detected = {"type": LOCAL_TYPE, "model": UNKNOWN_MODEL}.get(name, "")
            also = LINUX_TYPES if name == "type" else ()
            if known and value not in (*known, detected, "any", "local", *also):
                near = get_close_matches(value, known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else f"; these are: {', '.join(known)}"
                detail = f"{name}{op}{one_line(value)}: no host has the {name} {one_line(value)}{hint}"
                refuse(detail, source, position, BAD_NAME)


def _check_types(span: Span, source: str, config: ClusterConfig) -> None:
    """Refuse a host type or model in span[ptile] that no host can ever have."""
    known = (*config.host_types, *config.host_models)
    for word, tasks in span.ptile_types if config.host_types and config.host_models else ():
        if word not in (*known, LOCAL_TYPE, UNKNOWN_MODEL):
            near = get_close_matches(word, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else f"; these are: {', '.join(known)}"
            detail = f"span[ptile={one_line(word)}:{tasks}]: no host has the type or model {one_line(word)}{hint}"
            refuse(detail, source, span.position, BAD_NAME)


def has_type(config: ClusterConfig, name: str, wanted: ResourceType) -> bool:
    """Whether the cluster has a resource of that name and type."""
    resource = config.resource(canonical(name))
    return resource is not None and resource.type is wanted


def is_increasing(config: ClusterConfig) -> Callable[[str], bool]:
    """Whether more of a resource means less is left, asked by its name."""

    def grows(name: str) -> bool:
        resource = config.resource(canonical(name))
        return resource is not None and resource.increasing

    return grows


def _check_reservable(item: Reservation, source: str, config: ClusterConfig) -> None:
    name = canonical(item.name)
    if name == "ngpuprohibited":
        detail = "ngpuprohibited cannot be reserved: a prohibited GPU is never used"
        refuse(detail, source, item.position, BAD_NAME)
    if name in GPU_COUNTERS or name == GPUS_OF_LSF:
        if any(amount != int(amount) for amount in (item.amount, *(phase.amount for phase in item.phases))):
            detail = f"{item.name}={item.text}: GPUs are claimed whole; a part of one is asked for by -gpu share="
            refuse(detail, source, item.position, BAD_SYNTAX)
        if name == GPUS_OF_LSF and item.amount:
            check_gpu(gpu_of(item))
        return
    resource = config.resource(name)
    if resource is not None and not resource.consumable:
        where = f": set CONSUMABLE to Y in {resource.source}" if resource.source else " (it is built in)"
        detail = f"{item.name} is not consumable and cannot be reserved by rusage{where}"
        refuse(detail, source, item.position, BAD_NAME)


def check_gpu(gpu: GpuRequirement) -> None:
    """Raises BadRequest for what agents cannot provide yet."""
    missing = unsupported_by_agent(gpu)
    if missing:
        raise BadRequest(f"Bad GPU requirement: {missing} is not supported yet")
