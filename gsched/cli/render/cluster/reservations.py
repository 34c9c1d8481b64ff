"""`grsvs` (brsvs): advance reservations, a further line for each further host. GPUS is gsched's own column.

Source of the columns: brsvs(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from gsched.cli.render.text.text_columns import left, printable
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.views.room_view import ReservationPolicyView, ReservationView

_WIDTHS = (16, 8, 12, 10, 20, 26)
_HEADER = ("RSVID", "TYPE", "USER", "NCPUS", "RSV_HOSTS", "TIME_WINDOW", "GPUS")


def render_reservations(reservations: Iterable[ReservationView], zone: tzinfo, *, header: bool = True) -> str:
    """The table; NCPUS and RSV_HOSTS are `in use/reserved`."""
    lines = [_row(_HEADER)] if header else []
    for each in reservations:
        used, slots = sum(each.used.values()), sum(each.slots.values())
        window = f"{_moment(each.start, zone)}-{_moment(each.end, zone)}"
        hosts = sorted({*each.slots, *each.gpus})
        for number, host in enumerate(hosts or [""]):
            place = f"{host}:{each.used.get(host, 0)}/{each.slots.get(host, 0)}" if host else "none:0/0"
            gpus = str(each.gpus.get(host, 0))
            if number:
                lines.append(_row(("", "", "", "", place, "", gpus)))
            else:
                users = printable(",".join(each.users))
                lines.append(_row((each.name, "user", users, f"{used}/{slots}", place, window, gpus)))
    return "".join(lines)


def render_long(reservations: Iterable[ReservationView], zone: tzinfo) -> str:
    """-l: a record for each, with its times in full."""
    found = list(reservations)
    parts = []
    for each in found:
        status = "Active" if each.active else "Inactive"
        times = f"{long_stamp(each.start, zone, year=True)} - {long_stamp(each.end, zone, year=True)}"
        parts.append(
            render_reservations([each], zone)
            + f"Reservation Status: {status}\nUsers: {printable(' '.join(each.users))}\nTime window: {times}\n"
        )
    return "\n".join(parts)


def render_policies(policies: Iterable[ReservationPolicyView]) -> str:
    """-c: a record for each, in the words of lsb.resources; what a policy leaves open is `all`."""
    return "\n".join(
        f"Policy Name: {printable(each.name)}\nUsers: {printable(each.users or 'all')}\n"
        f"Hosts: {printable(each.hosts or 'all')}\nTime Window: {printable(each.time_window or 'all')}\n"
        for each in policies
    )


def _moment(at: float, zone: tzinfo) -> str:
    """`11/12/18/0`: month, day, hour, minute."""
    when = datetime.fromtimestamp(at, zone)
    return f"{when.month}/{when.day}/{when.hour}/{when.minute}"


def _row(cells: tuple[str, ...]) -> str:
    padded = [left(text, size) for text, size in zip(cells, _WIDTHS, strict=False)]
    return " ".join((*padded, cells[-1])).rstrip() + "\n"
