"""`gadmin showstatus` (badmin showstatus): counts of hosts, jobs and users on one page.

Source of the layout: badmin(8) of LSF 10.1; monitors read its words by their place.
"""

from __future__ import annotations

import msgspec


class MasterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of hosts, jobs and users. `servers` is (up, all); states of hosts are LSF's words without subtypes."""

    servers: tuple[int, int] = (0, 0)
    clients: int = 0
    cpus: int = 0
    cores: int = 0
    slots: int = 0
    states: dict[str, int] = {}
    """ok, closed, unreach, unavail -> hosts."""
    jobs: dict[str, int] = {}
    """running, suspended, pending, finished -> jobs."""
    users: int = 0
    groups: int = 0
    active_users: int = 0
    started: str = ""
    reconfigured: str = ""


_HOSTS = (("Ok", "ok"), ("Closed", "closed"), ("Unreachable", "unreach"), ("Unavailable", "unavail"))
_JOBS = ("Running", "Suspended", "Pending", "Finished")


def render_status(status: MasterStatus) -> str:
    """The page. What was most at a time is not kept: the present stands in its place."""
    rows = [
        *(("Clients", status.clients), ("Servers", status.servers[0]), ("CPUs", status.cpus)),
        *(("Cores", status.cores), ("Slots", status.slots)),
    ]
    lines = ["LSF runtime mbatchd information", "    Available local hosts (current/peak):"]
    lines += [f"      {title + ':':<18} {f'{count}/{count}':>12}" for title, count in rows]
    lines += ["", _line("Number of servers", status.servers[1])]
    lines += [_line(title, status.states.get(state, 0), 2) for title, state in _HOSTS]
    lines += ["", _line("Number of jobs", sum(status.jobs.values()))]
    lines += [_line(title, status.jobs.get(title.lower(), 0), 2) for title in _JOBS]
    lines += ["", _line("Number of users", status.users), _line("Number of user groups", status.groups)]
    lines += [_line("Number of active users", status.active_users), ""]
    lines.append(f"    {'Latest mbatchd start:':<25} {status.started or '-'}")
    lines.append(f"    {'Latest mbatchd reconfig:':<25} {status.reconfigured or '-'}")
    return "\n".join(lines) + "\n"


def _line(title: str, count: int, indent: int = 0) -> str:
    return f"    {' ' * indent}{title + ':':<{25 - indent}} {count:>7}"
