"""What a requirement may say on this cluster: values that exist, forms that have an effect, GPUs asked for once."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec

from gsched.base.errors import GschedError
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue

EXCLUSIVE = "num=1:mode=exclusive_process"
QUEUES = (
    Queue(name="normal"),
    Queue(name="gpus", gpu_req=EXCLUSIVE),
    Queue(name="physical", res_req="rusage[ngpus_physical=1]"),
)


def world(**changes: Any) -> World:
    hosts = (HostConfig(name="a", max_slots=16), HostConfig(name="b", max_slots=-1))
    return World(make_config(hosts, QUEUES, host_types=("X86_64", "ARM64"), host_models=("generic",), **changes))


def admitted(wanted: JobSpec, **changes: Any) -> JobSpec:
    here = world(**changes)
    (job_id,) = here.submit(wanted)
    return here.job(job_id).spec


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (spec(res_req="type==X8664"), "type==X8664: no host has the type X8664 (did you mean X86_64?) at position 1"),
        (spec(res_req="select[mem>1 && model=='fast']"), "model==fast: no host has the model fast; these are: generic"),
        (spec(res_req="status!=happy"), "status!=happy: no host has the status happy; these are: ok, busy"),
        (spec(res_req="cu[maxcus=1]"), "Bad resource name: cu[...]: no compute units are configured"),
        (spec(res_req="cu[type=rack]"), "Bad resource name: cu[type=rack]: no compute units are configured"),
        (spec(res_req="span[gtile=2]"), "span[gtile=...] says how GPUs spread over sockets, and no GPU is asked for"),
        (
            spec(slots=2, res_req="rusage[ngpus_excl_p=1/job]"),
            "ngpus_excl_p=1/job: GPUs are claimed per host or per task",
        ),
        (
            spec(slots=5, res_req="span[ptile=2]"),
            "5, the usable hosts have 4 slots together with span[ptile=2]",
        ),
        (
            spec(res_req="rusage[ngpus_physical=2]", gpu_req=EXCLUSIVE),
            "-gpu says how many GPUs are wanted and ngpus_physical does, too: give one of them at position 8",
        ),
        (
            spec(res_req="type\n==X8664 &&\n!nosuch"),
            "Bad resource name: nosuch at position 18 of <type ==X8664 && !nosuch>",
        ),
        (spec(res_req="type\n==X8664"), "at position 1 of <type ==X8664>"),
        (spec(gpu_req=f"{EXCLUSIVE}:block=yes"), "Bad GPU requirement: block=yes is not supported yet"),
    ],
)
def test_what_could_have_no_effect_is_refused(wanted: JobSpec, said: str) -> None:
    with pytest.raises(GschedError) as caught:
        world().submit(wanted)
    assert said in caught.value.text and "\n" not in caught.value.text


@pytest.mark.parametrize(
    "wanted",
    [
        spec(res_req="type==any && model==any"),
        spec(res_req="type==ARM64 || type==LINUX || type==local"),
        spec(res_req="model==generic || status=ok"),
        spec(slots=4, res_req="span[ptile=2]"),
        spec(res_req="rusage[ngpus_excl_p=1/job]"),
        spec(slots=2, res_req="rusage[ngpus_excl_p=1/job] span[hosts=1]"),
        spec(res_req="span[gtile=2] rusage[ngpus_excl_p=1]"),
        spec(res_req="span[gtile=2]", gpu_req=EXCLUSIVE),
    ],
)
def test_what_has_an_effect_is_accepted(wanted: JobSpec) -> None:
    assert world().submit(wanted) == [1]


def test_gpu_req_gives_nothing_to_a_job_that_claims_gpus_itself() -> None:
    assert admitted(spec(queue="gpus")).combined_gpu_req.startswith("num=1:mode=exclusive_process")
    assert admitted(spec(queue="gpus", res_req="rusage[ngpus_excl_p=2]")).combined_gpu_req == ""
    assert admitted(spec(queue="gpus", res_req="rusage[ngpus_excl_p=0]")).combined_gpu_req != ""
    # Both generations at once, each for itself: both claim.
    both = admitted(spec(queue="gpus", res_req="rusage[ngpus_excl_p=2]", gpu_req="num=2:mode=exclusive_process"))
    assert both.combined_gpu_req.startswith("num=2") and "ngpus_excl_p=2.00" in both.combined_req


def test_gpu_of_the_job_counts_before_what_the_queue_reserves() -> None:
    taken = admitted(spec(queue="physical", gpu_req="num=4:mode=exclusive_process"))
    assert taken.combined_gpu_req.startswith("num=4")


def test_exclusive_units_are_for_queues_that_allow_them() -> None:
    units = {"rack": {"r1": ("a",), "r2": ("b",)}, "row": {"w": ("a", "b")}, "side": {"s": ("b",)}}
    queues = (Queue(name="normal", exclusive=True), Queue(name="racks", exclusive=True, exclusive_units="rack"),
              Queue(name="rows", exclusive=True, exclusive_units="row"))  # fmt: skip
    config = make_config("ab", queues, compute_units=units)

    def said(text: str, queue: str) -> str:
        here = World(config)
        try:
            here.submit(spec(res_req=text, queue=queue))
        except GschedError as error:
            return str(error)
        return ""

    no = "Queue does not accept EXCLUSIVE jobs"
    assert said("cu[excl]", "normal").startswith(f"normal: {no}: cu[excl] needs EXCLUSIVE = CU[rack] in lsb.queues")
    assert said("cu[excl]", "racks") == said("cu[excl:type=rack]", "racks") == said("cu[excl]", "rows") == ""
    wider = said("cu[excl:type=row]", "racks")
    assert wider.startswith(f"racks: {no} with cu[excl:type=row]: it has EXCLUSIVE = CU[rack]"), wider
    assert said("cu[excl:type=side]", "racks") == said("cu[excl:type=side]", "rows") == ""
    assert said("cu[type=row:maxcus=1]", "normal") == ""
