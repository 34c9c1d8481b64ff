"""What a call wants and what came of it, in a few words each for the audit log. Never a secret: no environment, script,
input, or what was typed; of a long list only its beginning. It only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gsched.base.ids import show_job

MOST_LISTED = 20
MOST_TEXT = 200
MOST_SUM = 64
"""Hexadecimal digits."""

AuditFacts = dict[str, str]


def wanted(method: str, request: Any) -> AuditFacts:
    """What a call (`Scheduler.Submit`) is about. `action` is always among it."""
    describe = _WANTED.get(method)
    return describe(request) if describe is not None else {"action": method.partition(".")[2].lower()}


def outcome(method: str, reply: Any) -> AuditFacts:
    """What it was answered: `outcome` ok, partly or refused, and what helps to find it again."""
    if method in ("Scheduler.Submit", "Scheduler.SubmitInParts"):
        return {"outcome": "ok", "jobs": _jobs([each.job_id for each in reply.jobs])}
    if method == "Scheduler.Reconfigure":
        return {"outcome": "ok" if reply.applied or not reply.problems else "refused"}
    results = list(getattr(reply, "results", ())) or list(getattr(reply, "answers", ()))
    errors = [each.error for each in results if each.error]
    if not errors:
        return {"outcome": "ok", **({"jobs": _done(results)} if results and hasattr(results[0], "job_id") else {})}
    return {"outcome": "refused" if len(errors) == len(results) else "partly", "why": _short(errors[0])}


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."


def _list(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return " ".join(_short(word) for word in found[:MOST_LISTED]) + more


def _jobs(numbers: Iterable[int]) -> str:
    """Numbers in a row as first-last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return _list(show_job(a) if a == b else f"{show_job(a)}-{show_job(b)}" for a, b in runs)


def _done(results: Iterable[Any]) -> str:
    return _jobs(each.job_id for each in results)


def _facts(**facts: str) -> AuditFacts:
    """Those that say something."""
    return {name: text for name, text in facts.items() if text}


def _filter(request: Any) -> str:
    if request.job_ids or not request.HasField("filter"):
        return ""
    named = [(field.name, value) for field, value in request.filter.ListFields() if field.name != "ids"]
    return _list(f"{name}={value if isinstance(value, str | bool) else list(value)}" for name, value in named)


def _submit(request: Any) -> AuditFacts:
    queues = dict.fromkeys(each.spec.queue for each in request.submissions)
    return _facts(action="submit", count=str(len(request.submissions)), queue=_list(queue for queue in queues if queue))


def _control(request: Any) -> AuditFacts:
    signal = str(request.signal) if request.signal else ""
    text = _short(request.text) if request.action == "kill" else ""
    about = _facts(on=_jobs(request.job_ids), where=_filter(request), signal=signal, hosts=_list(request.hosts))
    return {"action": _short(request.action) or "control", **about, **_facts(text=text)}


def _modify(request: Any) -> AuditFacts:
    facts = _facts(on=_jobs(request.job_ids), where=_filter(request), fields=_list(request.fields))
    return {"action": "switch" if list(request.fields) == ["queue"] else "modify", **facts}


def _hosts(request: Any) -> AuditFacts:
    return _facts(action=f"host {_short(request.action)}", hosts=_list(request.hosts), comment=_short(request.comment))


def _gpus(request: Any) -> AuditFacts:
    return _facts(action=f"gpu {_short(request.action)}", gpus=_list(request.gpus), comment=_short(request.comment))


def _queues(request: Any) -> AuditFacts:
    names = _list(request.queues) or "all"
    return _facts(action=f"queue {_short(request.action)}", queues=names, comment=_short(request.comment))


def _groups(request: Any) -> AuditFacts:
    return _facts(action=f"group {_short(request.action)}", groups=_list(request.groups))


def _reservation(request: Any) -> AuditFacts:
    return _facts(action=f"reservation {_short(request.action)}", name=_short(request.reservation.name))


def _daemons(request: Any) -> AuditFacts:
    named = _list([*request.hosts, *(["the master"] if request.master else [])])
    return _facts(action=f"daemon {_short(request.action)}", hosts=named)


def _orphans(request: Any) -> AuditFacts:
    return _facts(action="end orphans", names=_list(request.names))


def _archived(request: Any) -> AuditFacts:
    sums = f"{request.jobs_sha256[:MOST_SUM]} {request.events_sha256[:MOST_SUM]}"
    return _facts(action="remove archived", on=_jobs(request.job_ids), part=_short(request.name), sha256=sums)


def _of_job(action: str) -> Callable[[Any], AuditFacts]:
    return lambda request: {"action": action, "on": show_job(request.job_id)}


_WANTED: dict[str, Callable[[Any], AuditFacts]] = {
    "Scheduler.Submit": _submit,
    "Scheduler.SubmitInParts": _submit,
    "Scheduler.Control": _control,
    "Scheduler.ControlInParts": _control,
    "Scheduler.HostControl": _hosts,
    "Scheduler.Reconfigure": lambda request: {"action": "reconfigure" if request.apply else "check configuration"},
    "Scheduler.Output": _of_job("read output"),
    "Scheduler.Texts": _of_job("read script"),
    "Scheduler.Attachment": _of_job("read attachment"),
    "Administration.Modify": _modify,
    "Administration.ModifyInParts": _modify,
    "Administration.QueueControl": _queues,
    "Administration.GpuControl": _gpus,
    "Administration.GroupControl": _groups,
    "Administration.EndOrphans": _orphans,
    "Administration.RemoveArchived": _archived,
    "Administration.ReservationControl": _reservation,
    "Terminal.Attach": _of_job("attach"),
    "Fleet.Daemons": _daemons,
    "Fleet.HandOver": lambda request: _facts(action="hand over", hosts=_short(request.to)),
    "Fleet.AuditLog": lambda request: _facts(action="read audit log", text=_short(request.text)),
    "Terminal.Type": _of_job("type"),
    "JobServices.Find": _of_job("open service"),
    "JobServices.Connect": lambda request: {"action": "connect to service"},
}
