"""The end of an attempt counts as far as it can be, whatever else its agent tells of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf.message import Message

from gsched.base.coded_text import coded, sentence
from gsched.base.errors import BadRequest
from gsched.master.agents.agent_service import AgentServicer, _ended, _hello
from gsched.master.agents.connected_agents import Refusals
from gsched.master.agents.mended_ends import mend_end
from gsched.master.agents.message_checks import check
from gsched.model.gpus.gpu_curve import MOST_PACKED
from gsched.model.jobs.job import AttemptResult
from gsched.wire.identity.caller_identity import ProvenCaller
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, model_pb2

NAN, MANY = math.nan, "x" * 20_000
SERVICE = AgentServicer(None, None, None)  # type: ignore[arg-type]
WELL = {"exit_code": 3, "started": True, "ended_at": 1e9, "run_s": 5.0}
WRONG: dict[str, dict[str, Any]] = {
    "run_s": {"run_s": NAN},
    "ended_at": {"ended_at": -1.0},
    "oom_kills": {"oom_kills": -1},
    "term_reason": {"term_reason": MANY},
    "failure": {"failure": model_pb2.AttemptFailure(kind="x" * 100)},
    "suspended_s": {"suspended_s": NAN},
    "left_running": {"left_running": [model_pb2.LeftProcess(pid=1, name="n")] * 101},
    "cpu_s": {"usage": model_pb2.Usage(cpu_s=-1.0, mem_mib=7.0)},
    "gpus": {"usage": model_pb2.Usage(gpus=[model_pb2.GpuUsage(host="b")], mem_mib=7.0)},
}


def end(**fields: Any) -> agent_pb2.Ended:
    """Of a part that exited with 3."""
    result = model_pb2.AttemptResult(**(WELL | fields))
    return agent_pb2.Ended(job_id=7, attempt=2, result=result, is_part=True, gpu_curves=b"curve")


def mended(ended: agent_pb2.Ended) -> AttemptResult:
    SERVICE._mend("a", ended)
    check("a", agent_pb2.AgentMessage(ended=ended))
    assert (ended.job_id, ended.attempt, ended.is_part) == (7, 2, True)
    return _ended("a", ended).result


@pytest.fixture(autouse=True)
def fresh_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has said nothing yet."""
    monkeypatch.setattr(SERVICE, "_refusals", Refusals())


@pytest.mark.parametrize("field", WRONG)
def test_what_cannot_be_is_left_out_and_the_rest_counts(field: str, caplog: pytest.LogCaptureFixture) -> None:
    ended = end(**WRONG[field])
    result = mended(ended)
    assert (result.exit_code, result.started, ended.gpu_curves) == (3, True, b"curve")
    assert result.run_s == (0.0 if field == "run_s" else 5.0) and result.ended_at >= 1e9
    assert result.usage.mem_mib == (7.0 if "usage" in WRONG[field] else None)
    assert result.problem == coded("attempt.wrong_end", "a", field)
    (line,) = caplog.messages
    assert "host a " in line and "attempt 7.2" in line and f"in {field}: " in line
    mended(end(**WRONG[field]))
    assert len(caplog.messages) == 1, "the log is not filled"


def test_an_end_that_can_be_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    ended = end(problem="a disk is full")
    before = ended.SerializeToString()
    mend_end("a", ended)
    assert ended.SerializeToString() == before and not caplog.messages


def test_the_agents_own_word_of_what_went_wrong_is_kept() -> None:
    assert mended(end(run_s=NAN, problem="a disk is full")).problem == "a disk is full"
    result = mended(end(problem=MANY))
    assert "problem" in sentence(result.problem) and result.exit_code == 3


def test_what_is_too_much_in_all_is_left_out_at_the_end() -> None:
    ended = end()
    ended.gpu_curves = bytes(MOST_PACKED + 1)
    assert mended(ended).exit_code == 3 and not ended.gpu_curves
    many: list[Message] = [model_pb2.GpuUsage(host="a", uuid=f"GPU-{number}" + 90 * "x") for number in range(9_000)]
    result = mended(end(usage=model_pb2.Usage(gpus=many, cpu_s=2.0)))
    assert result.exit_code == 3 and result.usage.cpu_s == 2.0 and result.usage.gpus == ()


def test_an_end_of_no_attempt_is_refused() -> None:
    for ended in (agent_pb2.Ended(job_id=-1, attempt=1), agent_pb2.Ended(job_id=1)):
        with pytest.raises(BadRequest, match="no attempt"):
            mend_end("a", ended)


def test_a_host_that_tells_such_an_end_in_its_hello_is_not_turned_away() -> None:
    hello = agent_pb2.Hello(host="a", protocol=PROTOCOL, ended=[end(run_s=NAN), end()])
    first = agent_pb2.AgentMessage(hello=hello)
    assert SERVICE._refuse(first, ProvenCaller("root", True)) == ""
    assert [each.result.exit_code for each in _hello(first.hello, 1).ended] == [3, 3]
