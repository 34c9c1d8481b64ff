"""scontrol update JobId=...: keywords as new values for fields of a job.

Source: scontrol(1) of Slurm 22.05, SPECIFICATIONS FOR UPDATE COMMAND, JOBS, whose keywords the tables go through.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes
from gsched.dialect.slurm.job_fields import Reading, field_values
from gsched.dialect.slurm.slurm_values import parse_count, parse_duration, parse_size_mib
from gsched.dialect.spec_values import SpecValues
from gsched.model.jobs.changed_while_running import WHILE_RUNNING
from gsched.model.jobs.job import JobSpec

_OPTIONS: Mapping[str, str] = {
    "account": "account",
    "comment": "comment",
    "deadline": "deadline",
    "dependency": "dependency",
    "eligibletime": "begin",
    "starttime": "begin",
    "jobname": "job-name",
    "name": "job-name",
    "mailtype": "mail-type",
    "mailuser": "mail-user",
    "nodelist": "nodelist",
    "reqnodelist": "nodelist",
    "partition": "partition",
    "reservationname": "reservation",
    "workdir": "chdir",
}
"""Keyword -> the option of sbatch that means the same."""
_OWN = ("arraytaskthrottle", "numcpus", "reqprocs", "numtasks", "numnodes", "reqnodes", "timelimit", "priority", "nice")
_OWN_TOO = ("requeue", "irequeue", "minmemorynode", "minmemorycpu", "oversubscribe", "shared", "excnodelist", "stdout")
_CONFIGURED = "it is set at submission: submit the job anew"
UPDATE_REFUSED: Mapping[str, str] = {
    "admincomment": "Comment= is there",
    "burstbuffer": "there are no burst buffers",
    "clusters": "there is one cluster",
    "clusterfeatures": "there is one cluster",
    "contiguous": _CONFIGURED,
    "corespec": "cores are not set aside",
    "cpuspertask": _CONFIGURED,
    "delayboot": "hosts are not booted from here",
    "endtime": "TimeLimit= says how long it runs, Deadline= until when",
    "features": "gmod -R changes what a job requires",
    "gres": "gmod -gpu changes which GPUs a job requires",
    "licenses": "gmod -R 'rusage[NAME=1]' changes which shared resources it takes",
    "mincpusnode": _CONFIGURED,
    "mintmpdisknode": "gmod -R 'rusage[tmp=...]' reserves disk space",
    "timemin": "a job has one run limit",
    "prefer": "gmod -R 'order[...]' says which hosts come first",
    "qos": "there is no QOS: Partition= moves it to another queue",
    "reboot": "hosts are not rebooted from here",
    "reqcores": _CONFIGURED,
    "reqsockets": _CONFIGURED,
    "reqthreads": _CONFIGURED,
    "resetaccruetime": "gtop and gbot change the order",
    "sitefactor": "Priority= and scontrol top change the order",
    "switches": "gmod -R 'cu[...]' chooses compute units",
    "wait-for-switch": "gmod -R 'cu[...]' chooses compute units",
    "taskspernode": "NumNodes= shares the slots out",
    "threadspec": "cores are not set aside",
    "userid": "a job belongs to whom it was submitted by",
    "wckey": "there are no wckeys: Account= is there",
    **dict.fromkeys(
        (
            *("allocnode:sid", "batchflag", "exitcode", "groupid", "jobstate", "nodelistindices", "ntaskspern:b:s:c"),
            *(
                "preempteligibletime",
                "preempttime",
                "presustime",
                "reason",
                "reqb:s:c:t",
                "secspresuspend",
                "socks/node",
            ),
            *("submittime", "suspendtime"),
        ),
        "it is told and cannot be changed",
    ),
}
"""Keywords that are refused, and what to say instead."""
UPDATE_KEYWORDS = frozenset({*_OPTIONS, *_OWN, *_OWN_TOO})
"""Keywords that are taken."""
SPELLED: Mapping[str, str] = {
    name.lower(): name
    for name in (
        *("Account", "ArrayTaskThrottle", "Comment", "Deadline", "Dependency", "EligibleTime", "ExcNodeList"),
        *("IRequeue", "JobName", "MailType", "MailUser", "MinMemoryCPU", "MinMemoryNode", "Name", "Nice", "NodeList"),
        *("NumCPUs", "NumNodes", "NumTasks", "OverSubscribe", "Partition", "Priority", "ReqNodeList", "ReqNodes"),
        *("ReqProcs", "Requeue", "ReservationName", "Shared", "StartTime", "StdOut", "TimeLimit", "WorkDir"),
    )
}
"""The same as scontrol(1) spells them."""
_AMOUNTS = ("minmemorynode", "minmemorycpu")
"""What a job that runs may be given more or less of, though other parts of its requirement stay."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """New values of fields, and whether it is held from now on (None: as before)."""

    values: SpecValues
    hold: bool | None = None
    set_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keyword, as Slurm spells it -> the fields that it sets."""

    def fixed_once_started(self) -> list[str]:
        """Keywords whose values a job that has started can no longer be given."""
        of_amounts = {SPELLED[name] for name in _AMOUNTS}
        return [name for name, fields in self.set_by.items() if fields - WHILE_RUNNING and name not in of_amounts]

    def keyword_of(self, about: Collection[str]) -> str:
        """The keyword that set one of these fields; empty: none."""
        return next((name for name, fields in self.set_by.items() if not fields.isdisjoint(about)), "")


