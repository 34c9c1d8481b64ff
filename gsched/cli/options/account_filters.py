"""Which finished jobs the filters of a command line mean, for all commands that look at accounts of jobs."""

from __future__ import annotations

from gsched.cli.session.call import Call
from gsched.dialect.options import Option, Parsed
from gsched.model.views.catalogue import AccountFilter, TimeSpan

OF_USERS = Option("u", "USERS", "jobs of these users; me: yours; all: everybody's", '-u "ann bob"')
OF_QUEUES = Option("q", "QUEUES", "only jobs of these queues")
ON_HOSTS = Option("m", "HOSTS", "only jobs that ran on one of these hosts")
OF_PROJECTS = Option("P", "PROJECTS", "only jobs of these projects")
ENDED_IN = Option("C", "TIMES", "only jobs that ended in that time", "-C 2026/11/1,2026/11/30")


def account_filter(call: Call, options: Parsed, otherwise: str, completed: TimeSpan) -> AccountFilter:
    """What -u, -q, -m and -P say; `otherwise`: whose jobs where there is no -u. `me` is the caller, `all` everybody."""
    users = [call.user if name == "me" else name for name in options.last("u", otherwise).split()]
    return AccountFilter(
        users=() if "all" in users else tuple(users),
        queues=tuple(options.last("q").split()),
        projects=tuple(options.last("P").split()),
        hosts=tuple(options.last("m").split()),
        completed=completed,
    )
