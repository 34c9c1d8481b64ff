"""Checks of the requirement strings that stand in configuration files: RES_REQ, GPU_REQ, STOP_COND, RESUME_COND.

The grammar is the one that jobs' requirements are read with; here is only what the cluster's resources say to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsched.base.errors import BadRequest
from gsched.config.findings import show
from gsched.model.resource import BUILTIN, Resource, ResourceType, gpu_counter_claims
from gsched.resreq.ast import AnyRequirement, Requirement, Reservation, compounds, simple_parts
from gsched.resreq.gpu import gpu_warnings, parse_gpu, unsupported_by_agent
from gsched.resreq.names import canonical, check_names
from gsched.resreq.syntax import parse, parse_any

GPUS_OF_LSF = "ngpus_physical"
"""The name under which LSF's -gpu counts devices."""


def requirement(text: str, resources: Mapping[str, Resource]) -> str:
    """The text of RES_REQ, once it is known that jobs can be held to it. Raises RequirementError or BadRequest."""
    known = {**BUILTIN, **resources}
    _check(parse_any(text, is_increasing=lambda name: name in known and known[name].increasing), known)
    return text


def condition(text: str, resources: Mapping[str, Resource]) -> str:
    """The text of a select expression, bare or in select[]. Raises RequirementError or BadRequest."""
    read = parse(text)
    if read.select is None or read != Requirement(select=read.select):
        raise BadRequest(f"'{show(text)}' is not one condition; select[...] may stand here and nothing else")
    _check(read, {**BUILTIN, **resources})
    return text


def gpu_requirement(text: str) -> str:
    """The text of GPU_REQ, once it is known that agents can provide it. Raises RequirementError or BadRequest."""
    asked = parse_gpu(text)
    if asked is None:
        raise BadRequest("'-' asks for what the levels below say and has no meaning here; leave the parameter out")
    missing = unsupported_by_agent(asked)
    if missing:
        raise BadRequest(f"'{show(text)}': {missing} is not supported yet")
    return text


def gpu_notes(text: str) -> list[str]:
    """What of a GPU_REQ that `gpu_requirement` let pass does nothing yet; empty for an empty text."""
    asked = parse_gpu(text) if text else None
    return gpu_warnings(asked) if asked is not None else []


def _check(read: AnyRequirement, known: Mapping[str, Resource]) -> None:
    # `same` of a compound stands outside of its parts.
    outer = (Requirement(same=each.same, source=each.source) for each in compounds(read))
    for part in (*simple_parts(read), *outer):
        check_names(part, known.__contains__, known, is_text=lambda name: known[name].type is ResourceType.STRING)
        for item in (each for one in part.every_rusage for each in one):
            _check_reservation(item, known)


def _check_reservation(item: Reservation, known: Mapping[str, Resource]) -> None:
    resource = known[canonical(item.name)]
    if resource.name not in gpu_counter_claims() and not resource.consumable:
        raise BadRequest(f"rusage[{resource.name}]: the resource is not consumable, jobs cannot reserve it")
