"""Which kinds of GPU jobs come, as placing is told: what counts, how much is kept, and that the snapshot shows it."""

from __future__ import annotations

from core_world import World, gpu_spec, make_config, spec

from gsched.core.resources.gpu_job_kinds import MOST_COUNTED, MOST_KINDS, MOST_OF_ARRAY, KindsSeen
from gsched.model.config import GpuPlacement, Params
from gsched.model.jobs.job import JobSpec
from gsched.model.scheduling.snapshot import JobKind


def gpus(number: int, slots: int = 1) -> JobSpec:
    return spec(combined_gpu_req=f"num={number}:mode=shared", slots=slots)


def kind(number: int, slots: int = 1) -> JobKind:
    return JobKind(slots, 0.0, number, 1.0, "gpu_shared")


def test_jobs_with_gpus_count_and_arrays_as_many_times_as_they_have_elements() -> None:
    seen = KindsSeen()
    assert seen.mix() == ()
    seen.note(gpus(1))
    seen.note(gpus(2), 5)
    seen.note(gpus(1))
    seen.note(spec(combined_req="rusage[ngpus_excl_p=1.00]"))
    seen.note(spec(combined_req="rusage[mem=5.00]"))
    seen.note(gpus(3), 10**6)
    assert dict(seen.mix()) == {
        kind(1): 2,
        kind(2): 5,
        kind(3): MOST_OF_ARRAY,
        JobKind(1, 0.0, 1, 1.0, "ngpus_excl_p"): 1,
    }


def test_the_mix_stays_the_same_object_until_it_has_changed_noticeably() -> None:
    seen = KindsSeen()
    seen.note(gpus(1), 100)
    before = seen.mix()
    seen.note(gpus(2), 10)
    assert seen.mix() is before
    seen.note(gpus(2), 10)
    assert dict(seen.mix()) == {kind(1): 100, kind(2): 20}


def test_few_kinds_are_kept_and_old_ones_fade() -> None:
    seen = KindsSeen()
    for slots in range(1, 3 * MOST_KINDS):
        seen.note(gpus(1, slots), slots)
        seen.mix()
    assert len(dict(seen.mix())) <= MOST_KINDS
    for _ in range(40):
        seen.note(gpus(8), 1000)
        mix = dict(seen.mix())
        assert sum(mix.values()) <= MOST_COUNTED
    assert max(mix, key=lambda each: mix[each]) == kind(8) and kind(1, 100) not in mix


def test_kinds_of_which_nobody_asks_are_bounded() -> None:
    seen = KindsSeen()
    for slots in range(1, 5000):
        seen.note(gpus(1, slots))
    assert len(seen._new) <= 1024


def test_what_is_submitted_reaches_the_snapshot_where_the_setting_says_so() -> None:
    for placement, expected in ((GpuPlacement.PACK, {}), (GpuPlacement.SCARCE, {1: 1, 2: 3})):
        world = World(make_config(params=Params(gpu_placement=placement)))
        world.submit(gpu_spec(1))
        world.submit(gpu_spec(2, indices="1-3"))
        world.submit(spec())
        snapshot = world.engine.cycles.snapshots.snapshot(world.engine.config, world.now)
        assert {each.gpus: count for each, count in snapshot.mix} == expected
