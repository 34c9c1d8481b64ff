"""What no agent would say is refused before anything is made of it; what one does say passes."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.base.errors import BadRequest
from gsched.master.agents.message_checks import check, checked_gpus
from gsched.model.gpus.gpu_curve import MOST_PACKED
from gsched.model.hosts.host import GpuReport
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import agent_pb2, model_pb2

Message = agent_pb2.AgentMessage
A = model_pb2.HostAllocation(host="a", slots=2, amounts={"mem": 100.0})
GPU = model_pb2.Gpu(uuid="GPU-1", index=0, memory_mib=80_000)


def look(host: str, message: Message) -> None:
    """Both looks at a message."""
    check(host, message)
    if message.HasField("gpus"):
        checked_gpus(from_proto(message.gpus, GpuReport))


def hello(**fields: Any) -> Message:
    return Message(hello=agent_pb2.Hello(**({"host": "a", "protocol": 4, "version": "1", "boot_id": "b"} | fields)))


def held(count: int = 1, part: Any = A) -> list[Any]:
    return [agent_pb2.HeldAttempt(job_id=number + 1, attempt=1, part=part) for number in range(count)]


def gpus(*found: Any) -> Message:
    return Message(gpus=model_pb2.GpuReport(gpus=found, known=True))


def usage(**fields: Any) -> Any:
    return model_pb2.Usage(**fields)


def used(**fields: Any) -> Message:
    """A report of what an attempt has made of a GPU."""
    usages = [agent_pb2.AttemptUsage(job_id=1, usage=usage(gpus=[model_pb2.GpuUsage(**{"host": "a", **fields})]))]
    return Message(usage=agent_pb2.UsageReport(attempts=usages))


def removed(*outputs: Any) -> Message:
    return Message(outputs_removed=agent_pb2.OutputsRemoved(outputs=outputs))


TASK = agent_pb2.TaskAsk(request=1, start=agent_pb2.StartTask(environment=[b"x" * (2 << 20)]))
GOOD = [
    Message(task_ask=TASK),
    Message(task_reply=agent_pb2.TaskReply(request=1, stdout=b"x" * (256 << 10), stderr=b"x" * (256 << 10))),
    hello(),
    hello(held=held(1000)),
    hello(started=[agent_pb2.Started(job_id=1, attempt=1, pid=5, at=1e9, home="/h", cwd="/w")]),
    hello(ended=[agent_pb2.Ended(job_id=1 << 33, attempt=2, result=model_pb2.AttemptResult(ended_at=1e9))]),
    Message(ended=agent_pb2.Ended(job_id=1, attempt=1, gpu_curves=bytes(MOST_PACKED))),
    Message(heartbeat=agent_pb2.Heartbeat()),
    Message(load=model_pb2.LoadReport(ncpus=128, indices={"mem": 1e6, "ut": 0.5}, maxmem_mib=1e6)),
    gpus(),
    gpus(GPU, model_pb2.Gpu(uuid="GPU-2", index=1, mig_devices=[model_pb2.MigDevice(uuid="MIG-1")])),
    Message(usage=agent_pb2.UsageReport(attempts=[agent_pb2.AttemptUsage(job_id=1, usage=usage(cpu_s=1.0))])),
    Message(output=agent_pb2.OutputReply(request=1, stream="stdout", data=b"x" * (1 << 20))),
    hello(notices=["ab"] * 1000, notice_ends=[model_pb2.NoticeEnd(notice_id="ab", problem="x", tries=9)]),
    Message(notice_end=model_pb2.NoticeEnd(notice_id="ab12", tries=1)),
    removed(*[agent_pb2.RemovedOutput(job_id=1, attempt=1, at=1.7e9, size=1 << 40, limit_mib=1 << 20)] * 500),
    used(uuid="GPU-1", index=3, samples=5, sm_mean=50.5, energy_j=1e9, energy_counted=True),
]  # fmt: skip


@pytest.mark.parametrize("message", GOOD)
def test_what_agents_say_passes(message: Message) -> None:
    look("a", message)


BAD: dict[str, Message] = {
    "100001 notices": hello(notices=["a"] * 100_001),
    "characters of a notice's id": hello(notices=["a" * 1001]),
    "501 outputs": removed(*[agent_pb2.RemovedOutput(job_id=1, attempt=1)] * 501),
    "0.2 is no attempt": removed(agent_pb2.RemovedOutput(attempt=2)),
    "size of an output -1": removed(agent_pb2.RemovedOutput(job_id=1, attempt=1, size=-1)),
    "limit -1": removed(agent_pb2.RemovedOutput(job_id=1, attempt=1, limit_mib=-1)),
    "time of a removal nan": removed(agent_pb2.RemovedOutput(job_id=1, attempt=1, at=float("nan"))),
    "1001 characters of a notice's id": Message(notice_end=model_pb2.NoticeEnd(notice_id="a" * 1001)),
    "5000 characters of a problem are": Message(notice_end=model_pb2.NoticeEnd(problem="a" * 5000)),
    "tries -1": hello(notice_ends=[model_pb2.NoticeEnd(tries=-1)]),
    "attempts are too many": hello(held=held(20_001)),
    "something on b": hello(held=held(part=model_pb2.HostAllocation(host="b", slots=1))),
    "slots -1": hello(held=held(part=model_pb2.HostAllocation(host="a", slots=-1))),
    "slots 2147483647": hello(held=held(part=model_pb2.HostAllocation(host="a", slots=(1 << 31) - 1))),
    "mem nan": hello(held=held(part=model_pb2.HostAllocation(host="a", amounts={"mem": float("nan")}))),
    "mem -5": hello(held=held(part=model_pb2.HostAllocation(host="a", amounts={"mem": -5.0}))),
    "how mem is given back": hello(
        held=held(part=model_pb2.HostAllocation(host="a", courses=[model_pb2.AmountSchedule(resource="mem")]))
    ),
    "GPU G is named 2 times": hello(
        held=held(part=model_pb2.HostAllocation(host="a", gpus=[model_pb2.HeldGpu(uuid="G")] * 2))
    ),
    "is no attempt": hello(ended=[agent_pb2.Ended(job_id=-1, attempt=1)]),
    "0.1 is no attempt": hello(started=[agent_pb2.Started(job_id=0, attempt=1)]),
    "time of a start nan": Message(started=agent_pb2.Started(job_id=1, attempt=1, at=float("nan"))),
    "time of a start inf": Message(started=agent_pb2.Started(job_id=1, attempt=1, at=float("inf"))),
    "characters of a path": Message(started=agent_pb2.Started(job_id=1, attempt=1, cwd="/" * 9000)),
    "time of an end -1": Message(
        ended=agent_pb2.Ended(job_id=1, attempt=1, result=model_pb2.AttemptResult(ended_at=-1.0))
    ),
    "use of GPUs over time": Message(ended=agent_pb2.Ended(job_id=1, attempt=1, gpu_curves=bytes(MOST_PACKED + 1))),
    "run time": Message(ended=agent_pb2.Ended(job_id=1, attempt=1, result=model_pb2.AttemptResult(run_s=-1.0))),
    "cpu_s -1": Message(
        ended=agent_pb2.Ended(job_id=1, attempt=1, result=model_pb2.AttemptResult(usage=usage(cpu_s=-1.0)))
    ),
    "characters of a problem": Message(
        ended=agent_pb2.Ended(job_id=1, attempt=1, result=model_pb2.AttemptResult(problem="x" * 20_000))
    ),
    "processes are too many": Message(
        unkillable=agent_pb2.Unkillable(job_id=1, processes=[agent_pb2.UnkillableProcess(pid=1)] * 101)
    ),
    "number of CPUs 1000000": Message(load=model_pb2.LoadReport(ncpus=1_000_000)),
    "number of CPUs -1": Message(load=model_pb2.LoadReport(ncpus=-1)),
    "maxmem_mib inf": Message(load=model_pb2.LoadReport(maxmem_mib=float("inf"))),
    "257 GPUs": gpus(*[model_pb2.Gpu(uuid=str(number)) for number in range(257)]),
    "no UUID": gpus(model_pb2.Gpu()),
    "GPU GPU-1 is named 2 times": gpus(GPU, GPU),
    "GPU GPU-2 is named 2 times": gpus(
        model_pb2.Gpu(uuid="GPU-2"), model_pb2.Gpu(uuid="x", mig_devices=[{"uuid": "GPU-2"}])
    ),
    "memory_mib -1": gpus(model_pb2.Gpu(uuid="x", memory_mib=-1)),
    "parts of a GPU": gpus(model_pb2.Gpu(uuid="x", mig_devices=[{"uuid": str(n)} for n in range(65)])),
    "bytes are too many": Message(load=model_pb2.LoadReport(notes=["x" * 1000] * 1100)),
    "3145748 bytes": Message(output=agent_pb2.OutputReply(request=1, stream="stdout", data=b"x" * (3 << 20))),
    "energy_j -5": used(energy_j=-5.0),
    "sm_mean inf": used(sm_mean=float("inf")),
    "characters of a uuid": used(uuid="x" * 2000),
    "speaks of a GPU of b": used(host="b"),
    "9 processes on a GPU": used(processes=[model_pb2.ProcessShare(pid=1)] * 9),
    "sm_max -1": used(processes=[model_pb2.ProcessShare(pid=1), model_pb2.ProcessShare(pid=2, sm_max=-1.0)]),
    "characters of a name": used(processes=[model_pb2.ProcessShare(pid=1, name="x" * 2000)]),
    "16385 GPUs": Message(
        ended=agent_pb2.Ended(
            job_id=1,
            attempt=1,
            result=model_pb2.AttemptResult(usage=usage(gpus=[model_pb2.GpuUsage()] * 16_385)),
        )
    ),
    "mem_mib nan": Message(
        usage=agent_pb2.UsageReport(attempts=[agent_pb2.AttemptUsage(job_id=1, usage=usage(mem_mib=float("nan")))])
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_agent_would_say_is_refused(what: str) -> None:
    with pytest.raises(BadRequest) as refused:
        look("a", BAD[what])
    assert what in refused.value.text


def test_a_hello_of_another_host_is_refused() -> None:
    with pytest.raises(BadRequest, match="an agent of a speaks of b"):
        check("a", hello(host="b"))


def test_a_failure_is_told_in_few_words() -> None:
    message = agent_pb2.AgentMessage()
    message.ended.job_id = message.ended.attempt = 1
    message.ended.result.failure.kind = "cuda_oom"
    check("a", message)
    message.ended.result.failure.detail = "x" * 81
    with pytest.raises(BadRequest):
        check("a", message)
    message.ended.result.failure.detail = ""
    message.ended.result.oom_kills = -1
    with pytest.raises(BadRequest):
        check("a", message)
