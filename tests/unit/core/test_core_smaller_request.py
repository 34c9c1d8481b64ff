"""The request that is said to have been enough is submitted: it is accepted, and holds what was really used."""

from __future__ import annotations

import math
import random
import shlex
from datetime import UTC

import msgspec
import pytest
from core_world import SHARED, START, World, gpus, make_config

from gsched.dialect.bsub import read_submission
from gsched.dialect.spec_values import ValueContext
from gsched.model.efficiency.job_use import asked_of, ended_use
from gsched.model.efficiency.smaller_request import enough
from gsched.model.efficiency.verdicts import SPARE_CORES
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation
from gsched.model.queues.queue import Queue

RUN_S = 4000.0
PLAIN = (Queue(name="normal", priority=30, exclusive=True),)


def asked(*words: str) -> JobSpec:
    """What these words of gsub ask for."""
    around = ValueContext(cwd="/w", now=START, zone=UTC)
    read = read_submission([*words, "run"], read_stdin=bytes, read_file=lambda path: b"", env={}, around=around)
    return read.spec


def world(**changes: object) -> World:
    hosts = [HostConfig(name=name, max_slots=16) for name in ("a", "b")]
    made = World(make_config(hosts, **{"queues": PLAIN, **changes}), connect=False)
    for host in ("a", "b"):
        found = gpus(4, SHARED, host=host, memory_mib=81_920)
        sockets = tuple(msgspec.structs.replace(gpu, numa=gpu.index // 2) for gpu in found.gpus)
        made.connect(host, msgspec.structs.replace(found, gpus=sockets))
    return made


def started(there: World, spec: JobSpec) -> Allocation:
    (job_id,) = there.run(spec)
    allocation = there.job(job_id).allocation
    assert allocation is not None, there.reasons(job_id)
    return allocation


def use(allocation: Allocation, *busy: int, gmem_mib: float = 1000.0) -> tuple[GpuUsage, ...]:
    """The GPUs with these places compute, the others are never used."""
    held = [(part.host, gpu) for part in allocation.hosts for gpu in part.gpus]
    return tuple(
        GpuUsage(
            host=host,
            index=gpu.index,
            uuid=gpu.uuid,
            samples=10,
            covered_s=RUN_S,
            sm_mean=50.0 if place in busy else 0.0,
            sm_max=90.0 if place in busy else 0.0,
            mem_max_mib=gmem_mib if place in busy else 0.0,
        )
        for place, (host, gpu) in enumerate(held)
    )


def judged(there: World, words: tuple[str, ...], *busy: int, gmem_mib: float = 1000.0, **used: float) -> str:
    """What would have been enough for a job with these words, of whose GPUs these computed."""
    spec = asked(*words)
    allocation = started(there, spec)
    job = there.job(max(there.engine.state.jobs))
    usage = Usage(gpus=use(allocation, *busy, gmem_mib=gmem_mib), **used)  # type: ignore[arg-type]
    result = AttemptResult(exit_code=0, run_s=RUN_S, usage=usage)
    there.ended(job.job_id, host=allocation.first_host, usage=usage, run_s=RUN_S)
    return enough(ended_use(asked_of(job.spec, allocation), result), job.spec, allocation)


FOUR = "num=4:mode=shared:j_exclusive=yes"


@pytest.mark.parametrize(
    ("words", "busy", "used", "expected"),
    [
        (("-gpu", FOUR), (0, 1), {}, "-gpu num=2:mode=shared:j_exclusive=yes"),
        (("-gpu", FOUR), (0, 1, 2, 3), {}, ""),
        (("-gpu", FOUR), (), {}, ""),
        (("-n", "8", "-gpu", FOUR), (3,), {"cpu_peak": 2.05}, "-n 2 -gpu num=1:mode=shared:j_exclusive=yes"),
        (("-n", "8"), (), {"cpu_peak": 7.2}, ""),
        (("-n", "2,8"), (), {"cpu_peak": 1.4}, "-n 2"),
        (("-n", "8"), (), {}, ""),
        (("-W", "48:00"), (), {}, "-W 1:30"),
        (("-W", "60"), (), {}, ""),
        (("-R", "rusage[mem=64G]"), (), {"max_mem_mib": 5000.0}, "-R 'rusage[mem=6G]'"),
        (("-R", "rusage[mem=64G]"), (), {"max_mem_mib": 500.0}, "-R 'rusage[mem=768M]'"),
        (("-R", "rusage[mem=64G]"), (), {}, ""),
        (("-R", "rusage[mem=64G]", "-M", "70G"), (), {"max_mem_mib": 5000.0}, "-R 'rusage[mem=6G]' -M 70G"),
        (
            ("-n", "4", "-R", "rusage[mem=8G/task]"),
            (),
            {"max_mem_mib": 5000.0, "cpu_peak": 2.0},
            "-n 2 -R 'rusage[mem=3G/task]'",
        ),
        (("-gpu", "num=2:gmem=40G"), (0, 1), {"gmem_mib": 9000.0}, "-gpu num=2:gmem=11G"),
        (("-gpu", "num=2:gmem=40G"), (0, 1), {"gmem_mib": 39000.0}, ""),
        (("-R", "select[ngpus>0] rusage[ngpus_shared=3]"), (1,), {}, "-R 'select[ngpus>0] rusage[ngpus_shared=1]'"),
        (("-gpu", "num=4:mode=shared:j_exclusive=yes:gtile=2"), (0,), {}, ""),
        (("-n", "4", "-R", "span[ptile=4]"), (), {"cpu_peak": 1.0}, ""),
        (
            ("-n", "2", "-gpu", "num=2/task:j_exclusive=yes"),
            (0,),
            {"cpu_peak": 0.5},
            "-n 2 -gpu num=1/task:j_exclusive=yes",
        ),
        (("-x", "-W", "48:00"), (), {}, "-W 1:30 -x"),
        (
            ("-n", "8", "-R", "span[ptile=4]", "-gpu", FOUR),
            (0, 4, 5),
            {"cpu_peak": 1.0},
            "-n 8 -R 'span[ptile=4]' -gpu num=2:mode=shared:j_exclusive=yes",
        ),
    ],
)
def test_what_is_said(words: tuple[str, ...], busy: tuple[int, ...], used: dict[str, float], expected: str) -> None:
    assert judged(world(), words, *busy, **used) == expected


def test_gpus_that_nobody_asked_for_cannot_be_refused() -> None:
    """Those that a queue gives; with -gpu fewer of them can be had, with nothing the job would get them again."""
    given = (Queue(name="normal", priority=30, gpu_req=FOUR),)
    assert judged(world(queues=given), (), 0) == "-gpu num=1:mode=shared:mps=no:j_exclusive=yes:gvendor=nvidia"
    there = world(queues=given)
    allocation = started(there, asked("-gpu", FOUR))
    result = AttemptResult(exit_code=0, run_s=RUN_S, usage=Usage(gpus=use(allocation)))
    spec = there.job(1).spec
    assert enough(ended_use(asked_of(spec, allocation), result), spec, allocation, gets_gpus_unasked=True) == ""


@pytest.mark.parametrize("ended", [{"exit_code": 1}, {"exit_code": 0, "term_reason": "TERM_RUNLIMIT"}, {"signal": 9}])
def test_a_job_that_failed_might_have_needed_more(ended: dict[str, object]) -> None:
    there = world()
    allocation = started(there, asked("-gpu", FOUR))
    result = AttemptResult(run_s=RUN_S, usage=Usage(gpus=use(allocation, 0)), **ended)  # type: ignore[arg-type]
    spec = there.job(1).spec
    assert enough(ended_use(asked_of(spec, allocation), result), spec, allocation) == ""


def chosen(chance: random.Random) -> tuple[str, ...]:
    """Words of a request that a cluster of two hosts of 16 slots and 4 GPUs can meet."""
    words: list[str] = []
    if chance.random() < 0.7:
        words += ["-n", chance.choice(("2", "4", "8", "2,6", "16"))]
    options = ["mode=shared", "j_exclusive=yes", f"gmem={chance.choice(('2G', '40G', '70000M'))}"]
    options = [f"num={chance.choice((1, 2, 3, 4))}", *chance.sample(options, 2)]
    kind = chance.random()
    if kind < 0.5:
        words += ["-gpu", ":".join(options)]
    rusage = [f"ngpus_shared={chance.choice((1, 2, 4))}"] if kind > 0.7 else []
    if chance.random() < 0.6:
        rusage.append(f"mem={chance.choice(('500', '8G', '3000M', '1.5G/task', '20G/host'))}")
    spread = chance.choice(("", "", "span[hosts=1]", "span[ptile=8]"))
    if rusage or spread:
        words += ["-R", f"{f'rusage[{chr(44).join(rusage)}] ' if rusage else ''}{spread}".strip()]
    if chance.random() < 0.5:
        words += ["-W", chance.choice(("70", "100:00", "8:30"))]
    return tuple(words)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_accepted_and_holds_what_was_used(seed: int) -> None:
    """Random requests and uses: the smaller one starts on the same cluster, and nothing that was used is missing."""
    chance, smaller = random.Random(seed), 0
    for _ in range(5):
        words = chosen(chance)
        before = started(world(), asked(*words))
        devices = [gpu for part in before.hosts for gpu in part.gpus]
        busy = tuple(place for place in range(len(devices)) if chance.random() < 0.5)
        reserved_mib = min((gpu.gmem_mib for gpu in devices if gpu.gmem_mib), default=0.0)
        gmem_mib = chance.uniform(1.0, reserved_mib or 9000.0)
        mem_mib = sum(part.amounts.get("mem", 0.0) for part in before.hosts)
        most_mib = chance.uniform(1.0, mem_mib or 1000.0)
        peak = chance.uniform(0.1, sum(part.slots for part in before.hosts))
        text = judged(world(), words, *busy, gmem_mib=gmem_mib, cpu_peak=peak, max_mem_mib=most_mib)
        if not text:
            continue
        smaller += 1
        again = world()
        after = started(again, asked(*shlex.split(text)))
        told = f"{words}: {text}"
        hosts = [part.host for part in before.hosts for _ in part.gpus]
        needed = [sum(hosts[place] == part.host for place in busy) for part in before.hosts]
        for most, part in zip(sorted(needed), sorted(after.hosts, key=lambda part: len(part.gpus)), strict=False):
            assert len(part.gpus) >= most, told
        if busy and reserved_mib:
            assert all(gpu.gmem_mib >= gmem_mib for part in after.hosts for gpu in part.gpus), told
        assert sum(part.amounts.get("mem", 0.0) for part in after.hosts) >= (most_mib if mem_mib else 0.0), told
        assert sum(part.slots for part in after.hosts) >= peak - SPARE_CORES, told
        assert (again.job(1).spec.run_limit_s or math.inf) >= RUN_S, told
    assert smaller
