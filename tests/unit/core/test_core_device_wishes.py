"""GPUs that no host has: the job is accepted, and whoever submits it is told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from core_world import World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.core.submission.device_fit import Offered, Processors, Wishes, never_met, wishes_of
from gsched.model.hosts.host import ComputeMode, GpuReport
from gsched.model.hosts.topology import Processor

SHARED = ComputeMode.DEFAULT
OLD = gpus(2, SHARED, "a", model="Tesla K80", memory_mib=12_288)
NEW = gpus(4, SHARED, "b", model="NVIDIA A100-SXM4-40GB", memory_mib=40_961)
TWO = tuple(Processor(cpu=cpu, core=cpu, socket=0, numa=0) for cpu in range(2))
NONE = "No host that the job may use has"


def never_given(wishes: tuple[Wishes, ...], hosts: Mapping[str, GpuReport | None]) -> str:
    return sentence(never_met(wishes, {name: Offered(report) for name, report in hosts.items()}))


def never_bound(wishes: tuple[Wishes, ...], hosts: Mapping[str, Processors | None]) -> str:
    return sentence(never_met(wishes, {name: Offered(GpuReport(), offered) for name, offered in hosts.items()}))


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("num=1:gmodel=K80", ""),
        ("num=1:gmodel=H100", f"{NONE} a GPU of gmodel=H100 (models are NVIDIA A100-SXM4-40GB, Tesla K80): the job"),
        ("num=1:gmem=40G", ""),
        ("num=1:gmem=48G", f"{NONE} a GPU with gmem=48G (b has the most, 40961M): the job waits until one has"),
        ("num=1:gmodel=K80:gmem=16G", f"{NONE} a GPU of gmodel=K80 with gmem=16G (a has the most, 12G)"),
        ("num=3:gmodel=K80", f"{NONE} such GPUs (3 of gmodel=K80)"),
        ("num=2/task:gmodel=K80", ""),
        ("num=1/task:gmodel=K80", f"{NONE} such GPUs (4 of gmodel=K80)"),
        ("num=2:glink=yes", f"{NONE} such GPUs (2 of glink=yes)"),
        ("num=9", ""),
    ],
)
def test_what_no_host_has_is_named(gpu: str, said: str) -> None:
    requirement = "span[hosts=1]" if gpu.startswith("num=1/task") else ""
    found = never_given(wishes_of(requirement, gpu, 4), {"a": OLD, "b": NEW})
    assert found.startswith(said) and bool(found) == bool(said)


def test_one_alternative_that_can_be_met_is_enough_and_the_unknown_is_not_judged() -> None:
    both = "{rusage[ngpus_physical=1:gmodel=H100]} || {rusage[ngpus_physical=1:gmodel=K80]}@60"
    assert never_given(wishes_of(both, "", 1), {"a": OLD}) == ""
    assert "gmodel=H100" in never_given(wishes_of(both, "", 1), {"b": NEW})
    apart = "1*{rusage[ngpus_physical=1:gmodel=A100]} + {rusage[ngpus_physical=1:gmodel=P100]}"
    assert "gmodel=P100 (models are NVIDIA A100" in never_given(wishes_of(apart, "", 3), {"b": NEW})
    assert never_given(wishes_of("", "num=1:gmodel=H100", 1), {"a": OLD, "b": None}) == ""
    assert never_given(wishes_of("", "num=1:gmodel=H100", 1), {"a": OLD, "b": GpuReport(known=False)}) == ""
    assert "(they have none)" in never_given(wishes_of("", "num=1:gmodel=H100", 1), {"a": GpuReport()})
    dumb = gpus(1, SHARED, "a")
    assert "(nobody knows how much theirs have)" in never_given(wishes_of("", "num=1:gmem=1G", 1), {"a": dumb})


def test_processor_units_that_no_host_offers() -> None:
    wishes = wishes_of("affinity[core(3)]", "", 1)
    said = f"{NONE} the processor units of affinity[core(3)] "
    assert never_bound(wishes, {"a": ((), "AFFINITY is off"), "b": (TWO, "")}) == (
        f"{said}(3 cores wanted, 2 of 2 free on b): the job waits until one has"
    )
    assert never_bound(wishes, {"a": ((), "AFFINITY is off")}).startswith(f"{said}(AFFINITY is off on a)")
    assert never_bound(wishes, {"a": None, "b": (TWO, "")}) == ""
    assert never_bound(wishes_of("affinity[core(2)]", "", 3), {"b": (TWO, "")}) == ""
    assert never_bound(wishes_of("affinity[core] span[hosts=1]", "", 3), {"b": (TWO, "")}) != ""
    assert never_bound(wishes_of("{affinity[core(3)]} || {mem>1}", "", 1), {"b": (TWO, "")}) == ""
    here = World(make_config(("a", "b")))
    (job,) = here.submit(spec(res_req="affinity[core(1)]"))
    assert "AFFINITY is not enabled in lsb.hosts on a" in sentence(here.job(job).spec.warnings[0])


def test_gpus_and_processor_units_are_judged_together() -> None:
    """Each alternative may lack something else, and a task's host must have both."""
    old, new = Offered(OLD, (TWO, "")), Offered(NEW, ((), "AFFINITY is off"))
    apart = wishes_of("{rusage[ngpus_physical=1:gmodel=H100]} || {affinity[core(3)]}", "", 1)
    assert sentence(never_met(apart, {"a": old, "b": new})).startswith(f"{NONE} a GPU of gmodel=H100 (models are ")
    assert sentence(never_met(apart, {"a": old, "b": Offered(NEW, None)})) == ""
    assert sentence(never_met(apart, {"a": old, "b": Offered(None)})) == ""
    other_way = wishes_of("{affinity[core(3)]} || {rusage[ngpus_physical=1:gmodel=H100]}", "", 1)
    assert sentence(never_met(other_way, {"a": old})).startswith(
        f"{NONE} the processor units of affinity[core(3)] (3 cores"
    )
    both = wishes_of("affinity[core(1)]", "num=1:gmodel=A100", 1)
    assert sentence(never_met(both, {"a": old, "b": new})) == (
        f"{NONE} the processor units of affinity[core(1)] beside such GPUs (AFFINITY is off on b): the job waits until "
        "one has"
    )
    assert sentence(never_met(both, {"a": old, "b": Offered(NEW, None)})) == ""
    found = never_met(both, {"a": Offered(None, ((), "off")), "b": new})
    assert sentence(found).startswith(f"{NONE} the processor units")
    assert never_met(both, {"a": old, "b": Offered(NEW, (TWO, ""))}) == ""
    two_terms = wishes_of("1*{affinity[core(1)]} + 1*{rusage[ngpus_physical=1:gmodel=A100]}", "", 2)
    assert sentence(never_met(two_terms, {"a": old, "b": new})) == ""


def test_whoever_submits_is_told_and_the_job_waits() -> None:
    here = World(make_config(("a", "b")))
    for name, report in (("a", OLD), ("b", NEW)):
        here.report(name, gpus=report)
    wanted = spec(gpu_req="num=1:gmodel=H100")
    (job,) = here.submit(wanted, spec(gpu_req="num=1:gmodel=K80"))[:1]
    (told,) = map(sentence, here.job(job).spec.warnings)
    assert told.startswith(f"{NONE} a GPU of gmodel=H100")
    here.modify(job, gpu_req="num=1:gmodel=H200")
    assert ["gmodel=H200" in text for text in map(sentence, here.job(job).spec.warnings)] == [True]
    here.modify(job, gpu_req="num=3:gmodel=A100")
    assert here.job(job).spec.warnings == ()
    only = here.submit(spec(gpu_req="num=1:gmodel=A100", hosts=("a",)))[0]
    assert tuple(map(sentence, here.job(only).spec.warnings)) == (
        f"{NONE} a GPU of gmodel=A100 (models are Tesla K80): the job waits until one has",
    )
