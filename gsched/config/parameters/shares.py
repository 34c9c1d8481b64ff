"""USER_SHARES: how a fairshare policy divides a queue, or a group what it was given.

    FAIRSHARE = USER_SHARES[[name, shares] ...]

And the weights of what has been used. Source: lsb.queues(5), FAIRSHARE; lsb.users(5), USER_SHARES; lsb.params(5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show, suggestion
from gsched.config.grammar.values import KeyValues, integer, real, user_name, yes_or_no
from gsched.model.queues.user import Share

_SHARES = integer(1, 2**31 - 2)
_ONE = re.compile(r"\s*\[([^\[\],]*),([^\[\],]*)\]\s*,?")
_POLICY = re.compile(r"USER_SHARES\s*\[(.*)\]", re.IGNORECASE | re.DOTALL)
REMAINDERS = ("default", "others")
"""Each other user; all other users together."""

_FACTOR = real(0, 1e6)


class FactorParameter(NamedTuple):
    """A weight of dynamic user priority, in lsb.params and lsb.queues."""

    field: str
    """Of FairshareFactors."""
    reader: Callable[[str], Any]
    meaning: str
    """For gparams -l."""
    unit: str = ""


FACTORS = {
    "CPU_TIME_FACTOR": FactorParameter("cpu_time", _FACTOR, "Weight of CPU time in fairshare"),
    "RUN_TIME_FACTOR": FactorParameter("run_time", _FACTOR, "Weight of run time in fairshare"),
    "RUN_JOB_FACTOR": FactorParameter("run_job", _FACTOR, "Weight of the slots in use in fairshare"),
    "FAIRSHARE_JOB_COUNT": FactorParameter("job_count", yes_or_no, "Jobs count in fairshare, and not their slots"),
    "COMMITTED_RUN_TIME_FACTOR": FactorParameter(
        "committed_run_time", _FACTOR, "Weight of run time still to come in fairshare"
    ),
    "GPU_RUN_TIME_FACTOR": FactorParameter("gpu_run_time", _FACTOR, "Weight of GPU time in fairshare"),
    "HIST_HOURS": FactorParameter("hist_hours", _FACTOR, "Time after which past use has fallen to a tenth", "hours"),
    "ENABLE_HIST_RUN_TIME": FactorParameter(
        "hist_run_time", yes_or_no, "Run time of finished jobs counts in fairshare"
    ),
    "ENABLE_GPU_HIST_RUN_TIME": FactorParameter(
        "gpu_hist_run_time", yes_or_no, "GPU time of finished jobs counts in fairshare"
    ),
}
"""By name; reading, gparams and gqueues go by this table."""


def read_factors(settings: KeyValues) -> dict[str, Any]:
    """The factors that are set: field of FairshareFactors -> value."""
    read = {each.field: settings.take(name, each.reader, None) for name, each in FACTORS.items()}
    return {field: value for field, value in read.items() if value is not None}


def fairshare(text: str, groups: Collection[str]) -> tuple[Share, ...]:
    """FAIRSHARE's shares. Raises BadRequest."""
    found = _POLICY.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{show(text)}' is not of the form USER_SHARES[[NAME, SHARES] ...]")
    return read_shares(found[1], groups)


def read_shares(text: str, groups: Collection[str]) -> tuple[Share, ...]:
    """`[name, shares] ...`. A name may be a user, a group, `group@`, default or others. Raises BadRequest."""
    shares: dict[str, Share] = {}
    text, position = text.strip(), 0
    while position < len(text):
        found = _ONE.match(text, position)
        if found is None:
            raise BadRequest(f"'{show(text[position:].strip())}' is not of the form [NAME, SHARES]")
        share = Share(_name(found[1].strip(), groups), _SHARES(found[2].strip()))
        if share.name in shares:
            raise BadRequest(f"{share.name} has two shares")
        shares[share.name] = share
        position = found.end()
    if not shares:
        raise BadRequest("nobody has a share: [NAME, SHARES] is missing")
    return tuple(shares.values())


def _name(name: str, groups: Collection[str]) -> str:
    if name in REMAINDERS or name in groups:
        return name
    if name.endswith("@"):
        if name[:-1] not in groups:
            near = suggestion(name[:-1], groups)
            raise BadRequest(f"{show(name)}: there is no user group {show(name[:-1])} in lsb.users{near}")
        return name
    return user_name(name)