def read_job_change(given: Mapping[str, str], spec: JobSpec, reading: Reading) -> JobChange:
    """What keywords, in small letters, make of a job with `spec`. Raises BadRequest naming the keyword."""
    values: SpecValues = {}
    hold: bool | None = None
    set_by: dict[str, frozenset[str]] = {}
    for name, text in given.items():
        if name in UPDATE_REFUSED:
            raise BadRequest(f"{name}: {UPDATE_REFUSED[name]}")
        if name not in UPDATE_KEYWORDS:
            raise BadRequest(f"Update of this parameter is not supported: {name[:40]}={text[:40]}")
        try:
            if name == "priority":
                hold = text == "0"
                changed = {} if hold else {"priority": parse_count(text)}
            elif name in _OPTIONS:
                changed = _option(name, text, reading)
            else:
                changed = _own(name, text, spec, values)
        except BadRequest as error:
            raise BadRequest(f"{SPELLED[name]}: {error.text}") from None
        changed.pop("queue_named", None)  # how a job came to its queue does not change
        values |= changed
        set_by[SPELLED[name]] = frozenset(changed)
    return JobChange(values, hold, set_by)


def _option(name: str, text: str, reading: Reading) -> SpecValues:
    """An empty dependency, comment, list of nodes or reservation takes what there was back."""
    taken_back: Mapping[str, SpecValues] = {
        "dependency": {"dependency": ""},
        "comment": {"description": ""},
        "nodelist": {"hosts": (), "host_levels": (), "other_hosts": False, "first_hosts": ()},
        "reservation": {"reservation": ""},
    }
    option = _OPTIONS[name]
    if not text and option in taken_back:
        return taken_back[option]
    return field_values(option, text, reading)


def _own(name: str, text: str, spec: JobSpec, values: SpecValues) -> SpecValues:
    if name == "timelimit":
        return {"run_limit_s": _limit(text, spec)}
    if name == "arraytaskthrottle":
        return {"array_limit": parse_count(text, 0)}
    if name in ("numcpus", "reqprocs", "numtasks"):
        return {"slots": parse_count(text.partition("-")[0]), "max_slots": 0}
    if name in ("requeue", "irequeue"):
        if text not in ("0", "1"):
            raise BadRequest(f"'{text[:20]}' is neither 0 nor 1")
        return {"rerunnable": text == "1"}
    if name in ("oversubscribe", "shared"):
        if text.lower() not in ("yes", "no"):
            raise BadRequest(f"'{text[:20]}' is neither yes nor no")
        return {"exclusive": text.lower() == "no"}
    if name == "stdout":
        return _output(text)
    if name == "nice":
        raise BadRequest("Priority= says the order among your own jobs, scontrol top moves one to the front")
    return {"res_req": _requirement(name, text, spec, str(values.get("res_req", spec.res_req)))}


def _output(text: str) -> SpecValues:
    """Where the output of a job that waits goes to."""
    if not text or "%" in text:
        raise BadRequest("a path without patterns is needed")
    return {"output_file": text}


def _limit(text: str, spec: JobSpec) -> int | None:
    """`[+|-]TIME`; with a sign it is added to the limit that there is."""
    sign, time = (text[0], text[1:]) if text[:1] in ("+", "-") and text != "-1" else ("", text)
    seconds = parse_duration(time)
    if not sign:
        return seconds
    if spec.run_limit_s is None or seconds is None:
        raise BadRequest(f"'{text[:20]}': the job has no time limit to which it could be added")
    changed = spec.run_limit_s + (seconds if sign == "+" else -seconds)
    if changed < 1:
        raise BadRequest(f"'{text[:20]}': nothing would be left")
    return changed


def _requirement(name: str, text: str, spec: JobSpec, requirement: str) -> str:
    """The resource requirement with nodes or memory changed."""
    if name in ("numnodes", "reqnodes"):
        nodes = parse_count(text.partition("-")[0])
        if nodes > spec.slots:
            raise BadRequest(f"{nodes} nodes for {spec.slots} tasks: a node without a task is none")
        without = re.sub(r"\s*span\[[^\]]*\]", "", requirement)
        span = "span[hosts=1]" if nodes == 1 else f"span[ptile={-(-spec.slots // nodes)}]"
        return f"{without} {span}".strip()
    if name == "excnodelist":
        excluded = " && ".join(f"hname!={each}" for each in expand_nodes(text))
        return f"{requirement} select[{excluded}]".strip() if excluded else requirement
    size = f"mem={parse_size_mib(text):.0f}MB{'/task' if name == 'minmemorycpu' else ''}"
    found = re.sub(r"\bmem=[0-9.]+[KMGT]?B?(?:/task|/host|/job)?", size, requirement)
    return found if found != requirement or size in requirement else f"{requirement} rusage[{size}]".strip()
