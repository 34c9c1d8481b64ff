"""`gjobs -psum`: what all pending jobs wait for. Source of the layout: bjobs(1) of LSF 10.1, option -psum."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from gsched.base.coded_text import coded, sentence
from gsched.cli.render.text.text_columns import left, printable, width
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.views.room_view import PendingSummary, ReasonCount

HOST_BASED = coded("pending.host_based")


def render_summary(summary: PendingSummary, cluster: str, zone: tzinfo) -> str:
    """Reasons with the jobs that have them, then those of hosts with how often hosts gave them."""
    at = long_stamp(summary.published_at, zone, year=True)
    text = f"Pending reason summary: published {at}\nSummarizing {summary.jobs} pending jobs in cluster ({cluster}):\n"
    of_jobs = [count for count in summary.reasons if not count.is_host_based]
    of_hosts = [count for count in summary.reasons if count.is_host_based]
    text += _lines(of_jobs, "job")
    return text + (f"\n{sentence(HOST_BASED)}\n" + _lines(of_hosts, "occurrence") if of_hosts else "")


def _lines(counts: Sequence[ReasonCount], unit: str) -> str:
    names = [f"  {printable(sentence(count.text))}:" for count in counts]
    size = max((width(name) for name in names), default=0)
    return "".join(
        f"{left(name, size)}  {count.count:d} {unit}{'' if count.count == 1 else 's'}\n"
        for name, count in zip(names, counts, strict=True)
    )
