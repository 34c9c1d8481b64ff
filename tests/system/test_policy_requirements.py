"""The requirement language through the real commands: what is accepted has its effect and shows as LSF shows it, what
could have none is refused by name, and every job that waits says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from live_cluster import Cluster, printed

QUEUES = """
Begin Queue
QUEUE_NAME = gpus
PRIORITY = 25
GPU_REQ = num=1:mode=exclusive_process
End Queue
"""
EXCLUSIVE = "num=2:mode=exclusive_process"


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "4:exclusive_process", "--hosts", "one,two")
    cluster.configure(lsb_queues=QUEUES)
    return cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster; whatever a test leaves behind is killed."""
    yield shared
    shared.run("gkill", "-u", "all", "0", check=False)
    shared.run("ghosts")


def refused(cluster: Cluster, *words: str) -> str:
    done = cluster.run("gsub", *words, "sleep", "600", check=False)
    assert done.returncode == 255 and done.stderr.endswith(" Job not submitted.\n"), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def shown(cluster: Cluster, job: int) -> str:
    return cluster.run("gjobs", "-UF", str(job)).stdout


def test_gpus_asked_for_in_either_way_are_counted_once(cluster: Cluster) -> None:
    from_queue = cluster.submit("-q", "gpus", "sleep", "600")
    own = cluster.submit("-q", "gpus", "-R", "rusage[ngpus_excl_p=2]", "sleep", "600")
    both = cluster.submit("-gpu", EXCLUSIVE, "-R", "rusage[ngpus_excl_p=1]", "sleep", "600")
    counts = {}
    for job in (from_queue, own, both):
        allocation = cluster.starts(job).allocation
        assert allocation is not None
        counts[job] = sum(len(part.gpus) for part in allocation.hosts)
    assert counts == {from_queue: 1, own: 2, both: 3}
    twice = refused(cluster, "-gpu", EXCLUSIVE, "-R", "rusage[ngpus_physical=1]")
    assert "-gpu says how many GPUs are wanted and ngpus_physical does, too" in twice


def test_combined_and_effective_show_gpus_and_the_alternative_that_was_taken(cluster: Cluster) -> None:
    job = cluster.submit("-gpu", EXCLUSIVE, "sleep", "600")
    cluster.starts(job)
    text = shown(cluster, job)
    rest = "&& (type == local)] order[r15s:pg] rusage[ngpus_physical=2.00]\n"
    assert f" Combined: select[(ngpus>0) {rest} Effective: select[((ngpus>0)) {rest}" in text
    history = "".join(line.strip("\n").removeprefix(" " * 21) for line in cluster.run("ghist", "-l", str(job)).stdout)
    assert "Effective RES_REQ <select[((ngpus>0)) && (type" in history.replace("\n", "").replace(" " * 21, "")
    other = cluster.submit("-R", "{hname==three} || {mem>2} || {mem>1}@600", "sleep", "600")
    cluster.starts(other)
    assert " Effective: select[(mem>2) && (type == local)] order[r15s:pg]\n" in shown(cluster, other)
    first = cluster.submit("-R", "{mem>3} || {mem>2}@600", "sleep", "600")
    cluster.starts(first)
    assert " Effective: select[(mem>3) && (type == local)] order[r15s:pg]\n" in shown(cluster, first)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-R", "type==LINUX46"), "no host has the type LINUX46 (did you mean LINUX64?) at position 1 of"),
        (("-R", "cu[maxcus=1]"), "cu[...]: no compute units are configured"),
        (("-R", "span[gtile=1]"), "no GPU is asked for"),
        (("-n", "5", "-R", "span[ptile=2]"), ": 5, the usable hosts have 4 slots together with span[ptile=2]"),
        (("-n", "5", "-R", "span[stripe=2]"), ": 5, the usable hosts have 4 slots together with span[stripe=2]"),
        (("-n", "2", "-R", "span[ptile=LINUX46:1]"), "no host has the type or model LINUX46 (did you mean LINUX64?)"),
        (("-n", "5", "-R", "span[block=2]"), "5 processors make no whole blocks of span[block=2]"),
        (("-n", "2", "-R", "rusage[ngpus_excl_p=1/job]"), "GPUs are claimed per host or per task"),
        (("-gpu", "mode=exclusive_process:block=yes"), "block=yes is not supported yet"),
        (("-R", "affinity[core(1,same=thread)]"), "same=thread says nothing of cores: a thread is a part of one at"),
        (("-n", "4,2"), "the most slots are fewer than the least"),
    ],
)
def test_what_could_have_no_effect_is_refused(cluster: Cluster, words: tuple[str, ...], said: str) -> None:
    assert said in refused(cluster, *words)


