"""Ends of attempts of which an agent tells something that cannot be: the rest counts, so that their jobs end.

An agent tells an end until it is on record here, so one that was refused as a whole would be told, and refused, for
ever. Which attempt it is must be right; what is left out of the rest is said in the log and in the job's history.
It never makes up how a job ended, and writes no log itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest
from gsched.master.agents.message_checks import check
from gsched.model.jobs.job import AttemptResult
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2, model_pb2

_LAST = "gpu_curves"
"""What may be long, and says the least."""


def mend_end(host: str, ended: agent_pb2.Ended) -> dict[str, str]:
    """Leave out of it what no agent of this host would say: field -> what is wrong with it. Raises BadRequest where it
    names no attempt.
    """
    if not _fault(host, ended):
        return {}
    kept = agent_pb2.Ended(job_id=ended.job_id, attempt=ended.attempt, is_part=ended.is_part, given_up=ended.given_up)
    check(host, agent_pb2.AgentMessage(ended=kept))
    wrong = _keep(host, kept, kept, ended, ("store",))
    wrong |= _keep(host, kept, kept.result, ended.result, _names(ended.result, but=("usage",)))
    wrong |= _keep(host, kept, kept.result.usage, ended.result.usage, _names(ended.result.usage))
    wrong |= _keep(host, kept, kept, ended, (_LAST,))
    _explain(host, kept.result, wrong)
    ended.CopyFrom(kept)
    return wrong


def _names(message: Message, but: Iterable[str] = ()) -> list[str]:
    """The fields that are there."""
    return [field.name for field, _ in message.ListFields() if field.name not in but]


def _keep(host: str, whole: agent_pb2.Ended, into: Any, source: Any, names: Iterable[str]) -> dict[str, str]:
    """Take over each of these fields that leaves the whole as it may be; of the others what is wrong with them."""
    wrong = {}
    for name in names:
        one = type(source)()
        one.CopyFrom(source)
        for other in _names(one, but=(name,)):
            one.ClearField(other)
        into.MergeFrom(one)
        if fault := _fault(host, whole):
            into.ClearField(name)
            wrong[name] = fault
    return wrong


def _fault(host: str, ended: agent_pb2.Ended) -> str:
    """What is wrong with it; empty: nothing."""
    try:
        check(host, agent_pb2.AgentMessage(ended=ended))
        from_proto(ended.result, AttemptResult)
    except BadRequest as error:
        return error.text
    except (ValueError, TypeError) as error:
        return str(error) or type(error).__name__
    return ""


def _explain(host: str, result: model_pb2.AttemptResult, wrong: Iterable[str]) -> None:
    """Why less is known of the end; a time that is not known is now."""
    if "ended_at" in wrong or not result.ended_at:
        result.ended_at = time.time()
    if result.problem or result.HasField("coded_problem"):
        return
    told = model_pb2.AttemptResult()
    fill(told, AttemptResult(problem=coded("attempt.wrong_end", host, ", ".join(sorted(wrong)))))
    result.problem = told.problem
    result.coded_problem.CopyFrom(told.coded_problem)
