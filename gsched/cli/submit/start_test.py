"""`gsub --test-only`: when a job could start, said without submitting it. The name is that of sbatch's option.

The master plans it beside the jobs that wait, and forgets it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_texts
from gsched.cli.session.call import Call
from gsched.cli.session.time_zone import zone_of
from gsched.model.views.view import StartForecast

_FIRST = {
    "hold": "It would be held (-H); this is as if it were resumed now.",
    "time": "It would wait for its begin time (-b); this is as if that had come.",
    "condition": "It would wait for its condition (-w); this is as if that held.",
}
_OTHERS = "Other jobs come before it, and no start is planned behind them; this is as if it were the only one."


def start_lines(call: Call, found: StartForecast) -> Iterator[str]:
    """What is known of the start, for people: a line for each thing."""
    if found.waits_for in _FIRST:
        yield _FIRST[found.waits_for]
    if found.is_alone:
        yield _OTHERS
    yield _start(call, found)
    if not found.starts_now:
        yield from (f" {text};" for text in reason_texts(found.reasons, ALL_HOSTS, with_hosts=True))
    yield "Job not submitted."


def _start(call: Call, found: StartForecast) -> str:
    queue = f" in queue <{found.queue}>" if found.queue else ""
    if found.starts_now:
        return f"Job could start now on host(s) {' '.join(f'<{host}>' for host in found.hosts)}{queue}."
    planned = found.planned
    if planned is None:
        return f"No start of the job is planned{queue}:"
    told = planned_text(planned, unknown=planned.at is None)
    if planned.at is None:
        return f"It is not known when the job could start{queue}" + (f": {told}" if told else ":")
    at = datetime.fromtimestamp(planned.at, zone_of(call.env)).strftime("%a %b %e %H:%M:%S %Y")
    return f"Job could start at {at}{queue}" + (f", {told}" if told else "") + "; until then:"
