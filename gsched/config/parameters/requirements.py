"""Checks of the requirement strings that stand in configuration files: RES_REQ, GPU_REQ, STOP_COND, RESUME_COND.

The grammar is the one that jobs' requirements are read with; here is only what the cluster's resources say to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.units import parse_mib
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import real
from gsched.core.submission.known_resources import check_requirement
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.resource import BUILTIN, Resource
from gsched.resreq.ast import AnyRequirement, Requirement
from gsched.resreq.parsing.gpu import parse_gpu, unsupported_by_agent
from gsched.resreq.parsing.gpu import with_unit as gpu_with_unit
from gsched.resreq.parsing.syntax import parse_any, with_unit

GPUS_OF_LSF = "ngpus_physical"
"""The name under which LSF's -gpu counts devices."""

_SIZES = ("mem", "swp", "tmp")
_AMOUNT = real(0, 1e15)
_RESERVED = re.compile(r"\s*\[?\s*(\w+)\s*=\s*(?:([\w.]+)\s*,\s*)?([\w.]+)\s*\]?\s*", re.ASCII)

_NOWHERE = Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir="")


class RequirementJudge(msgspec.Struct, frozen=True):
    """Holds requirements to the rules that jobs' requirements are held to, before there is a whole configuration."""

    resources: Mapping[str, Resource]
    compute_units: Mapping[str, Mapping[str, tuple[str, ...]]]
    host_types: tuple[str, ...] = ()
    host_models: tuple[str, ...] = ()
    unit: str = "M"
    """The letter of LSF_UNIT_FOR_LIMITS."""

    def requirement(self, text: str) -> str:
        """The text of RES_REQ, once it is known that jobs can be held to it; its sizes have units then.

        Raises RequirementError or BadRequest.
        """
        self._read(text)
        return with_unit(text, self.unit)

    def reserve_limits(self, text: str) -> dict[str, tuple[float, float]]:
        """RESRSV_LIMIT: `[mem=100,2000] [licence=5]`, resource -> (least, most); sizes in MiB. Raises BadRequest."""
        found: dict[str, tuple[float, float]] = {}
        position = 0
        while position < len(text):
            part = _RESERVED.match(text, position)
            if part is None:
                raise BadRequest(f"'{show(text[position:])}' is not of the form [RESOURCE=[LEAST,]MOST]")
            name, position = part[1], part.end()
            resource = BUILTIN.get(name) or self.resources.get(name)
            if resource is None or not resource.consumable:
                raise BadRequest(f"'{show(name)}' is no resource that jobs can reserve")
            if name in found:
                raise BadRequest(f"{name} is limited twice")
            least, most = (self._amount(name, each) if each else 0.0 for each in (part[2], part[3]))
            if least > most:
                raise BadRequest(f"{name}: {show(part[2])} is more than {show(part[3])}")
            found[name] = (least, most)
        return found

    def _amount(self, name: str, text: str) -> float:
        return parse_mib(text, self.unit) if name in _SIZES else _AMOUNT(text)

    def unit_type(self, name: str) -> str:
        """The type of compute units of that name, the default one without a name. Raises BadRequest if unknown."""
        found = name or next(iter(self.compute_units), "")
        if found in self.compute_units:
            return found
        if not self.compute_units:
            raise BadRequest("no compute units are configured (ComputeUnit of lsb.hosts)")
        raise BadRequest(f"there are no compute units of type {show(name)}; types are {', '.join(self.compute_units)}")

    def condition(self, text: str) -> str:
        """The text of a select expression, bare or in select[]. Raises RequirementError or BadRequest."""
        read = self._read(text)
        if not isinstance(read, Requirement) or read.select is None or read != Requirement(select=read.select):
            raise BadRequest(f"'{show(text)}' is not one condition; select[...] may stand here and nothing else")
        return with_unit(text, self.unit)

    def _read(self, text: str) -> AnyRequirement:
        units = {type_: dict(each) for type_, each in self.compute_units.items()}
        known = ClusterConfig(
            cluster="",
            master_host="",
            resources=dict(self.resources),
            compute_units=units,
            host_types=self.host_types,
            host_models=self.host_models,
            locations=_NOWHERE,
        )
        increasing = {each.name for each in (*BUILTIN.values(), *self.resources.values()) if each.increasing}
        read = parse_any(text, is_increasing=increasing.__contains__)
        check_requirement(read, known)
        return read


def gpu_requirement(unit: str) -> Callable[[str], str]:
    """A reader of GPU_REQ: its text, once it is known that agents can provide it. A bare gmem is in `unit`, a letter.

    It raises RequirementError or BadRequest.
    """

    def read(text: str) -> str:
        asked = parse_gpu(text)
        if asked is None:
            raise BadRequest("'-' asks for what the levels below say and has no meaning here; leave the parameter out")
        if asked.num == 0:
            raise BadRequest(f"'{show(text)}' asks for no GPU and has no meaning here; leave the parameter out")
        missing = unsupported_by_agent(asked)
        if missing:
            raise BadRequest(f"'{show(text)}': {missing} is not supported yet")
        return gpu_with_unit(text, unit)

    return read