def test_every_alternative_tells_why_it_waits(cluster: Cluster) -> None:
    text = "{mem>900T} || {select[hname==three] rusage[mem=2]} || {rusage[ngpus_excl_p=4]}@1800 || {mem>3}@3600"
    full = [cluster.submit("-m", host, "-gpu", EXCLUSIVE, "sleep", "600") for host in ("one", "two")]
    for job in full:
        cluster.starts(job)
    job = cluster.submit("-R", text, "sleep", "600")
    cluster.why_pending(job)
    lines = cluster.run("gjobs", "-p", str(job)).stdout.splitlines()[2:-1]
    assert lines[0].startswith(" Job's resource requirements not satisfied: 2 hosts (mem>")
    assert lines[1].startswith(" Alternative 2: Job's resource requirements not satisfied: 2 hosts (hname==three")
    assert lines[2:] == [
        " Alternative 3 will be tried 1800 seconds after submission;",
        " Alternative 4 will be tried 3600 seconds after submission;",
    ]
    soon = cluster.submit("-R", text.replace("@1800", "@2"), "sleep", "600")
    cluster.until(
        lambda: "Alternative 3: Job's requirements" in cluster.run("gjobs", "-p", str(soon)).stdout, "not tried"
    )
    assert "Alternative 3 will" not in (told := cluster.run("gjobs", "-p", str(soon)).stdout)
    assert "(4 wanted, 2 of 4 free on one);\n Alternative 4 will be" in told


@pytest.mark.parametrize("wish", ["gmodel=H900", "gmem=900G"])
def test_gpus_that_no_host_has_are_told_of_at_once_and_while_the_job_waits(cluster: Cluster, wish: str) -> None:
    done = cluster.run("gsub", "-gpu", f"mode=exclusive_process:{wish}", "sleep", "600")
    assert "No host that the job may use has a GPU" in done.stderr and wish in done.stderr
    job = int(done.stdout.split("<")[1].split(">")[0])
    assert f"(1 of mode=exclusive_process:{wish} wanted, one has no such GPU)" in cluster.why_pending(job)
    assert "No host that the job may use has a GPU" in shown(cluster, job)


