"""What `gadmin showstatus` counts: hosts, jobs, users. Asks one master, changes nothing."""

from __future__ import annotations

from datetime import tzinfo

import msgspec

from gsched.cli.render.cluster.master_status import MasterStatus
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.event import ConfigApplied, decode_event
from gsched.model.views.catalogue import TimeSpan
from gsched.model.views.view import JobFilter
from gsched.wire.calls.client import Client


def master_status(client: Client, zone: tzinfo) -> MasterStatus:
    """The counts of now; finished jobs are those that gjobs -a lists."""
    hosts = client.hosts()
    servers = [host for host in hosts if host.server]
    there = [host for host in servers if host.status not in ("unavail", "unreach")]
    states: dict[str, int] = {}
    for host in servers:
        word = host.status.partition("_")[0]
        states[word] = states.get(word, 0) + 1
    known = client.catalogue.users(["all"])
    users = [user for user in known if not user.name.endswith("/") and user.name != "default"]
    finished = sum(1 for _ in client.jobs(JobFilter(user="all", states=("DONE", "EXIT"), finished=True)))
    started, reconfigured = _moments(client, zone)
    suspended = sum(user.suspended_jobs for user in users)
    return MasterStatus(
        servers=(len(there), len(servers)),
        clients=len(hosts) - len(servers),
        cpus=sum(host.ncpus for host in there),
        cores=sum(host.ncpus for host in there),
        slots=sum(host.max_slots or 0 for host in there),
        states=states,
        jobs={
            "running": sum(user.started_jobs for user in users) - suspended,
            "suspended": suspended,
            "pending": sum(user.pending_jobs for user in users),
            "finished": finished,
        },
        users=len(users),
        groups=len(known) - len(users) - any(user.name == "default" for user in known),
        active_users=sum(1 for user in users if user.started_jobs or user.pending_jobs),
        started=started,
        reconfigured=reconfigured,
    )


def _moments(client: Client, zone: tzinfo) -> tuple[str, str]:
    """When the master was started last, and when it took over new files last."""
    started = reconfigured = ""
    for record in client.catalogue.notices(TimeSpan()):
        if record.kind != "config_applied":
            continue
        try:
            event = decode_event(record.payload.encode())
        except (msgspec.MsgspecError, ValueError):
            continue
        if isinstance(event, ConfigApplied) and event.started:
            started = long_stamp(record.at, zone, year=True)
        else:
            reconfigured = long_stamp(record.at, zone, year=True)
    return started, reconfigured
