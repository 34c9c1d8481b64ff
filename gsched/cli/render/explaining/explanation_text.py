"""`gjobs -p4` and `gadmin explain`: why one job waits, who is in its way, and until when, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.base.ids import show_job
from gsched.cli.render.explaining.measure_text import measure_lines
from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_text, reason_texts
from gsched.cli.render.text.text_columns import printable
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.jobs.reason import PlannedStart
from gsched.model.views.explanation import (
    AwaitedEnd,
    JobExplanation,
    RefusingHost,
    RefusingHosts,
    ResourceHolder,
    StartChange,
    StartSuggestion,
    UnofferedGpu,
)

_FIRST = {
    "hold": "not while it is held; gresume lets it go on",
    "time": "not before the time that it waits for",
    "condition": "not before its dependency condition (-w) holds",
    "retry": "when it is tried again after its failed start",
    "pause": "when the pause before its next run is over",
    "force": "as soon as the host that grun named has room for it",
}


def explanation_lines(found: JobExplanation, zone: tzinfo) -> Iterator[str]:
    """Without newlines. Times in the zone."""
    yield (
        f"Job <{show_job(found.job_id)}>, User <{printable(found.user)}>, Queue <{printable(found.queue)}>, "
        f"Status <{found.state}>"
    )
    reasons = reason_texts(found.reasons, ALL_HOSTS, zone=zone)
    yield f"Waits because: {reasons[0] if reasons else 'it is new'}"
    yield from (f"  also: {text}" for text in _of_no_host(found, zone))
    yield f"Expected start: {start_text(found, zone)}"
    yield from provided_lines(found)
    yield from usual_lines(found, zone)
    yield from suggestion_lines(found.suggestions)
    yield from measure_lines(found.measures, is_cut=found.measures_cut)
    yield from hosts_lines(found.hosts, zone)


def provided_lines(found: JobExplanation) -> Iterator[str]:
    """On what an expected start rests besides: what is submitted to higher queues comes first."""
    if found.higher_queues:
        *others, last = map(printable, found.higher_queues)
        queues = f"queues {', '.join(others)} and {last}" if others else f"queue {last}"
        yield f"That is if nothing is submitted to {queues} before, whose jobs come first"


def usual_lines(found: JobExplanation, zone: tzinfo) -> Iterator[str]:
    """By when such jobs start; no line where too few are known."""
    if found.p50_at is not None and found.p90_at is not None:
        half, most = long_stamp(found.p50_at, zone), long_stamp(found.p90_at, zone)
        yield f"Judging by {found.such_jobs} such jobs that waited: by {half} one half starts, by {most} nine in ten"


def hosts_lines(hosts: Iterable[RefusingHosts], zone: tzinfo) -> Iterator[str]:
    """Hosts by reason, with whoever is in the way."""
    for group in hosts:
        yield from _group(group, zone)


def suggestion_lines(suggestions: Iterable[StartSuggestion]) -> Iterator[str]:
    """What would start it now, a line each."""
    for place, each in enumerate(suggestions):
        if not place:
            yield "It would start now, with one of:"
        words = ", ".join(change_text(change) for change in each.changes)
        typed = each.command or each.options
        command = f": {printable(typed)}" if typed else ""
        where = f" (on {', '.join(map(printable, each.hosts))})" if each.hosts else ""
        yield f"  {words}{where}{command}"


_CHANGES = {
    "gpus": "{} GPUs on each host",
    "gmem": "gmem={}",
    "slots": "-n {}",
    "queue": "-q {}",
    "run_limit": "-W {}, so that it ends before planned jobs start",
}
_LEFT_OUT = {
    "gmodel": "any model of GPU",
    "alone": "GPUs that others may share",
    "hosts": "without -m",
    "exclusive": "without -x",
    "reservation": "without -U",
    "select": "without select[]",
}


def change_text(change: StartChange) -> str:
    """`-n 1`, `without -m`: what is asked for otherwise."""
    if not change.value:
        return _LEFT_OUT.get(change.what, f"without {change.what}")
    if change.what == "gpus" and change.value == "1":
        return "1 GPU on each host"
    form = _CHANGES.get(change.what)
    if form is not None:
        return form.format(printable(change.value))
    name = change.what.removesuffix("]")  # rusage[mem]
    return f"{printable(name)}={printable(change.value)}{']' if name != change.what else ''}"


def _of_no_host(found: JobExplanation, zone: tzinfo) -> list[str]:
    """Further reasons that are no host's: those of hosts stand with the hosts."""
    return [reason_text(reason, zone) for reason in found.reasons[1:] if not reason.hosts]


