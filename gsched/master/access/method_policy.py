"""Every call that the master answers, and who may make it. A call without a rule is answered to nobody.

Who may do what to which job or queue is decided where the job is known, by authorization; here stands what can be
said of the call as such. It only lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Who(StrEnum):
    """Whom a call is for."""

    EVERYBODY = "every proven user; the answer holds what everybody may know"
    HIMSELF = "every proven user, for himself"
    CONTROLLERS = "job by job, queue by queue or host by host: the owner, and who administers it"
    OWNER = "the job's owner, and for its service whom the owner names"
    CLUSTER = "administrators of the cluster"
    AGENT = "the agent of a host, which proves itself in its session"


@dataclass(frozen=True, slots=True)
class Rule:
    """`changes`: it changes something, or shows what is not everybody's; it is logged, and root may not unless
    configured. `weighs`: it looks at many jobs or keeps the engine busy, so that one user may have only a few of them
    under way, queries and changes apart. `quiet`: it is one of many small ones, of which only refusals are logged.
    `in_parts`: its answers are parts of one, and are logged together when it is over. `reads`: it only shows what is
    not everybody's: what was shown or denied is logged, again and again as one read (see repeated_reads), and where
    there was nothing to be shown, as of a job that has not started, nothing is.
    """

    who: Who
    changes: bool = False
    weighs: bool = False
    quiet: bool = False
    in_parts: bool = False
    reads: bool = False

    @property
    def load(self) -> str:
        """What it adds to of that of which a user may have only a few under way: queries, changes or nothing."""
        return "" if not self.weighs else "changes" if self.changes else "queries"


_READ = Rule(Who.EVERYBODY)
_READ_MANY = Rule(Who.EVERYBODY, weighs=True)
_CONTROL = Rule(Who.CONTROLLERS, changes=True)
_READ_PRIVATE = Rule(Who.CONTROLLERS, changes=True, reads=True)
_CONTROL_MANY = Rule(Who.CONTROLLERS, changes=True, weighs=True)
_CONTROL_IN_PARTS = Rule(Who.CONTROLLERS, changes=True, weighs=True, in_parts=True)
_CLUSTER = Rule(Who.CLUSTER, changes=True)

RULES: dict[str, Rule] = {
    "Scheduler.Submit": Rule(Who.HIMSELF, changes=True, weighs=True),
    "Scheduler.SubmitInParts": Rule(Who.HIMSELF, changes=True, weighs=True, in_parts=True),
    "Scheduler.Control": _CONTROL_MANY,
    "Scheduler.ControlInParts": _CONTROL_IN_PARTS,
    "Scheduler.HostControl": _CONTROL,
    "Scheduler.Reconfigure": _CLUSTER,
    "Scheduler.Jobs": _READ_MANY,
    "Scheduler.Hosts": _READ_MANY,
    "Scheduler.Queues": _READ_MANY,
    "Scheduler.Cluster": _READ,
    "Scheduler.History": _READ_MANY,
    "Scheduler.Events": _READ,
    "Scheduler.Output": _READ_PRIVATE,
    "Scheduler.Texts": Rule(Who.OWNER, changes=True, reads=True),
    "Scheduler.Attachment": _READ_PRIVATE,
    "Administration.Modify": _CONTROL_MANY,
    "Administration.ModifyInParts": _CONTROL_IN_PARTS,
    "Administration.QueueControl": _CONTROL,
    "Administration.GpuControl": _CONTROL,
    "Administration.GroupControl": _CONTROL,
    "Administration.ReservationControl": _CONTROL_MANY,
    "Administration.EndOrphans": _CLUSTER,
    "Administration.RemoveArchived": _CLUSTER,
    "Administration.Groups": _READ_MANY,
    "Administration.Reservations": _READ_MANY,
    "Administration.Limits": _READ,
    "Administration.Guarantees": _READ_MANY,
    "Administration.Arrays": _READ_MANY,
    "Administration.Pending": _READ_MANY,
    "Administration.SlotSums": _READ_MANY,
    "Administration.Fragmentation": _READ_MANY,
    "Administration.Condition": _READ_MANY,
    "Administration.Forecast": _READ_MANY,
    "Administration.Explain": _READ_MANY,
    "Administration.WhyNot": _READ_MANY,
    "Administration.DryRun": _READ_MANY,
    "Administration.Metrics": _READ_MANY,
    "Catalogue.Users": _READ_MANY,
    "Catalogue.Groupings": _READ,
    "Catalogue.Applications": _READ_MANY,
    "Catalogue.Resources": _READ,
    "Catalogue.Accounts": _READ_MANY,
    "Catalogue.Notices": _READ_MANY,
    "JobTables.Read": _READ_MANY,
    "Past.Histories": _READ_MANY,
    "Past.GpuUseSums": _READ_MANY,
    "Past.At": _READ_MANY,
    "Waiting.Ends": _READ,
    "Fleet.Versions": _READ,
    "Fleet.Daemons": _CLUSTER,
    "Fleet.HandOver": _CLUSTER,
    "Fleet.AuditLog": _CLUSTER,
    "Terminal.Attach": Rule(Who.OWNER, changes=True),
    "Terminal.Type": Rule(Who.OWNER, changes=True, quiet=True),
    "JobServices.Find": Rule(Who.OWNER, changes=True),
    "JobServices.Connect": Rule(Who.OWNER, changes=True, quiet=True),
    "AgentService.Session": Rule(Who.AGENT),
    "AgentService.Serve": Rule(Who.AGENT),
}
"""SERVICE.METHOD of the protocol's definition -> its rule."""


def rule_of(method: str) -> Rule | None:
    """The rule of a method by gRPC's path, `/gsched.wire.v1.Scheduler/Submit`; None: there is none."""
    service, _, name = method.lstrip("/").partition("/")
    return RULES.get(f"{service.rpartition('.')[2]}.{name}")
