"""badmin hist and badmin showstatus."""

from __future__ import annotations

from datetime import UTC

from gsched.cli.render.cluster.master_status import MasterStatus, render_status
from gsched.cli.render.cluster.notices import render_notices
from gsched.model import event as events
from gsched.model.views.view import EventRecord

AT = 1499250851.0
ALL = ("mbd", "queue", "host")


def record(seq: int, event: events.AnyEvent) -> EventRecord:
    payload = events.encode_event(event).decode()
    return EventRecord(seq=seq, at=event.at, kind=events.kind_of(event), payload=payload)


RECORDS = [
    record(1, events.ConfigApplied(at=AT, digest="d", by="", started=True, host="m", cluster="c", servers=3, queues=2)),
    record(2, events.HostClosed(at=AT + 1, host="h1", by="root", comment="new disk")),
    record(3, events.HostOpened(at=AT + 2, host="h1", by="root")),
    record(4, events.QueueControlled(at=AT + 3, queue="night", by="ann", is_open=False, action="close")),
    record(
        5, events.QueueControlled(at=AT + 4, queue="day", by="ann", is_active=False, action="inactivate", comment="x")
    ),
    record(6, events.QueueControlled(at=AT + 5, queue="day", by="ann", is_open=False)),
    record(7, events.ConfigApplied(at=AT + 6, digest="e", by="ann", host="m", cluster="c", servers=4, queues=2)),
    record(8, events.JobGroupMade(at=AT + 7, group="/a", by="ann")),
    record(9, events.GpuClosed(at=AT + 7, host="h1", uuid="GPU-a", index=3, by="root", comment="fan", until=AT + 60)),
    record(10, events.GpuClosed(at=AT + 7, host="h1", uuid="GPU-b", index=4, by="root")),
    record(11, events.GpuOpened(at=AT + 7, host="h1", uuid="GPU-b", index=4, by="ann")),
    record(12, events.GpuOpened(at=AT + 60, host="h1", uuid="GPU-a", index=2, by="")),
    EventRecord(seq=9, at=AT + 8, kind="host_closed", payload="{"),
]


def test_everything_that_was_done() -> None:
    assert render_notices(RECORDS, UTC, kinds=ALL) == (
        "Wed Jul  5 10:34:11: mbatchd started on host <m>; cluster name <c>, 3 server hosts, 2 queues.\n"
        "Wed Jul  5 10:34:12: Host <h1> closed by administrator <root> new disk.\n"
        "Wed Jul  5 10:34:13: Host <h1> opened by administrator <root> .\n"
        "Wed Jul  5 10:34:14: Queue <night> closed by user or administrator <ann>.\n"
        "Wed Jul  5 10:34:15: Queue <day> inactivated by user or administrator <ann> x.\n"
        "Wed Jul  5 10:34:16: Queue <day> closed and activated by user or administrator <ann>.\n"
        "Wed Jul  5 10:34:17: mbatchd on host <m> died: reconfiguration initiated.\n"
        "Wed Jul  5 10:34:17: mbatchd started on host <m>; cluster name <c>, 4 server hosts, 2 queues.\n"
        "Wed Jul  5 10:34:18: GPU <3> (GPU-a) of host <h1> closed by administrator <root>"
        " until Wed Jul  5 10:35:11 fan.\n"
        "Wed Jul  5 10:34:18: GPU <4> (GPU-b) of host <h1> closed by administrator <root>.\n"
        "Wed Jul  5 10:34:18: GPU <4> (GPU-b) of host <h1> opened by administrator <ann>.\n"
        "Wed Jul  5 10:35:11: GPU <2> (GPU-a) of host <h1> opened as its time was over.\n"
        "Wed Jul  5 10:34:19: A record cannot be read (event 9, host_closed)\n"
    )


def test_one_kind_and_one_queue() -> None:
    assert len(render_notices(RECORDS, UTC, kinds=("queue",)).splitlines()) == 3
    assert "night" in render_notices(RECORDS, UTC, kinds=("queue",), names=("night",))
    assert "day" not in render_notices(RECORDS, UTC, kinds=("queue",), names=("night",))
    assert render_notices(RECORDS, UTC, kinds=("host",), names=("h2",)) == ""


def test_words_stand_where_monitors_look_for_them() -> None:
    status = MasterStatus(
        servers=(7, 8),
        clients=2,
        cpus=14,
        cores=50,
        slots=51,
        states={"ok": 6, "closed": 1, "unavail": 1},
        jobs={"running": 3, "suspended": 1, "pending": 2, "finished": 4},
        users=5,
        groups=9,
        active_users=6,
        started="Sat Nov 21 13:50:42 2026",
    )
    words = render_status(status).split()
    peaks = [words[place].split("/")[0] for place in (9, 11, 13, 15, 17)]
    assert peaks == ["2", "7", "14", "50", "51"]
    assert [words[place] for place in range(21, 31, 2)] == ["8", "6", "1", "0", "1"]
    assert [words[place] for place in range(33, 43, 2)] == ["10", "3", "1", "2", "4"]
    assert (words[50], words[55]) == ("9", "6")
