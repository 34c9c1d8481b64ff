"""What an agent says is checked here before anything is made of it: sizes, numbers, and that it speaks of its own host.

An agent may be anything that has got hold of a host's key. What is refused here is dropped with a line in the log (a
hello: the session is refused); what passes may still be a lie about the host itself, which nobody can know.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from google.protobuf.message import Message

from gsched.base.errors import BadRequest
from gsched.master.agents.agent_sessions import OUTPUT_PIECE
from gsched.model.gpus import clock_reasons
from gsched.model.gpus.gpu_curve import MOST_PACKED
from gsched.model.gpus.gpu_use import MOST_SHARES
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.hosts.kept_output import MOST_TOLD
from gsched.model.hosts.topology import MAX_PROCESSORS
from gsched.model.jobs.failure import LONGEST_DETAIL
from gsched.model.jobs.job_service import MOST_PORT
from gsched.model.jobs.step_facts import MOST_PACKED_STEPS
from gsched.wire.v1 import agent_pb2, model_pb2

MOST_BYTES = {
    "hello": 32 << 20,
    "ended": 512 << 10,
    "output": 2 * OUTPUT_PIECE,
    "gpus": 4 << 20,
    "usage": 8 << 20,
    "load": 1 << 20,
    "task_ask": 3 << 20,
    "task_reply": 1 << 20,
}
"""Of a message of that kind; of any other kind OTHER_BYTES."""
OTHER_BYTES = 256 << 10
MOST_GPUS = 256
"""Of one host."""
MOST_PARTS = 64
"""Of a GPU by MIG."""
MOST_ATTEMPTS = 20_000
"""That one host may hold, or has results of."""
MOST_NOTICES = 100_000
"""That one host may have to send, or tells what became of."""
MOST_UNKILLABLE = 100
MOST_LEFT = 100
"""Processes that a job left running, by name."""
MOST_SLOTS = 1 << 20
MOST_AMOUNT = 1e15
LONGEST_NAME = 1_000
_MOST_NUMBER = (1 << 31) - 1
_TIMES = 1e11
"""No time is later, in seconds."""


def check(host: str, message: agent_pb2.AgentMessage) -> None:
    """Raise BadRequest for what no agent of this host would say."""
    kind = str(message.WhichOneof("kind"))
    most = MOST_BYTES.get(kind, OTHER_BYTES)
    size = message.ByteSize()
    if size > most:
        raise BadRequest(f"{size} bytes are too many, {most} are the most")
    match kind:
        case "hello":
            _check_hello(host, message.hello)
        case "started":
            _check_started(message.started)
        case "ended":
            _check_ended(host, message.ended)
        case "notice_end":
            _check_notice_end(message.notice_end)
        case "outputs_removed":
            _check_removed(message.outputs_removed)
        case "warned" | "signalled" | "service_answers" | "service_found":
            _check_told(message)
        case "unkillable":
            _at_most(len(message.unkillable.processes), MOST_UNKILLABLE, "processes")
        case "load":
            _check_load(message.load)
        case "usage":
            _at_most(len(message.usage.attempts), MOST_ATTEMPTS, "attempts")
            for each in message.usage.attempts:
                _check_usage(host, each.usage)
                _check_idleness(host, each.idle)
                _number(each.service_idle_s, "time without use", _TIMES)


def _check_removed(told: agent_pb2.OutputsRemoved) -> None:
    _at_most(len(told.outputs), MOST_TOLD, "outputs")
    for each in told.outputs:
        _check_key(each)
        _number(each.at, "time of a removal", _TIMES)
        _number(each.size, "size of an output", MOST_AMOUNT)
        _number(each.limit_mib, "limit", MOST_AMOUNT)


def _check_told(message: agent_pb2.AgentMessage) -> None:
    """What is told of an attempt in few numbers; what is not in the message is 0."""
    _number(message.warned.ends_by, "time of an end", _TIMES)
    _number(message.signalled.number, "number of a signal", _MOST_NUMBER)
    _number(message.service_answers.at, "time of an answer", _TIMES)
    _number(message.service_answers.port, "port", MOST_PORT)
    _number(message.service_found.port, "port", MOST_PORT)
    _at_most(len(message.service_found.secret), LONGEST_NAME, "characters of a secret")


def _check_hello(host: str, hello: agent_pb2.Hello) -> None:
    if hello.host != host:
        raise BadRequest(f"an agent of {host} speaks of {hello.host}")
    texts = ((hello.boot_id, "boot id"), (hello.version, "version"), (hello.journal, "mark"), (hello.only_user, "user"))
    for text, what in texts:
        _at_most(len(text), LONGEST_NAME, f"characters of a {what}")
    _check_store(hello.store)
    for many in (hello.held, hello.started, hello.ended):
        _at_most(len(many), MOST_ATTEMPTS, "attempts")
    for started in hello.started:
        _check_started(started)
    for ended in hello.ended:
        _check_ended(host, ended)
    _at_most(max(len(hello.notices), len(hello.notice_ends)), MOST_NOTICES, "notices")
    for notice_id in hello.notices:
        _at_most(len(notice_id), LONGEST_NAME, "characters of a notice's id")
    for end in hello.notice_ends:
        _check_notice_end(end)
    for held in hello.held:
        _check_key(held)
        _number(held.signalled, "number of a signal", _MOST_NUMBER)
        _check_part(host, held.part)


def _check_store(mark: agent_pb2.StoreMark) -> None:
    _at_most(len(mark.cluster_id), LONGEST_NAME, "characters of a cluster id")
    for number, what in ((mark.generation, "generation"), (mark.seq, "event"), (mark.next_job_id, "job number")):
        _number(number, what, MOST_AMOUNT)


def _check_key(
    message: agent_pb2.HeldAttempt | agent_pb2.Started | agent_pb2.Ended | agent_pb2.RemovedOutput,
) -> None:
    if message.job_id < 1 or message.attempt < 1:
        raise BadRequest(f"{message.job_id}.{message.attempt} is no attempt")


def _check_started(started: agent_pb2.Started) -> None:
    _check_key(started)
    _number(started.at, "time of a start", _TIMES)
    _number(started.pid, "process", 1 << 31)
    _at_most(max(len(started.home), len(started.cwd)), 1 << 13, "characters of a path")
    _at_most(len(started.boot_id), LONGEST_NAME, "characters of a boot id")


def _check_ended(host: str, ended: agent_pb2.Ended) -> None:
    _check_key(ended)
    result = ended.result
    _number(result.ended_at, "time of an end", _TIMES)
    _number(result.run_s, "run time", _TIMES)
    _number(result.oom_kills, "processes killed for want of memory", 1 << 31)
    _at_most(max(len(result.failure.kind), len(result.failure.detail)), LONGEST_DETAIL, "characters of a failure")
    _at_most(len(result.term_reason), LONGEST_NAME, "characters of a reason")
    _at_most(len(result.problem), 1 << 14, "characters of a problem")
    _at_most(result.coded_problem.ByteSize(), 1 << 15, "bytes of a problem")
    _at_most(len(result.left_running), MOST_LEFT, "processes left running")
    for process in result.left_running:
        _at_most(len(process.name), LONGEST_NAME, "characters of a process's name")
    for number in (result.left_running_count, *(process.pid for process in result.left_running)):
        _number(number, "processes left running", 1 << 31)
    _at_most(len(ended.gpu_curves), MOST_PACKED, "bytes of the use of GPUs over time")
    _check_usage(host, result.usage)


def _check_notice_end(end: model_pb2.NoticeEnd) -> None:
    _at_most(len(end.notice_id), LONGEST_NAME, "characters of a notice's id")
    _at_most(len(end.problem), 1 << 12, "characters of a problem")
    _at_most(end.coded_problem.ByteSize(), 1 << 13, "bytes of a problem")
    _number(end.tries, "tries", 1e6)


def _check_usage(host: str, usage: model_pb2.Usage) -> None:
    _at_most(len(usage.gpus), MOST_GPUS * MOST_PARTS, "GPUs of an attempt")
    for gpu in usage.gpus:
        _check_gpu_use(host, gpu)
    for field, value in usage.ListFields():
        if field.name == "gpus":
            continue
        if field.name == "steps":
            _at_most(len(value), MOST_PACKED_STEPS, "bytes of what is told of steps")
            continue
        for number in value if field.name == "pids" else (value,):
            _number(number, field.name, MOST_AMOUNT)


def _check_idleness(host: str, idle: model_pb2.AttemptIdleness) -> None:
    _at_most(len(idle.gpus), MOST_GPUS * MOST_PARTS, "GPUs of an attempt")
    _once((gpu.uuid for gpu in idle.gpus), "GPU")
    for gpu in idle.gpus:
        _check_gpu_use(host, gpu)
    for figure in ("util", "traffic", "power"):
        _number(getattr(idle.limits, figure), figure, 100.0)
    _number(idle.warned, "number of a warning", 1 << 31)


def _check_gpu_use(host: str, use: model_pb2.GpuUsage | model_pb2.GpuIdleness) -> None:
    if use.host != host:
        raise BadRequest(f"an agent of {host} speaks of a GPU of {use.host[:LONGEST_NAME]}")
    for field, value in use.ListFields():
        if field.name == "processes":
            _at_most(len(value), MOST_SHARES, "processes on a GPU")
            for process in value:
                _check_fields(process)
        else:
            _check_field(field.name, value)


def _check_fields(message: Message) -> None:
    """Texts and numbers, none of which has anything below it."""
    for field, value in message.ListFields():
        _check_field(field.name, value)


def _check_field(name: str, value: str | float) -> None:
    if isinstance(value, str):
        _at_most(len(value), LONGEST_NAME, f"characters of a {name}")
    else:
        _number(value, name, MOST_AMOUNT)


def _check_part(host: str, part: model_pb2.HostAllocation) -> None:
    if part.host != host:
        raise BadRequest(f"an attempt holds something on {part.host}")
    _number(part.slots, "slots", MOST_SLOTS)
    _at_most(len(part.gpus), MOST_GPUS * MOST_PARTS, "GPUs of an attempt")
    _once((gpu.uuid for gpu in part.gpus), "GPU")
    for gpu in part.gpus:
        _number(gpu.share, "share", 1.0)
        _number(gpu.gmem_mib, "gmem", MOST_AMOUNT)
    for name, amount in part.amounts.items():
        _number(amount, name, MOST_AMOUNT)
    for course in part.courses:
        if not course.steps:
            raise BadRequest(f"nothing is said of how {course.resource[:50]} is given back")
        for step in course.steps:
            _number(step.after_s, "time of a step", _TIMES)
            _number(step.amount, course.resource, MOST_AMOUNT)


def _check_load(load: model_pb2.LoadReport) -> None:
    _number(load.ncpus, "number of CPUs", MAX_PROCESSORS)
    for name in ("maxmem_mib", "maxswp_mib", "maxtmp_mib"):
        if load.HasField(name):
            _number(getattr(load, name), name, MOST_AMOUNT)
    for name, value in load.indices.items():
        _number(value, name, MOST_AMOUNT)
    for name in ("ostype", "osrel", "osver", "machine", "container_runtimes"):
        _at_most(len(getattr(load, name)), 200, f"characters of {name}")


_GPU_NUMBERS = (
    *(("index", 1e4), ("memory_mib", MOST_AMOUNT), ("used_mib", MOST_AMOUNT), ("reserved_mib", MOST_AMOUNT)),
    *(("foreign_mib", MOST_AMOUNT), ("minor", 1e9), ("numa", 1e6), ("process_count", 1e9), ("ecc_errors", 1e18)),
    *(("ecc_corrected", 1e18), ("throttle", clock_reasons.MOST)),
)


def checked_gpus(report: GpuReport) -> GpuReport:
    """The report, if a host can have such GPUs. Raises BadRequest."""
    _at_most(len(report.gpus), MOST_GPUS, "GPUs")
    _once(_uuids(report.gpus), "GPU")
    for gpu in report.gpus:
        _at_most(len(gpu.mig_devices), MOST_PARTS, "parts of a GPU")
        for name, most in _GPU_NUMBERS:
            value = getattr(gpu, name)
            if value is not None and not 0 <= value <= most:
                _number(value, name, most)
        for part in gpu.mig_devices:
            _number(part.memory_mib or 0, "memory_mib", MOST_AMOUNT)
    return report


def _uuids(gpus: Iterable[Gpu]) -> Iterator[str]:
    for gpu in gpus:
        if not gpu.uuid:
            raise BadRequest("a GPU has no UUID")
        yield gpu.uuid
        yield from (part.uuid for part in gpu.mig_devices if part.uuid)


def _once(uuids: Iterable[str], what: str) -> None:
    for uuid, times in Counter(uuids).items():
        _at_most(len(uuid), LONGEST_NAME, "characters of a UUID")
        if times > 1:
            raise BadRequest(f"{what} {uuid} is named {times} times")


def _at_most(number: int, most: int, what: str) -> None:
    if number > most:
        raise BadRequest(f"{number} {what} are too many, {most} are the most")


def _number(value: float, what: str, most: float) -> None:
    """A finite number from 0 to `most`."""
    if not (math.isfinite(value) and 0 <= value <= most):
        raise BadRequest(f"{what[:50]} {value} is not a number from 0 to {most:g}")