def start_text(found: JobExplanation, zone: tzinfo, *, is_planned: bool = False) -> str:
    """When it is expected to start, and what it waits for; `never: why` or `unknown: why`. `is_planned`: what must come
    first has been told already.
    """
    if found.waits_for and not is_planned:
        return ", ".join([_FIRST.get(found.waits_for, found.waits_for), *_until(found, zone)])
    if found.starts_now:
        return "now, with the next scheduling cycle"
    planned = found.planned
    if planned is None or planned.at is None:
        return _no_time(planned, is_alone=found.is_alone)
    where = planned_text(PlannedStart(at=planned.at, hosts=planned.hosts))
    parts = [f"{long_stamp(planned.at, zone, year=True)} {where}".rstrip()]
    parts += [_awaited(each, zone) for each in found.awaits[:1]]
    if planned.text:
        parts.append(sentence(planned.text))
    if found.is_alone:
        return f"not before {', '.join(parts)}; other jobs come before it"
    return ", ".join(parts) + ("" if found.is_reserved else "; planned behind all jobs that come before it")


def _until(found: JobExplanation, zone: tzinfo) -> Iterator[str]:
    """When what comes first is expected."""
    if found.waits_until is not None:
        yield long_stamp(found.waits_until, zone, year=True)
    yield from (_awaited(each, zone) for each in found.awaits)


def _no_time(planned: PlannedStart | None, *, is_alone: bool) -> str:
    if planned is not None and planned.text:
        return sentence(planned.text)
    return "unknown: other jobs come before it" if is_alone else "unknown: no start is planned for it"


def _awaited(end: AwaitedEnd, zone: tzinfo) -> str:
    whose = f" of {printable(end.user)}" if end.user else ""
    started = "" if end.is_started else ", which waits as well,"
    return f"when job {show_job(end.job_id)}{whose}{started} {_end(end, long_stamp(end.at, zone), ', ')}"


def _end(end: AwaitedEnd | ResourceHolder, time: str, comma: str = " ") -> str:
    """What it does, and when."""
    if end.gives_gpus:
        return f"gives {_counted(end.gives_gpus, 'GPU')} back{comma}by {time}"
    if end.is_ending:
        return f"is asked to end{comma}by {time}"
    return f"ends{comma}by {time} at its run limit" if end.is_limit else f"ends{comma}about {time} as such jobs do"


def _group(group: RefusingHosts, zone: tzinfo) -> Iterator[str]:
    usable = "" if group.candidate else ", which it could not use anyway"
    yield f"{sentence(group.text)}: {group.count} {'host' if group.count == 1 else 'hosts'}{usable}"
    if not group.candidate:
        return
    for host in group.hosts:
        yield from _host(host, zone)
    if group.count > len(group.hosts):
        yield f"  and {group.count - len(group.hosts)} more"


def _host(host: RefusingHost, zone: tzinfo) -> Iterator[str]:
    yield f"  {printable(host.host)}" + (f": {sentence(host.detail)}" if host.detail else "")
    for holder in host.holders:
        yield f"    {_holder(holder, zone)}"
    if host.more_holders:
        yield f"    and {host.more_holders} more {'job' if host.more_holders == 1 else 'jobs'}"
    for gpu in host.gpus:
        yield f"    {_gpu(gpu)}"


def _holder(holder: ResourceHolder, zone: tzinfo) -> str:
    held = [_counted(holder.slots, "slot")] if holder.slots else []
    held += [_counted(holder.gpus, "GPU")] if holder.gpus else []
    if holder.amount:
        held.append(f"{holder.amount:.10g} of it")
    who = f" of {printable(holder.user)}" if holder.user else ""
    state = f", {holder.state}," if holder.state not in ("", "RUN") else ""
    end = "no known end" if holder.ends_at is None else _end(holder, long_stamp(holder.ends_at, zone))
    return f"job {show_job(holder.job_id)}{who}{state} holds {' and '.join(held) or 'the host'}; {end}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _gpu(gpu: UnofferedGpu) -> str:
    text = f"GPU {gpu.index} is not offered"
    if gpu.problem:
        text += f": {sentence(gpu.problem)}"
    if gpu.foreign_pids:
        text += f"; used by process{'es' if len(gpu.foreign_pids) > 1 else ''} {', '.join(map(str, gpu.foreign_pids))}"
    return text
