"""The jobs and the host of the LSF 10.1 transcripts in golden/, as records. Times are the transcripts' own, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gsched.base.ids import element_id
from gsched.cli.render.jobs.history import (
    Dispatched,
    Executing,
    HistoryEnd,
    HistoryEvent,
    HistoryRecord,
    MessagePosted,
    Starting,
    post_done,
)
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.views.view import HostView, JobView, Message, ResourceValue

GOLDEN = Path(__file__).parent / "golden"
COUNTERS = ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p")
CAFFE = "sudo LD_LIBRARY_PATH=/opt/DL/openblas/lib:/opt/DL/nccl/lib:/opt/DL/caffe-nv/lib time ./examples/cifar10/"
HERE = (HostAllocation(host="ubuntu02", slots=1),)


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def stripped(text: str) -> str:
    """The transcripts lost the blanks at line ends on their way; so does what they are compared with."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def at(day: int, clock: str) -> float:
    """A moment of July 2017."""
    return datetime.strptime(f"2017-07-{day:02d} {clock} +0000", "%Y-%m-%d %H:%M:%S %z").astimezone(UTC).timestamp()


def job(
    job_id: int,
    submitted: float,
    script: str = "train_quick.sh",
    *,
    index: int = 0,
    placed: tuple[HostAllocation, ...] = (),
    end: AttemptResult | None = None,
    pending: tuple[str, ...] = (),
    usage: Usage | None = None,
    external_indices: tuple[str, ...] = (),
    **more: object,
) -> ShownJob:
    """A job of the transcripts; further values are fields of its view or of its spec."""
    spec: dict[str, object] = {
        "user": "test",
        "queue": "normal",
        "command": CAFFE + script,
        "submit_host": "ubuntu02",
        "cwd": "/opt/DL/caffe-nv",
        "home": "/home/test",
        "project": "default",
    }
    view: dict[str, object] = {"state": "RUN"}
    for name, value in more.items():
        (spec if name in JobSpec.__struct_fields__ else view)[name] = value
    shown = JobView(
        job_id=element_id(job_id, index) if index else job_id,
        spec=JobSpec(**spec),  # type: ignore[arg-type]
        submitted_at=submitted,
        allocation=Allocation(hosts=placed) if placed else None,
        result=end if end is None or usage is None else msgspec.structs.replace(end, usage=usage),
        usage=usage,
        pending_reasons=tuple(PendingReason(text=text) for text in pending),
        **view,  # type: ignore[arg-type]
    )
    return ShownJob(view=shown, external_indices=external_indices)


def memory(most: int, mean: int) -> Usage:
    return Usage(max_mem_mib=most, avg_mem_mib=mean)


PLAIN = "select[type == local] order[r15s:pg]"
GPUS_2 = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=2.00]"


def started(dispatched: float, started_at: float, pid: int, req: str = PLAIN) -> tuple[HistoryEvent, ...]:
    return (
        Dispatched(at=dispatched, placed=HERE, effective_req=req),
        Starting(at=started_at, pid=pid),
        Executing(at=started_at, exec_home="/home/test", exec_cwd="/opt/DL/caffe-nv", pid=pid),
    )