def test_processor_units_that_no_host_offers_are_told_of_at_once(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-R", "affinity[core(1)]", "sleep", "600")
    assert "has the processor units of affinity[core(1)] (AFFINITY is not enabled in lsb.hosts on one)" in done.stderr


def slots_of(cluster: Cluster, job: int) -> dict[str, int]:
    allocation = cluster.starts(job).allocation
    assert allocation is not None
    return {part.host: part.slots for part in allocation.hosts}


@pytest.mark.parametrize(
    ("slots", "text", "expected"),
    [
        ("5", "span[stripe]", [2, 3]),
        ("4", "span[stripe=2]", [2, 2]),
        ("4", "span[stripe] rusage[ngpus_excl_p=1/task]", [2, 2]),
        ("4", "span[block=2]", [4]),
        ("18", "span[block=6]", [6, 12]),
        ("3,5", "span[block=4] rusage[ngpus_excl_p=1/task]", [4]),
    ],
)
def test_tasks_come_in_blocks_or_are_dealt_round_the_hosts(
    cluster: Cluster, slots: str, text: str, expected: list[int]
) -> None:
    job = cluster.submit("-n", slots, "-R", text, "sleep", "600")
    assert sorted(slots_of(cluster, job).values()) == expected
    assert f" {text.split()[0]}" in shown(cluster, job)


def test_parts_of_a_compound_and_hosts_of_a_type_need_no_numbers(cluster: Cluster) -> None:
    three = cluster.submit("-R", "2*{mem>1} + {mem>2}", "sleep", "600")
    assert sum(slots_of(cluster, three).values()) == 3
    tiled = cluster.submit("-n", "4", "-R", "span[ptile=LINUX:2]", "sleep", "600")
    assert slots_of(cluster, tiled) == {"one": 2, "two": 2}


UNITS = """
Begin ComputeUnit
NAME TYPE MEMBER
r1 rack (one)
r2 rack (two)
End ComputeUnit
"""


def test_tasks_are_balanced_over_compute_units(cluster: Cluster) -> None:
    before = (cluster.conf / "lsb.hosts").read_text()
    cluster.configure(lsb_hosts=UNITS)
    try:
        mine = cluster.submit("-n", "6", "-R", "cu[balance:type=rack] span[ptile=3]", "sleep", "600")
        gpus = cluster.submit("-n", "6", "-R", "cu[balance:type=rack] rusage[ngpus_excl_p=1/task]", "sleep", "600")
        assert slots_of(cluster, gpus) == {"one": 3, "two": 3}
        assert sorted(slots_of(cluster, mine).values()) == [3, 3]
        odd = cluster.submit("-n", "2", "-R", "cu[balance:maxcus=1] rusage[ngpus_excl_p=1/task]", "sleep", "600")
        assert cluster.why_pending(odd) == (
            "Not enough hosts to meet the job's spanning requirement (2 slots wanted, 2 on 2 hosts could be had)"
        )
    finally:
        cluster.configure(lsb_hosts="=" + before)


RACKS = """
Begin ComputeUnit
NAME TYPE MEMBER
row rows (one two)
End ComputeUnit
"""
ALONE = """
Begin Queue
QUEUE_NAME = alone
EXCLUSIVE  = CU[rows]
End Queue
"""


def test_a_job_has_its_compute_unit_for_itself(cluster: Cluster) -> None:
    before = {name: (cluster.conf / name).read_text() for name in ("lsb.hosts", "lsb.queues")}
    cluster.configure(lsb_hosts=RACKS, lsb_queues=ALONE)
    try:
        assert "normal: Queue does not accept EXCLUSIVE jobs: cu[excl] needs EXCLUSIVE = CU[rows]" in refused(
            cluster, "-R", "cu[excl]"
        )
        small = cluster.submit("-m", "two", "sleep", "600")
        cluster.starts(small)
        job = cluster.submit("-q", "alone", "-R", "cu[excl]", "-m", "one", "printenv LSB_MCPU_HOSTS; sleep 600")
        assert "compute unit row: 1 job runs on two" in cluster.why_pending(job)
        cluster.run("gkill", str(small))
        cluster.starts(job)
        assert slots_of(cluster, job) == {"one": 1}
        rows = [line.split()[:2] for line in cluster.run("ghosts", "-w").stdout.splitlines()[1:]]
        assert rows == [["one", "closed_Cu_Excl"], ["two", "closed_Cu_Excl"]]
        assert cluster.run("gjobs", "-noheader", "-o", "exec_host", str(job)).stdout.strip() == "one"
        assert "Running an exclusive job" in cluster.why_pending(cluster.submit("sleep", "600"))
        cluster.run("gkill", str(job))
    finally:
        cluster.configure(lsb_hosts="=" + before["lsb.hosts"], lsb_queues="=" + before["lsb.queues"])


def test_what_is_reserved_of_memory_shows(cluster: Cluster) -> None:
    job = cluster.submit("-m", "one", "-R", "rusage[mem=2G]", "sleep", "600")
    cluster.starts(job)
    lines = cluster.run("ghosts", "-l", "one").stdout.splitlines()
    row = next(line for line in lines if line.startswith(" Reserved"))
    assert " 2G " in f"{row} "


AFFINITY = """=
Begin Host
HOST_NAME  MXJ  AFFINITY
one        8    Y
default    8    ()
End Host
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is nothing to choose from")
def test_jobs_with_affinity_get_cpus_of_their_own_and_are_bound_to_them(cluster: Cluster) -> None:
    before = (cluster.conf / "lsb.hosts").read_text()
    try:
        cluster.configure(lsb_hosts=AFFINITY)
        usable = os.sched_getaffinity(0)
        units = [cluster.submit("-R", "affinity[thread]", "sleep", "600") for _ in usable]
        asked = "affinity[thread(1):cpubind=numa:membind=localprefer]"
        output = cluster.conf / "bound"
        tell = "echo $LSB_BIND_CPU_LIST $LSB_BIND_MEM_POLICY; cat $LSB_AFFINITY_HOSTFILE"
        more = cluster.submit("-o", str(output), "-R", asked, tell)
        bound = []
        for job in units:
            view = cluster.starts(job)
            assert view.allocation is not None and view.allocation.first_host == "one" and view.pid is not None
            bound.append(os.sched_getaffinity(view.pid))
            tasks = [task for binding in view.allocation.hosts[0].bindings for task in binding.tasks]
            assert [set(task.bound) for task in tasks] == [bound[-1]]
        assert sorted(map(len, bound)) == [1] * len(usable) and set().union(*bound) == usable
        reason = cluster.why_pending(more)
        many = len(usable)
        assert "not enough processor units to satisfy the job affinity request" in reason
        assert f"1 thread wanted, 0 of {many} free on one" in reason
        tree = cluster.run("ghosts", "-aff", "one").stdout
        assert all(f"Job <{job}> holds CPU " in tree for job in units) and tree.count("*") == many
        assert "AFFINITY: Enabled\n Host[" in cluster.run("ghosts", "-l", "-aff", "one").stdout
        assert "AFFINITY is not enabled in lsb.hosts" in cluster.run("ghosts", "-aff", "two").stdout
        assert " one                 thread -      -      /" in cluster.run("gjobs", "-l", "-aff", str(units[0])).stdout
        cluster.run("gkill", str(units[0]))
        (done,) = cluster.wait(more)
        assert done.allocation is not None
        (task,) = done.allocation.hosts[0].bindings[0].tasks
        cpus, nodes = (",".join(map(str, each)) for each in (task.bound, task.nodes))
        assert printed(output) == f"{cpus} localprefer\none {cpus} {nodes} 2\n"
    finally:
        cluster.configure(lsb_hosts="=" + before)


def test_memory_with_a_duration_is_given_back_while_the_job_runs(cluster: Cluster) -> None:
    with cluster.client() as client:
        (host,) = client.hosts(["one"])
    most = int((host.load["mem"] or 0.0) * 0.6)
    first, second = (
        cluster.submit("-m", "one", "-R", f"rusage[mem={most}M{held}]", "sleep", "600") for held in (":duration=5s", "")
    )
    one, two = cluster.starts(first), cluster.starts(second)
    assert one.dispatched_at is not None and two.dispatched_at is not None
    assert two.dispatched_at >= one.dispatched_at + 5.0
    assert cluster.state(first) == "RUN"
    third = cluster.submit("-m", "one", "-R", f"rusage[mem={most}M]", "true")
    assert "Job's requirements for reserving resource (mem) not satisfied" in cluster.why_pending(third)
    assert ":duration=5s:decay=0]" in shown(cluster, first)
    both = cluster.run("gsub", "-R", "rusage[mem=1:ngpus_excl_p=1:duration=5]", "sleep", "600")
    assert both.stderr == (
        "Warning: the duration of ngpus_excl_p in rusage[...] does not count: a GPU is held until the job ends\n"
    )


def test_a_host_that_is_gone_is_a_reason_and_load_is_not_waited_for_in_vain(cluster: Cluster) -> None:
    job = cluster.submit("-m", "two", "-n", "16", "-R", "select[ut<200]", "sleep", "600")
    cluster.starts(job)
    waits = cluster.submit("-m", "two", "-n", "16", "sleep", "600")
    loaded = cluster.submit("-R", "select[mem>900T]", "sleep", "600")
    never = cluster.submit("-R", "select[ncpus>9000]", "sleep", "600")
    cluster.why_pending(waits)
    hosts = cluster.conf / "lsf.cluster.private"
    before = hosts.read_text()
    try:
        hosts.write_text("".join(line for line in before.splitlines(True) if not line.startswith("two ")))
        cluster.configure()
        cluster.until(lambda: "Host two no longer exists" in cluster.run("gjobs", "-p", str(waits)).stdout, "no reason")
    finally:
        hosts.write_text(before)
        cluster.configure()
    cluster.until(lambda: "no longer" not in cluster.run("gjobs", "-p", str(waits)).stdout, "two is still missed")
    assert " Job will start at an unknown time: Job's resource requirements" in shown(cluster, loaded)
    assert " Job will never start as the hosts are now: Job's resource requirements" in shown(cluster, never)


def test_what_lsf_knows_of_gpus_and_hosts_by_itself(cluster: Cluster) -> None:
    select = "ngpus_physical==4 && gpu_mode0==3 && gpu_mtotal3>11000 && gpu_ut0<50 && nthreads>=1 && ostype==Linux"
    job = cluster.submit("-R", f"select[{select}]", "true")
    assert cluster.wait(job)[0].state == "DONE"
    assert len(cluster.run("ghosts", "-R", f"select[{select}]").stdout.splitlines()) == 3  # a heading and both hosts
    waiting = cluster.submit("-R", "select[gpu_mode0==0]", "true")
    assert "gpu_mode0==0: gpu_mode0 is 3" in cluster.why_pending(waiting)
    cluster.run("gkill", str(waiting))
