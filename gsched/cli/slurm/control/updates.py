"""scontrol update: other values for a job, a node or a partition, or why there can be none.

Source: scontrol(1) of Slurm 22.05, UPDATE COMMAND. Each of its keywords is done, or refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.base.node_lists import expand_nodes
from gsched.cli.options.submission_context import value_context
from gsched.cli.session.command_line import complain
from gsched.cli.slurm.control.scontrol_call import ScontrolCall, job_words
from gsched.cli.slurm.slurm_call import elements_of
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.job_updates import JobChange, read_job_change
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.jobs.job import PENDING, STARTED, JobSpec
from gsched.model.views.view import Control, JobView
from gsched.wire.messages.control_action import ControlAction

_ENTITIES = ("jobid", "nodename", "partitionname", "reservationname", "reservation", "stepid", "frontendname")
NODE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("activefeatures", "availablefeatures", "gres", "weight"), "it is in the configuration files"),
    **dict.fromkeys(("nodeaddr", "nodehostname", "cpubind"), "it is in the configuration files"),
    **dict.fromkeys(("comment", "extra"), "Reason= is kept with a node"),
}
"""Keywords of nodes that are refused."""
_PARTITION_STATES: Mapping[str, tuple[str, ...]] = {
    "up": ("open", "activate"),
    "down": ("open", "inactivate"),
    "drain": ("close", "activate"),
    "inactive": ("close", "inactivate"),
}

_NOT_PENDING = "Job is no longer pending execution"
"""Slurm's words for ESLURM_JOB_NOT_PENDING."""


def update(asked: ScontrolCall) -> int:
    """Run `scontrol update`."""
    pairs = _pairs(asked.words)
    entity = next((name for name in _ENTITIES if name in pairs), "")
    if entity == "jobid":
        return _update_jobs(asked, pairs)
    if entity == "nodename":
        return _update_nodes(asked, pairs)
    if entity == "partitionname":
        return _update_partition(asked, pairs)
    if entity in ("reservationname", "reservation"):
        raise BadRequest("update: grsvmod changes reservations")
    if entity == "stepid":
        raise BadRequest("update: the run limit is that of the job: update JobId=... TimeLimit=...")
    raise BadRequest("update: No valid entity in update command: JobId=, NodeName= or PartitionName= is expected")


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """Keyword in small letters -> value; `job 12` stands for `JobId=12`."""
    left = list(words)
    found: dict[str, str] = {}
    if len(left) > 1 and "=" not in left[0] and left[0].lower() in ("job", "jobid", "node", "partition"):
        names = {"job": "jobid", "node": "nodename", "partition": "partitionname"}
        found[names.get(left[0].lower(), left[0].lower())] = left[1]
        left = left[2:]
    for word in left:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadRequest(f"update: '{word[:40]}' is not KEYWORD=VALUE")
        key = name.lower().rstrip("+-")
        if key != name.lower():
            value = name[len(key) :] + value  # TimeLimit+=30 is TimeLimit=+30
        found["jobid" if key == "job" else key] = value
    return found


def _update_jobs(asked: ScontrolCall, pairs: Mapping[str, str]) -> int:
    reading = Reading(
        value_context(asked.call),
        asked.call.user,
        "",
        lambda number, indices: ",".join(map(str, elements_of(asked.session, number, indices))),
    )
    values = {name: value for name, value in pairs.items() if name != "jobid"}
    if not values:
        raise BadRequest("update: no changes specified")
    code = 0
    for word in job_words([pairs["jobid"]]):
        try:
            jobs = asked.jobs(*parse_job(word))
            wrong = next((error for job in jobs if (error := _change(asked, job, values, reading))), "")
        except GschedError as problem:
            wrong = problem.text
        if wrong:
            code = 1
            if not asked.options.has("quiet"):
                complain(asked.call, f"error: {wrong.rstrip('.')} for job {word[:60]}")
    return code


def _change(asked: ScontrolCall, job: JobView, values: Mapping[str, str], reading: Reading) -> str:
    """What went wrong with this job."""
    change: JobChange = read_job_change(values, job.spec, reading)
    client = asked.session.client
    fixed = change.fixed_once_started()
    if fixed and job.state in STARTED:
        return f"{', '.join(fixed)}: {_NOT_PENDING}"
    if change.values:
        spec = JobSpec(**{"command": "", "user": "", "queue": "", **change.values})
        results = client.modify([job.job_id], spec, tuple(change.values))
        if wrong := next((result for result in results if result.error), None):
            return _named(change, wrong)
    if change.hold is not None:
        if job.state not in PENDING:
            return f"Priority: {_NOT_PENDING}"
        is_held = job.state == "PSUSP"
        if change.hold != is_held:
            return _error(client.control(ControlAction(action="stop" if change.hold else "resume"), [job.job_id]))
    return ""


def _named(change: JobChange, wrong: Control) -> str:
    """What is wrong, with the keyword that says so."""
    keyword = change.keyword_of(wrong.about)
    text = _NOT_PENDING if wrong.refused_as == Conflict.status and wrong.about else wrong.error
    return f"{keyword}: {text}" if keyword else text


def _error(results: Sequence[Control]) -> str:
    return next((result.error for result in results if result.error), "")


def _update_nodes(asked: ScontrolCall, pairs: Mapping[str, str]) -> int:
    names = expand_nodes(pairs["nodename"])
    for name in pairs:
        if name in NODE_REFUSED:
            raise BadRequest(f"update: {name}: {NODE_REFUSED[name]}")
        if name not in ("nodename", "state", "reason"):
            raise BadRequest(f"update: Invalid input: {name[:40]}={pairs[name][:40]}")
    state, reason = pairs.get("state", "").lower(), pairs.get("reason", "")
    if not names:
        raise BadRequest("update: NodeName= names no node")
    if state in ("drain", "fail"):
        if not reason:
            raise BadRequest("update: You must specify a reason when DOWNING a node.")
        asked.session.client.host_control("close", names, reason)
    elif state in ("resume", "undrain", "idle"):
        asked.session.client.host_control("open", names, reason)
    elif state == "down":
        raise BadRequest("update: State=DOWN would end the jobs there: State=DRAIN lets them go on, gkill -m ends them")
    else:
        raise BadRequest(f"update: State={state[:20]} is not supported: DRAIN and RESUME are")
    return 0


def _update_partition(asked: ScontrolCall, pairs: Mapping[str, str]) -> int:
    for name in pairs:
        if name not in ("partitionname", "state"):
            raise BadRequest(
                f"update: {name[:40]}: it is in the configuration files (lsb.queues): State= is changed here"
            )
    state = pairs.get("state", "").lower()
    if state not in _PARTITION_STATES:
        raise BadRequest(f"update: State={state[:20]}: UP, DOWN, DRAIN and INACTIVE are states of a partition")
    names = [name for name in pairs["partitionname"].split(",") if name]
    if not names:
        raise BadRequest("update: PartitionName= names no partition")
    for action in _PARTITION_STATES[state]:
        for answer in asked.session.client.queue_control(action, names):
            if answer.error:
                raise BadRequest(answer.error)
    return 0
