"""Whatever is seen of a GPU in whatever order: when it may be offered, and to whom its faults are charged."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.agent.gpu.gpu_condition import GpuRecord, HealthRules, still_of
from gsched.model.hosts.host import MOST_XIDS, ComputeMode, Gpu, GpuXid
from tests.support.property_examples import examples

RULES = HealthRules(clean_probes=2, max_temperature_c=90)
SOUND: dict[str, Any] = {"mode": ComputeMode.DEFAULT}
LOOKS: dict[str, dict[str, Any]] = {
    "sound": SOUND,
    "lost": {"fault": "NVML: GPU is lost", "problem": "NVML: GPU is lost"},
    "silent": {"problem": "NVML does not answer"},
    "fatal": SOUND | {"xids": (GpuXid(number=48),)},
    "harmless": SOUND | {"xids": (GpuXid(number=94), GpuXid(number=13))},
    "hot": SOUND | {"temperature_c": 95},
}


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(LOOKS)), st.booleans(), st.sampled_from(["", "1.1", "2.1"])), max_size=40)
)
def test_what_is_offered_was_clean_for_long_enough(story: list[tuple[str, bool, str]]) -> None:
    gpu = Gpu(uuid="GPU-0", index=0)
    record = GpuRecord(still=still_of(gpu))
    clean, faults, hit = 0, 0, ()
    for kind, counts, holder in story:
        holders = (holder,) if holder else ()
        had_failed = bool(record.fault)
        seen = Gpu(uuid="GPU-0", index=0, **LOOKS[kind])
        problem = record.see(seen, holders, RULES, counts=counts)
        if kind in ("lost", "fatal"):
            clean = 0
            if not had_failed:
                faults, hit = faults + 1, holders
        elif kind == "silent":
            clean = 0
        elif had_failed and counts:
            clean += 1
        assert bool(record.fault) == (kind in ("lost", "fatal") or (had_failed and clean < 2 << (faults - 1)))
        assert record.hit == (hit if record.fault else ())
        assert not record.fault or problem == record.fault
        assert kind != "hot" or problem
        assert len(record.xids) <= MOST_XIDS
        if not record.fault:
            clean = 0
