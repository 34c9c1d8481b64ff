"""What attempts have: until they end, and after that until it is given back."""

from __future__ import annotations

from gsched.agent.attempts.held_resources import HeldResources, uuids_of
from gsched.agent.attempts.unkillable_reports import UnkillableReports
from gsched.base.coded_text import sentence
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.v1 import agent_pb2

KEY, OTHER = (7, 1), (8, 2)
WHOLE = HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid="GPU-0", index=0, claim="ngpus_shared", gmem_mib=512),))
MIG = HostAllocation(
    host="h", slots=1, gpus=(HeldGpu(uuid="MIG-1", index=1, claim="ngpus_shared", parent="GPU-1", gmem_mib=0),)
)


def test_what_has_ended_is_held_until_it_is_given_back_and_known_until_it_is_forgotten() -> None:
    ended: set[AttemptKey] = set()
    holdings = HeldResources(ended)
    holdings.take(KEY, WHOLE)
    holdings.take(OTHER, MIG)
    assert holdings.running == holdings.all() == {KEY: WHOLE, OTHER: MIG} and not holdings.returning

    ended.add(KEY)
    assert holdings.running == holdings.all() == {OTHER: MIG}
    holdings.begin_return(KEY, WHOLE)
    assert holdings.all() == {OTHER: MIG, KEY: WHOLE} and holdings.returning == {KEY: WHOLE}
    holdings.end_return(KEY)
    assert holdings.all() == {OTHER: MIG} and KEY in holdings

    holdings.forget(KEY)
    assert KEY not in holdings and list(holdings) == [OTHER] and holdings.part(KEY) is None


def test_gpus_of_attempts_by_name() -> None:
    holdings = HeldResources(())
    holdings.take(KEY, WHOLE)
    holdings.take(OTHER, MIG)
    assert holdings.given_gmem() == {("7.1", "GPU-0"): 512}
    assert holdings.held_gpus("8.2") == {"MIG-1", "GPU-1"} and holdings.held_gpus("9.1") is None
    holdings.may_use_any(KEY)
    assert holdings.held_gpus("7.1") is None
    assert uuids_of(MIG) == {"GPU-1"} and uuids_of(None) == frozenset()


def test_who_cannot_be_killed_is_told_once_more_to_a_new_master_until_the_attempt_is_over() -> None:
    told: list[agent_pb2.AgentMessage] = []
    unkillable = UnkillableReports(told.append)
    unkillable.found(7, 1, [(31, "dd")])
    unkillable.found(7, 1, [(30, "cp")])
    assert tuple(map(sentence, unkillable.remarks())) == (
        "UNKILLABLE pid 30 (cp) of job 7",
        "UNKILLABLE pid 31 (dd) of job 7",
    )
    unkillable.tell()
    sent = [[(each.pid, each.name) for each in message.unkillable.processes] for message in told]
    assert sent == [[(31, "dd")], [(31, "dd"), (30, "cp")], [(31, "dd"), (30, "cp")]]
    unkillable.ended(KEY)
    unkillable.ended(KEY)
    unkillable.tell()
    assert not unkillable.remarks() and len(told) == 3
