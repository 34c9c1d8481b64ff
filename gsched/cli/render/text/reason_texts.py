"""Pending reasons as lines: LSF's text, then the count of hosts, then our numbers in parentheses.

Source of the levels: bjobs(1) of LSF 10.1, options -p0 to -p3.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from itertools import takewhile

from gsched.base.coded_text import CodedText, CodedValue, sentence
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.jobs.reason import NEVER, UNKNOWN, PendingReason, PlannedStart

EVERY_REASON, KEY_REASON, CANDIDATES, ALL_HOSTS = range(4)
DEFAULT_LEVEL = CANDIDATES


def reason_text(reason: PendingReason, zone: tzinfo | None = None) -> str:
    """`Not enough job slot(s): 2 hosts (3 wanted, 0 of 4 free on a)`, without the closing `;`. Times are of `zone`, and
    where there is none they are UTC and say so.
    """
    text = sentence(reason.text)
    if reason.hosts:
        text += f": {reason.hosts} host{'s' if reason.hosts > 1 else ''}"
    if reason.until is not None:
        text += f" until {long_stamp(reason.until, zone or UTC)}{'' if zone else ' UTC'}"
    return f"{text} ({sentence(reason.detail)})" if reason.detail else text


def reason_texts(
    reasons: Sequence[PendingReason],
    level: int = DEFAULT_LEVEL,
    *,
    with_hosts: bool = False,
    zone: tzinfo | None = None,
) -> tuple[str, ...]:
    """The lines of one level; never empty when there are reasons.

    0: every reason, `with_hosts` by the names of its hosts; 1: the key reason alone; 2: those of the hosts that the job
    could use, most hosts first, or of all hosts where it could use none; 3: those of the other hosts too.
    """
    if level == KEY_REASON:
        return tuple(reason_text(reason, zone) for reason in reasons[:1])
    if level == EVERY_REASON:
        return tuple(_by_name(reason, zone) if with_hosts else reason_text(reason, zone) for reason in reasons)
    wanted = [reason for reason in reasons if reason.candidate] or list(reasons)
    ordered = _most_hosts_first(wanted)
    if level == ALL_HOSTS:
        ordered += _most_hosts_first([reason for reason in reasons if reason not in wanted])
    return tuple(reason_text(reason, zone) for reason in ordered)


def _most_hosts_first(reasons: list[PendingReason]) -> list[PendingReason]:
    """Reasons of the job itself come first, in their order; those that stand behind hosts' reasons come last."""
    first = list(takewhile(lambda reason: not reason.hosts, reasons))
    return first + sorted(reasons[len(first) :], key=lambda reason: -reason.hosts)


def _by_name(reason: PendingReason, zone: tzinfo | None) -> str:
    if not reason.names:
        return reason_text(reason, zone)
    more = "" if len(reason.names) >= reason.hosts else f" and {reason.hosts - len(reason.names)} more"
    text = f"{sentence(reason.text)}: {', '.join(reason.names)}{more}"
    return f"{text} ({sentence(reason.detail)})" if reason.detail else text


def planned_text(planned: PlannedStart, *, unknown: bool = False) -> str:
    """What is known of the start besides its time: where, and what it waits for; empty when nothing is. `unknown`: it
    has been said already that the time is not known, or that it will never come.
    """
    why: CodedValue = planned.text
    if unknown and isinstance(why, CodedText) and why.code in (NEVER, UNKNOWN):
        why = why.values[0]
    where = f"on host(s) {' '.join(f'<{host}>' for host in planned.hosts)}" if planned.hosts else ""
    return ", ".join(part for part in (where, str(why)) if part)
