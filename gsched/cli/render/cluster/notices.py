"""`gadmin hist` (badmin hist): what was done to hosts and queues, and when the master started.

Source of the sentences: badmin(8) of LSF 10.1. An event that cannot be read is told as just that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import tzinfo

import msgspec

from gsched.cli.render.text.text_columns import printable
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.event import (
    AnyEvent,
    ConfigApplied,
    GpuClosed,
    GpuOpened,
    HistoryArchived,
    HostClosed,
    HostOpened,
    NumbersRaised,
    QueueControlled,
    StoreRenewed,
    decode_event,
)
from gsched.model.views.view import EventRecord

MASTER, QUEUE, HOST = "mbd", "queue", "host"
_KINDS = {
    "config_applied": MASTER,
    "queue_controlled": QUEUE,
    "host_closed": HOST,
    "host_opened": HOST,
    "gpu_closed": HOST,
    "gpu_opened": HOST,
    "numbers_raised": MASTER,
    "history_archived": MASTER,
    "store_renewed": MASTER,
}


def render_notices(
    records: Iterable[EventRecord], zone: tzinfo, *, kinds: Collection[str], names: Collection[str] = ()
) -> str:
    """A line per event of these kinds; of the named queues or hosts only where names are given."""
    lines = []
    for record in records:
        kind = _KINDS.get(record.kind)
        if kind is None:
            continue
        event = _read(record)
        told = _told(event, zone) if event is not None else [("", _unreadable(record))]
        for name, text in told:
            if text and kind in kinds and (not names or name in names):
                lines.append(f"{long_stamp(record.at, zone)}: {text}\n")
    return "".join(lines)


def _read(record: EventRecord) -> AnyEvent | None:
    try:
        return decode_event(record.payload.encode())
    except (msgspec.MsgspecError, ValueError):
        return None


def _unreadable(record: EventRecord) -> str:
    return f"A record cannot be read (event {record.seq}, {record.kind})"


_QUEUE_WORDS = {"open": "opened", "close": "closed", "activate": "activated", "inactivate": "inactivated"}


def _queue_word(event: QueueControlled) -> str:
    """What was done; of an old record what the queue was from then on."""
    now = f"{'opened' if event.is_open else 'closed'} and {'activated' if event.is_active else 'inactivated'}"
    return _QUEUE_WORDS.get(event.action, now)


def _told(event: AnyEvent, zone: tzinfo) -> Iterator[tuple[str, str]]:
    """(queue or host, sentence)."""
    match event:
        case HostClosed(host=host, by=by, comment=comment):
            yield host, f"Host <{host}> closed by administrator <{by}> {printable(comment)}."
        case HostOpened(host=host, by=by):
            yield host, f"Host <{host}> opened by administrator <{by}> ."
        case GpuClosed(host=host, uuid=uuid, index=index, by=by, comment=comment, until=until):
            end = f" until {long_stamp(until, zone)}" if until is not None else ""
            why = f" {printable(comment)}" if comment else ""
            yield host, f"GPU <{index}> ({printable(uuid)}) of host <{host}> closed by administrator <{by}>{end}{why}."
        case GpuOpened(host=host, uuid=uuid, index=index, by=by):
            who = f"by administrator <{by}>" if by else "as its time was over"
            yield host, f"GPU <{index}> ({printable(uuid)}) of host <{host}> opened {who}."
        case QueueControlled(queue=queue, by=by, comment=comment):
            why = f" {printable(comment)}" if comment else ""
            yield queue, f"Queue <{queue}> {_queue_word(event)} by user or administrator <{by}>{why}."
        case ConfigApplied():
            if not event.started:
                yield "", f"mbatchd on host <{event.host or 'unknown'}> died: reconfiguration initiated."
            if event.host:
                counts = f"{event.servers} server hosts, {event.queues} queues"
                yield "", f"mbatchd started on host <{event.host}>; cluster name <{event.cluster}>, {counts}."
        case NumbersRaised(next_job_id=number, why=why):
            yield "", f"Job numbers begin at <{number}> from now on: {printable(why)}."
        case HistoryArchived(by=by, part=part):
            yield "", f"Jobs of <{printable(part)}> that an archive has leave the store by administrator <{by}>."
        case StoreRenewed(generation=generation):
            yield "", f"The store goes on as generation <{generation}>: what it had after the copy at hand is lost."
        case _:
            return
