"""Each text of a requirement is read once: where a request comes in, and after a restart once for all jobs with it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC

import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.core.resources import gpu_job_kinds
from gsched.dialect.bsub import read_submission
from gsched.dialect.spec_values import ValueContext
from gsched.model.config import Params
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue
from gsched.policy.requirement import demand_reader
from gsched.resreq.combining import shown_requirement, stored
from gsched.resreq.combining.shown_requirement import with_gpus
from gsched.resreq.parsing import gpu, syntax

JOB = "select[mem>1G] rusage[mem=100M]"
JOB_GPU = "num=1:gmem=1G"
PROFILE = "select[ncpus>1] order[ut]"
QUEUE = "rusage[swp=10] span[hosts=1]"


def forget() -> None:
    """As in a process that has read nothing yet."""
    for kept in (
        syntax._read,
        gpu.parse_gpu,
        gpu_job_kinds._kind,
        demand_reader.demand_of,
        shown_requirement.with_gpus,
    ):
        kept.cache_clear()
    for values in (stored.COMBINED, stored.COMBINED_GPU):
        values._values.clear()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text was read since."""
    found: Counter[str] = Counter()
    begin, checked = syntax.Cursor.__init__, gpu._checked

    def beginning(cursor: syntax.Cursor, source: str, limit: int) -> None:
        found[source] += 1
        begin(cursor, source, limit)

    def checking(values: dict[str, object], positions: dict[str, int], text: str) -> gpu.GpuRequirement:
        found[text] += 1
        return checked(values, positions, text)

    monkeypatch.setattr(syntax.Cursor, "__init__", beginning)
    monkeypatch.setattr(gpu, "_checked", checking)
    forget()
    return found


def world() -> World:
    here = World(
        make_config(
            queues=[Queue(name="normal", priority=30, res_req=QUEUE, gpu_req="num=1:mode=shared")],
            applications={"sim": Application(name="sim", res_req=PROFILE)},
            params=Params(gpu_req="num=1:j_exclusive=no"),
        ),
        connect=False,
    )
    here.connect("a", gpus(4, SHARED, memory_mib=8192))
    return here


def test_a_submission_reads_each_text_once(read: Counter[str]) -> None:
    here = world()
    asked = read_submission(
        ["-R", JOB, "-gpu", JOB_GPU, "-app", "sim", "run"],
        read_stdin=lambda: b"",
        read_file=lambda path: b"",
        env={},
        around=ValueContext(cwd="/home/ann", now=0.0, zone=UTC),
    ).spec
    (job_id,) = here.run(spec(res_req=asked.res_req, gpu_req=asked.gpu_req, application=asked.application))
    job = here.job(job_id)
    assert job.allocation is not None
    with_gpus(job.spec.combined_req, job.spec.combined_gpu_req)
    texts = [JOB, PROFILE, QUEUE, JOB_GPU, "num=1:mode=shared", "num=1:j_exclusive=no"]
    del read[""]
    assert read == Counter(dict.fromkeys(texts, 1))
    read.clear()
    here.run(*[spec(res_req=JOB, gpu_req=JOB_GPU, application="sim") for _ in range(5)])
    here.submit(spec(res_req=JOB, gpu_req=JOB_GPU, application="sim", slots=2))
    assert not read


def test_several_requirements_and_a_merged_gpu_request_are_put_together_as_values(read: Counter[str]) -> None:
    assert syntax.merge(["mem>1", "rusage[mem=1]", "span[hosts=1]"]) == "select[mem>1] rusage[mem=1] span[hosts=1]"
    assert set(read) == {"mem>1", "rusage[mem=1]", "span[hosts=1]"} and set(read.values()) == {1}


def test_a_replay_reads_each_text_once(read: Counter[str]) -> None:
    """Of jobs that wait what was asked for, as their queue may have changed; of those that run what it came to."""
    here = world()
    running = here.run(*[spec(res_req="rusage[mem=1]", gpu_req="num=1:gmem=1G") for _ in range(3)])
    waiting = here.run(*[spec(res_req="heat<5", gpu_req="num=2") for _ in range(3)])
    states = [here.state(job_id) for job_id in (*running, *waiting)]
    assert states == ["RUN"] * 3 + ["PEND"] * 3
    forget()
    read.clear()
    here.restart()
    here.connect("a", gpus(4, SHARED, memory_mib=8192))
    here.settle()
    for job_id in (*running, *waiting):
        with_gpus(here.job(job_id).spec.combined_req, here.job(job_id).spec.combined_gpu_req)
    held = here.job(running[0]).spec
    texts = [held.combined_req, held.combined_gpu_req, "heat<5", "num=2"]
    texts += [QUEUE, "num=1:mode=shared", "num=1:j_exclusive=no"]
    del read[""]
    assert read == Counter(dict.fromkeys(texts, 1))
