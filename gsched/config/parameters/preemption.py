"""PREEMPTION of queues: who may take the place of whose jobs, and whether that makes sense among all queues; and whom
NO_PREEMPT_RUN_TIME, NO_PREEMPT_FINISH_TIME, NO_PREEMPT_INTERVAL and MAX_JOB_PREEMPT spare.

    PREEMPTION = PREEMPTIVE[low+2 lower] PREEMPTABLE[high]

Source: lsb.queues(5), PREEMPTION.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.values import KeyValues, integer, queue_name, real
from gsched.config.parameters.job_limits import time_s
from gsched.model.queues.preempt_sparing import SparedTime, Sparing
from gsched.model.queues.queue import Preemption, Queue

_PART = re.compile(r"\s*([A-Za-z_]+)\s*(?:\[([^\[\]]*)\])?")
_LEVEL = integer(0, 2**31 - 2)
_MINUTES = integer(0, 10**7)
_PREEMPTIONS = integer(1, 2**31 - 2)


def preemption(text: str) -> Preemption:
    """PREEMPTION's two parts; whether the queues exist is for `check_preemption`. Raises BadRequest."""
    parts: dict[str, str] = {}
    text, position = text.strip(), 0
    while position < len(text):
        found = _PART.match(text, position)
        name = found[1].upper() if found else ""
        if found is None or name not in ("PREEMPTIVE", "PREEMPTABLE"):
            raise BadRequest(f"'{show(text[position:].strip())}' is neither PREEMPTIVE[QUEUE ...] nor PREEMPTABLE[...]")
        if name in parts:
            raise BadRequest(f"{name} is given twice")
        parts[name] = found[2] or ""
        position = found.end()
    return Preemption(
        tuple(_preferred(word) for word in parts["PREEMPTIVE"].split()) if "PREEMPTIVE" in parts else None,
        tuple(queue_name(word) for word in parts["PREEMPTABLE"].split()) if "PREEMPTABLE" in parts else None,
    )


def check_preemption(queues: Mapping[str, Queue], places: Mapping[str, SourcePlace], findings: Findings) -> None:
    """Queues that PREEMPTION names must exist; one that preempts upwards is noted. `places`: where it is set."""
    for name, at in places.items():
        queue = queues[name]
        for other, _ in queue.preemption.preemptive or ():
            if _known(name, other, queues, at, findings) and queues[other].priority >= queue.priority:
                findings.note(
                    at,
                    f"PREEMPTION: {name} (priority {queue.priority}) may preempt {other}, "
                    f"which has the priority {queues[other].priority} and is not below it",
                )
        for other in queue.preemption.preemptable_by or ():
            if _known(name, other, queues, at, findings) and queues[other].priority <= queue.priority:
                findings.note(
                    at,
                    f"PREEMPTION: {name} (priority {queue.priority}) may be preempted by {other}, "
                    f"which has the priority {queues[other].priority} and is not above it",
                )


def _known(name: str, other: str, queues: Mapping[str, Queue], at: SourcePlace, findings: Findings) -> bool:
    if other == name:
        findings.error(at, f"PREEMPTION: queue {name} names itself")
    elif other not in queues:
        near = suggestion(other, queues)
        findings.error(at, f"PREEMPTION: queue {other} is not defined in lsb.queues{near}")
    else:
        return True
    return False


def _preferred(word: str) -> tuple[str, int]:
    name, plus, level = word.partition("+")
    return queue_name(name), _LEVEL(level) if plus and level else int(bool(plus))


def spared_time(text: str) -> SparedTime:
    """`[HOURS:]MINUTES` or `PERCENT%`. Raises BadRequest."""
    if text.endswith("%"):
        return SparedTime(real(0, 100)(text[:-1].rstrip()), is_percent=True)
    return SparedTime(float(time_s(text)))


def _interval_s(text: str) -> int:
    """Minutes. Raises BadRequest."""
    return 60 * _MINUTES(text)


def read_sparing(settings: KeyValues) -> Sparing:
    """All of a file that has them."""
    return Sparing(
        settings.take("NO_PREEMPT_RUN_TIME", spared_time, None),
        settings.take("NO_PREEMPT_FINISH_TIME", spared_time, None),
        settings.take("MAX_JOB_PREEMPT", _PREEMPTIONS, None),
        settings.take("NO_PREEMPT_INTERVAL", _interval_s, None),
    )
