"""What jobs ask of GPUs and of hosts beside slots: parts of GPUs, memory, links, hosts of their own, kept cores."""

from __future__ import annotations

from placing_cluster import SHARED, Cluster, devices, host, hosts, kind, line, places, told

from gsched.base.coded_text import coded
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.jobs.reason import PendingReason


def test_shares_of_a_gpu_fill_used_devices_first() -> None:
    cluster = hosts("a", "b", slots=8).devices("a", 2, SHARED).devices("b", 2, SHARED)
    cluster.add(kind(gpu="share=0.5"), 3)
    cluster.add(kind(gpu="share=0.6"), 2)
    plan = cluster.plan()
    assert list(zip(places(plan).values(), devices(plan).values(), strict=True)) == [
        ("a", [0]),
        ("a", [0]),
        ("a", [1]),
        ("b", [0]),
        ("b", [1]),
    ]
    cluster.carry_out(plan)
    cluster.add(kind(gpu="share=0.6"))
    assert told(cluster.plan())[0] == (
        "Job's requirements for reserving resource (ngpus_physical) not satisfied: "
        "2 hosts (1 of share=0.6 wanted, 0 of 2 free on a)",
    )


def test_memory_and_model_of_gpus() -> None:
    cluster = hosts("a")
    cluster.gpus(
        "a",
        Gpu(uuid="x", index=0, mode=SHARED, model="Tesla K80", memory_mib=12000),
        Gpu(uuid="y", index=1, mode=SHARED, model="Tesla V100-PCIE-32GB", memory_mib=32000),
        Gpu(uuid="z", index=2, mode=SHARED, model="Tesla V100-PCIE-32GB"),
        shared_jobs=4,
    )
    cluster.add(kind(gpu="num=1:gmem=20G"), 2)
    cluster.add(kind(gpu="num=2:gmodel=V100"))
    plan = cluster.plan()
    assert devices(plan) == {1: [1], 3: [1, 2]}
    assert told(plan)[0][0].endswith("(1 of gmem=20G wanted, 0 of 1 free on a)")


def test_linked_gpus_and_the_island_that_fits_best() -> None:
    cluster = hosts("a")
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    gpus = [Gpu(uuid=f"g{i}", index=i, mode=SHARED, links=(f"g{other}",)) for i, other in pairs.items()]
    cluster.gpus("a", *gpus)
    cluster.add(kind(gpu="num=1:j_exclusive=yes"))
    cluster.add(kind(gpu="num=2:j_exclusive=yes:glink=yes"))
    cluster.add(kind(gpu="num=1:j_exclusive=yes"))
    assert devices(cluster.plan()) == {1: [0], 2: [2, 3], 3: [1]}
    unknown = hosts("a").devices("a", 4, SHARED)
    unknown.add(kind(gpu="num=2:glink=yes"))
    assert told(unknown.plan())[0][0].endswith("(2 of glink=yes wanted, 1 of 4 free on a)")


def test_gpus_of_the_old_kind_and_by_gpu_share_one_ledger() -> None:
    cluster = hosts("a").devices("a", 2, ComputeMode.EXCLUSIVE_PROCESS)
    cluster.add(kind("rusage[ngpus_excl_p=1]"))
    cluster.add(kind(gpu="num=1:mode=exclusive_process"), 2)
    assert devices(cluster.plan()) == {1: [0], 2: [1]}


def test_a_job_that_wants_its_host_alone() -> None:
    cluster = hosts("a", "b").hold("a", slots=1)
    cluster.add(kind(exclusive=True))
    cluster.add(kind())
    plan = cluster.plan()
    assert places(plan) == {1: "b", 2: "a"}
    cluster.carry_out(plan)
    cluster.add(kind(exclusive=True))
    cluster.add(kind(asked_hosts=("b",)))
    assert [[line(each) for each in reasons] for reasons in cluster.plan().reasons.values()] == [
        ["Running an exclusive job: 1 host (job 1 on b)",
         "Job's requirement for exclusive execution not satisfied: 1 host (2 jobs run on a)"],
        ["Running an exclusive job: 1 host (job 1 on b)", "Not specified in job submission: 1 host"],
    ]  # fmt: skip


def test_cores_are_kept_for_free_gpus() -> None:
    cluster = hosts("a", slots=8, reserve_cores_per_gpu=2).devices("a", 3)
    cluster.add(kind(), 3)
    cluster.add(kind("rusage[ngpus_excl_p=1]"))
    cluster.add(kind())
    plan = cluster.plan()
    assert list(places(plan)) == [1, 2, 4]
    assert told(plan) == [("Job slot limit reached: 1 host (1 wanted, 6 free on a, 6 of them kept for 3 free GPUs)",)]


def test_cores_kept_for_one_free_gpu_are_told_in_the_singular() -> None:
    cluster = hosts("a", slots=3, reserve_cores_per_gpu=2).devices("a", 1)
    cluster.add(kind(), 2)
    assert told(cluster.plan()) == [
        ("Job slot limit reached: 1 host (1 wanted, 2 free on a, 2 of them kept for 1 free GPU)",)
    ]


def test_resources_kept_for_those_who_ask_and_busy_hosts() -> None:
    cluster = Cluster(
        host("a", values={"big": True}, exclusive_resources=("big",)),
        host("b", busy={"q": PendingReason(coded("load.pg"), detail=coded("load.threshold", "9", "4"))}),
        slots=1,
    )
    cluster.add(kind())
    cluster.add(kind("select[big]"))
    plan = cluster.plan()
    assert places(plan) == {2: "a"}
    assert told(plan)[0] == (
        "The paging rate (pg) is beyond threshold: 1 host (9, threshold 4)",
        "Job's resource requirements not satisfied: 1 host (a is kept for jobs that ask for big)",
    )