def histories() -> dict[int, tuple[HistoryRecord, float]]:
    """Job -> its history and the moment of the question."""
    d5, d7 = (lambda clock: at(5, clock)), (lambda clock: at(7, clock))
    two = {"script": "train_01.sh", "res_req": "select[ngpus>0] rusage[ngpus_excl_p=2]"}

    def done(when: float, cpu_s: float) -> HistoryEvent:
        return HistoryEnd(at=when, exit_code=0, cpu_s=cpu_s, succeeded=True)

    def failed(when: float, cpu_s: float) -> HistoryEvent:
        return HistoryEnd(at=when, exit_code=134, cpu_s=cpu_s, succeeded=False)

    records = {
        220: HistoryRecord(
            job=job(220, d5("11:34:11"), usage=memory(271, 269)),
            events=(
                *started(d5("11:34:12"), d5("11:34:12"), 7824),
                done(d5("11:35:43"), 183.6),
                post_done(d5("11:35:45")),
            ),
        ),
        221: HistoryRecord(
            job=job(221, d5("11:35:15"), usage=memory(37, 37)),
            events=(*started(d5("11:35:15"), d5("11:35:15"), 7963), failed(d5("11:35:18"), 0.7)),
        ),
        1033: HistoryRecord(job=job(1033, d7("10:27:55")), events=started(d7("10:27:55"), d7("10:27:55"), 14241)),
        1034: HistoryRecord(
            job=job(1034, d7("10:28:40")),
            events=(*started(d7("10:28:41"), d7("10:28:41"), 14363), failed(d7("10:28:42"), 0.2)),
        ),
        1270: HistoryRecord(
            job=job(1270, d7("18:02:11"), usage=memory(517, 467), **two),  # type: ignore[arg-type]
            events=(
                *started(d7("18:02:27"), d7("18:02:27"), 5830, GPUS_2),
                MessagePosted(at=d7("18:02:28"), text="ubuntu02:gpus=0,1;", user="test"),
                done(d7("18:03:44"), 222.3),
                post_done(d7("18:03:45")),
            ),
        ),
        1271: HistoryRecord(
            job=job(1271, d7("18:02:15"), usage=memory(530, 463), **two),  # type: ignore[arg-type]
            events=(
                *started(d7("18:03:41"), d7("18:03:42"), 6729, GPUS_2),
                done(d7("18:04:52"), 207.9),
                post_done(d7("18:04:53")),
            ),
        ),
    }
    return {
        job_id: (record, d7("10:28:23") if job_id == 1033 else d7("23:00:00")) for job_id, record in records.items()
    }


def gpu_job(job_id: int, submitted: float, gpus: str, script: str, claim: int, **more: object) -> ShownJob:
    """A running job that claims exclusive GPUs."""
    req = f"select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p={claim}.00]"
    fields: dict[str, object] = {
        "script": script,
        "share_group": "/test",
        "res_req": f"select[ngpus>0] rusage[ngpus_excl_p={claim}]",
        "dispatched_at": submitted,
        "placed": HERE,
        "exec_home": "/home/test",
        "exec_cwd": "/opt/DL/caffe-nv",
        "external_indices": COUNTERS,
        "messages": (Message(box=0, user="test", posted_at=submitted, text=f"ubuntu02:gpus={gpus};"),),
        "combined_req": req,
        "effective_req": req,
    }
    return job(job_id, submitted, **{**fields, **more})  # type: ignore[arg-type]


def host(number: int) -> HostView:
    """The host of the `number`-th transcript of bhosts -l."""
    njobs, io, ut, tmp, mem, free, excl_p, reserved = {
        1: (0, 29, 0.0, 782, 125.0, 16, 4, 0),
        2: (1, 58, 0.0, 782, 124.6, 15, 4, 0),
        3: (1, 123, 0.0, 781, 124.1, 15, 3, 1),
        4: (1, 28, 0.01, 781, 123.7, 15, 2, 2),
        5: (1, 11, 0.0, 781, 124.1, 15, 0, 4),
    }[number]
    gib = 1024.0
    load = {"r15s": 0.0, "r1m": 0.0, "r15m": 0.0, "ut": ut, "pg": 0.0, "io": io, "ls": 1, "it": 0}
    return HostView(
        name="ubuntu02",
        status="ok",
        cpu_factor=250.0,
        max_slots=16,
        njobs=njobs,
        run=njobs,
        load={**load, "tmp": tmp * gib, "swp": 37.6 * gib, "mem": mem * gib},
        slots_free=free,
        externals=(
            ResourceValue(name="ngpus", total=4.0, reserved=0.0),
            ResourceValue(name="ngpus_shared", total=0.0, reserved=0.0),
            ResourceValue(name="ngpus_excl_t", total=0.0, reserved=0.0),
            ResourceValue(name="ngpuprohibited", total=0.0, reserved=None),
            ResourceValue(name="ngpus_excl_p", total=float(excl_p), reserved=float(reserved)),
        ),
    )
