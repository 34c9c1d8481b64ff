"""A sweep's jobs that are alike but for texts of their own: judged once, and completed as if each had been judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import START, World, make_config, spec

from gsched.base.errors import BadRequest
from gsched.core.command import Submit
from gsched.core.submission import admission
from gsched.core.submission.alike_jobs import OWN_TEXTS, AlikeJobs
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue, RunLimits

QUEUES = (
    Queue(name="normal", priority=30, default_run_limit_s=3600, rerunnable=True, res_req="select[tmp>1]"),
    Queue(name="night", limits={"MEMLIMIT": RunLimits(maximum=200.0, default=50.0)}),
)
RICH: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "night", "slots": 2, "res_req": "rusage[mem=1]"},
    {"gpu_req": "num=1:mode=exclusive_process", "indices": "1-3", "notify_end": True, "mail_user": "ann"},
    {"application": "training", "hosts": ("a",), "begin_at": START + 9, "dependency": "ended(first)"},
)


def world() -> World:
    world = World(make_config(("a", "b"), QUEUES, applications={"training": Application(name="training")}))
    world.submit(spec(name="first"))
    return world


def own(number: int, *, without: str = "") -> dict[str, str]:
    """Texts of a job's own, of each field but that one."""
    return {name: f"{name} {number}" for name in OWN_TEXTS if name != without}


@pytest.mark.parametrize("rich", RICH)
@pytest.mark.parametrize("without", ["", *(name for name in OWN_TEXTS if name != "command")])
def test_a_job_like_one_before_becomes_what_it_would_alone(rich: dict[str, Any], without: str) -> None:
    here = world()
    requests = here.engine._requests
    judged: list[JobSpec] = []

    def admit(wanted: JobSpec) -> JobSpec:
        judged.append(wanted)
        return requests._admitted(wanted, "ann", here.now)

    alike = AlikeJobs(admit)
    jobs = [spec(**{**rich, **own(number, without=without)}) for number in range(3)]
    found = [alike.admitted(job) for job in jobs]
    assert (len(judged), [is_first for _, is_first in found]) == (1, [True, False, False])
    assert [job for job, _ in found] == [requests._admitted(job, "ann", here.now) for job in jobs]


@pytest.mark.parametrize("name", [name for name in JobSpec.__struct_fields__ if name not in OWN_TEXTS])
def test_whatever_else_differs_makes_another_kind(name: str) -> None:
    plain = spec()
    value = getattr(plain, name)
    others: dict[type, Any] = {str: "other", bool: True, int: 7, float: 7.0, tuple: ("other",), dict: {"MEMLIMIT": 7.0}}
    other = others.get(type(value), 7) if value is not True else False
    alike = AlikeJobs(lambda wanted: wanted)
    assert alike.admitted(plain) == (plain, True)
    changed = msgspec.structs.replace(plain, **{name: other})
    assert alike.admitted(changed) == (changed, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": "  "}, "No command is specified"),
        ({"command": "x" * 1_100_000}, "Command line too long (1100000 characters, at most 1048576)"),
        ({"name": "a\0b"}, "Bad argument: a null character in name"),
        ({"output_file": "x" * 5000}, "output file too long (5000 characters, at most 4096)"),
    ],
)
def test_the_texts_of_each_are_checked(changes: dict[str, Any], said: str) -> None:
    here = world()
    first = spec(name="one", output_file="one")
    with pytest.raises(BadRequest, match=f"^{said.replace('(', '.').replace(')', '.')}$") as caught:
        here.submit(first, msgspec.structs.replace(first, **changes))
    assert "\n" not in caught.value.text
    assert len(here.engine.state.jobs) == 1


def test_a_sweep_is_judged_as_often_as_it_has_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    judged = []
    completed = admission.complete

    def counted(asked: JobSpec, *rest: Any) -> JobSpec:
        judged.append(asked)
        return completed(asked, *rest)

    monkeypatch.setattr(admission, "complete", counted)
    sweep = tuple(spec(f"run {number}", name=f"n{number}", res_req=f"rusage[mem={number % 5}]") for number in range(50))
    here.do(Submit("ann", "token", sweep))
    assert len(judged) == 5
    made = [job.spec for job in here.engine.state.jobs.values()][1:]
    assert [(job.command, job.name, job.res_req) for job in made] == [(s.command, s.name, s.res_req) for s in sweep]
