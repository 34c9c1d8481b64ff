"""GPUs of which nobody knows whether an attempt holds them are offered to nobody."""

from __future__ import annotations

from gsched.agent.attempts.held_resources import HeldResources, uuids_of
from gsched.agent.gpu.lost_gpus import LostGpus
from gsched.base.coded_text import sentence
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.order import Order

LOST, OTHER = (7, 1), (8, 2)
HELD = HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid="GPU-1", index=1, claim="ngpus_excl_p"),))
REPORT = GpuReport(
    gpus=(Gpu(uuid="GPU-0", index=0), Gpu(uuid="GPU-1", index=1), Gpu(uuid="GPU-2", index=2, problem="sick")),
    provider="simulated",
    known=True,
)


def test_none_is_offered_that_the_attempt_may_have_until_it_is_over() -> None:
    ended: set[AttemptKey] = set()
    holdings = HeldResources(ended)
    judge = LostGpus(
        lambda: holdings.unknown, lambda: {uuid for part in holdings.all().values() for uuid in uuids_of(part)}
    ).judge
    holdings.take_up(OTHER, Order(job_id=8, attempt=2, command="", holding=HELD), "h")
    assert judge(REPORT) == REPORT
    holdings.take_up(LOST, Order(job_id=7, attempt=1, command="", gpus_unknown=True), "h")
    assert holdings.part(LOST) == HostAllocation(host="h", slots=1)
    assert [sentence(gpu.problem) for gpu in judge(REPORT).gpus] == ["unrecorded(7.1)", "", "sick"]
    assert holdings.held_gpus("7.1") is None  # none that it uses is called another's
    ended.add(LOST)
    assert judge(REPORT) == REPORT
    ended.clear()
    holdings.forget(LOST)
    assert judge(REPORT) == REPORT
