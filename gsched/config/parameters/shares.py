"""USER_SHARES: how a fairshare policy divides a queue, or a group what it was given; which queues it divides together.

    FAIRSHARE        = USER_SHARES[[name, shares] ...]
    FAIRSHARE_QUEUES = short night
    DISPATCH_ORDER   = QUEUE

And the weights of what has been used. Source: lsb.queues(5), FAIRSHARE, FAIRSHARE_QUEUES, DISPATCH_ORDER; "Configuring
cross-queue fair share" of LSF 10.1; lsb.users(5), USER_SHARES; lsb.params(5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.values import KeyValues, integer, queue_name, real, user_name, yes_or_no
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

_SHARES = integer(1, 2**31 - 2)
_ONE = re.compile(r"\s*\[([^\[\],]*),([^\[\],]*)\]\s*,?")
_POLICY = re.compile(r"USER_SHARES\s*\[(.*)\]", re.IGNORECASE | re.DOTALL)
REMAINDERS = ("default", "others")
"""Each other user; all other users together."""
SHARE_QUEUES = "FAIRSHARE_QUEUES"

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


def other_queues(text: str) -> tuple[str, ...]:
    """FAIRSHARE_QUEUES; whether the queues exist is for `with_shared_trees`. Raises BadRequest."""
    names = tuple(queue_name(word) for word in text.split())
    if not names:
        raise BadRequest("no queue is named")
    return tuple(dict.fromkeys(names))


def queue_order(text: str) -> bool:
    """DISPATCH_ORDER. Raises BadRequest."""
    if text.strip().upper() != "QUEUE":
        raise BadRequest(f"'{show(text)}' is not QUEUE")
    return True


def with_shared_trees(
    queues: Mapping[str, Queue],
    places: Mapping[str, SourcePlace],
    own_shares: Mapping[str, SourcePlace],
    findings: Findings,
) -> dict[str, Queue]:
    """The queues, those of one share tree with the FAIRSHARE and the factors of the first, and with the names of all.

    `places`: where FAIRSHARE_QUEUES is set; `own_shares`: where FAIRSHARE is. A set that cannot be is reported, and its
    queues stay as they are.
    """
    found, taken = dict(queues), dict.fromkeys(places, "")
    for name, at in places.items():
        owner = queues[name]
        names = (name, *owner.share_queues)
        problems = list(_problems(owner, queues, taken))
        for problem in problems:
            findings.error(at, f"{SHARE_QUEUES}: {problem}")
        if problems:
            continue
        for each in owner.share_queues:
            taken[each] = name
            if each in own_shares:
                findings.note(own_shares[each], f"FAIRSHARE has no effect: that of {name} divides {each} too")
        for each in names:
            found[each] = replace(
                queues[each],
                fairshare=owner.fairshare,
                factors=owner.factors,
                share_queues=names,
                serves_queues_in_order=owner.serves_queues_in_order,
            )
        if not owner.serves_queues_in_order:
            _check_range(names, queues, at, findings)
    return found


def _problems(owner: Queue, queues: Mapping[str, Queue], taken: Mapping[str, str]) -> Iterator[str]:
    """Why the set of this queue cannot be. `taken`: queue -> the one whose set it is in; "": it has one of its own."""
    if owner.fairshare is None:
        yield f"queue {owner.name} has no FAIRSHARE, which is to divide them"
    for name in owner.share_queues:
        if name == owner.name:
            yield f"queue {name} names itself"
        elif name not in queues:
            yield f"queue {name} is not defined in lsb.queues{suggestion(name, queues)}"
        elif taken.get(name) == "":
            yield f"queue {name} has {SHARE_QUEUES} of its own"
        elif name in taken:
            yield f"queue {name} is divided by the FAIRSHARE of {taken[name]} already"


def _check_range(names: tuple[str, ...], queues: Mapping[str, Queue], at: SourcePlace, findings: Findings) -> None:
    """Users come by their shares, whatever queue their jobs are in, so that no other queue can come in between."""
    priorities = [queues[name].priority for name in names]
    least, most = min(priorities), max(priorities)
    for queue in queues.values():
        if queue.name not in names and least <= queue.priority <= most:
            within = f"{least}" if least == most else f"{least} to {most}"
            findings.error(
                at,
                f"{SHARE_QUEUES}: the priority {queue.priority} of queue {queue.name} lies within {within}, the "
                f"priorities of {', '.join(names)}: choose another one, or set DISPATCH_ORDER = QUEUE",
            )
