"""Limits of every kind, thresholds, reservations and what queues add to jobs, through the real commands on two hosts.

Each test has configuration files of its own; those that the cluster was made with are put back behind it.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.config.configuration import load

FILES = ("lsb.queues", "lsb.hosts", "lsb.users", "lsb.params", "lsb.resources", "lsf.cluster.private")
SLEEP = ("sleep", "600")


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", "one,two")


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """Hosts one and two, 16 slots and 2 GPUs each."""
    before = {name: (shared.conf / name).read_text() for name in FILES}
    yield shared
    shared.end_jobs()
    for name, text in before.items():
        (shared.conf / name).write_text(text)
    shared.configure()


def queue(name: str, *lines: str, priority: int = 40) -> str:
    """A section of lsb.queues."""
    return "\n".join(["Begin Queue", f"QUEUE_NAME = {name}", f"PRIORITY = {priority}", *lines, "End Queue", ""])


def section(name: str, *lines: str) -> str:
    """A section Limit of lsb.resources."""
    return "\n".join(["Begin Limit", f"NAME = {name}", *lines, "End Limit", ""])


def many(cluster: Cluster, count: int, *words: str) -> tuple[list[int], str]:
    """Submits so many jobs of which all but the last start; returns those that did, and why the last one waits."""
    *first, last = [cluster.submit(*words, *SLEEP) for _ in range(count)]
    reason = cluster.why_pending(last)
    assert [cluster.becomes(job, "RUN").state for job in first] == ["RUN"] * len(first)
    return first, reason


def hosts_of(cluster: Cluster, jobs: list[int]) -> list[str]:
    views = [cluster.starts(job) for job in jobs]
    return sorted(part.host for view in views if view.allocation for part in view.allocation.hosts)


def refused(cluster: Cluster, *words: str) -> str:
    done = cluster.run("gsub", *words, *SLEEP, check=False)
    assert done.returncode == 255 and done.stderr.count("\n") == 1, done
    return done.stderr


def test_slots_of_queues(cluster: Cluster) -> None:
    user = getpass.getuser()
    limits = {
        "whole": "QJOB_LIMIT = 2",
        "user": "UJOB_LIMIT = 2",
        "host": "HJOB_LIMIT = 1",
        "cpu": "PJOB_LIMIT = 0.001",
    }
    cluster.configure(lsb_queues="".join(queue(name, line) for name, line in limits.items()))
    waiting = {name: many(cluster, 3, "-q", name) for name in limits}
    assert {name: reason for name, (_, reason) in waiting.items()} == {
        "whole": "The queue has reached its job slot limit (2 of 2 used)",
        "user": f"User has reached the per-user job slot limit of the queue (1 wanted, 2 of 2 used by {user})",
        "host": "Queue's per-host job slot limit reached: 2 hosts (1 wanted, 1 of 1 used on one)",
        "cpu": "Queue's per-CPU job slot limit reached: 2 hosts (1 wanted, 1 of 1 used on one)",
    }
    assert hosts_of(cluster, waiting["host"][0]) == hosts_of(cluster, waiting["cpu"][0]) == ["one", "two"]
    rows = {line.split()[0]: line.split()[3:7] for line in cluster.run("gqueues", *limits).stdout.splitlines()[1:]}
    assert rows == {
        "whole": ["2", "-", "-", "-"],
        "user": ["-", "2", "-", "-"],
        "host": ["-", "-", "-", "1"],
        "cpu": ["-", "-", "0.001", "-"],
    }


def test_slots_of_hosts_and_users(cluster: Cluster) -> None:
    user = getpass.getuser()
    cluster.configure(
        lsb_hosts="=Begin Host\nHOST_NAME MXJ JL/U\none 2 ()\ntwo 16 1\nEnd Host\n",
        lsb_users="=Begin User\nUSER_NAME MAX_JOBS JL/P\ndefault 4 ()\nEnd User\n",
    )
    _, full = many(cluster, 3, "-m", "one")
    assert full == "Job slot limit reached: 1 host (1 wanted, 0 of 2 free on one)"
    (beside,), mine = many(cluster, 2, "-m", "two")
    assert mine == "Host's per-user job slot limit reached: 1 host (1 wanted, 1 of 1 used on two)"
    assert cluster.run("ghosts", "-w", "one").stdout.splitlines()[1].split()[1:4] == ["closed_Full", "-", "2"]
    cluster.run("gkill", str(beside))
    cluster.wait(beside)
    cluster.configure(lsb_hosts="=Begin Host\nHOST_NAME MXJ\ndefault 16\nEnd Host\n")
    # Those that waited start with the others: four slots are all that the user may have.
    cluster.until(lambda: cluster.run("gusers").stdout.splitlines()[1].split()[5] == "4", "not all of them run")
    _, most = many(cluster, 1)
    assert most == f"The user has reached his/her job slot limit (1 wanted, 4 of 4 used by {user})"
    assert cluster.run("gusers").stdout.splitlines()[1].split()[1:4] == ["-", "4", "5"]
    cluster.configure(lsb_users="=Begin User\nUSER_NAME MAX_JOBS JL/P\ndefault () 0.001\nEnd User\n")
    assert "User's per-CPU job slot limit reached: 2 hosts" in cluster.why_pending(cluster.submit(*SLEEP))


def test_sections_for_projects_queues_hosts_and_amounts(cluster: Cluster) -> None:
    cluster.configure(
        lsb_hosts="\nBegin HostGroup\nGROUP_NAME GROUP_MEMBER\nfront (one)\nEnd HostGroup\n",
        lsb_resources="="
        + section("one_project", "PROJECTS = vision", "SLOTS = 2")
        + section("each_project", "PER_PROJECT = all ~vision", "QUEUES = night", "JOBS = 1")
        + section("each_host", "PER_HOST = all", "ngpus = 1")
        + section("memory", "HOSTS = front", "MEM = 100M"),
    )
    _, reason = many(cluster, 2, "-P", "vision", "-n", "2")
    assert reason == (
        "Resource limit defined on project has been reached "
        "(Resource: slots, Limit Name: one_project, Limit Value: 2; 2 used, 2 wanted)"
    )
    _, reason = many(cluster, 2, "-P", "speech", "-q", "night")
    assert reason.startswith("JOBS limit defined on queue") and "each_project, Limit Value: 1; 1 used" in reason
    cluster.starts(cluster.submit("-P", "text", "-q", "night", *SLEEP))
    gpus, reason = many(cluster, 3, "-R", "rusage[ngpus_excl_p=1]")
    assert hosts_of(cluster, gpus) == ["one", "two"]
    assert reason.startswith("Resource limit defined on host(s) and/or host group has been reached: 2 hosts")
    _, reason = many(cluster, 2, "-m", "one", "-R", "rusage[mem=60]")
    assert "Resource: mem, Limit Name: memory, Limit Value: 100; 60 used, 60 wanted" in reason

    def table() -> list[list[str]]:
        return [line.split() for line in cluster.run("glimits").stdout.splitlines()[3:] if line]

    cluster.until(lambda: len(table()) >= 7, "glimits does not show all")
    assert table() == [
        ["NAME", "USERS", "QUEUES", "HOSTS", "PROJECTS", "SLOTS", "MEM", "TMP", "SWP", "JOBS", "NGPUS"],
        ["one_project", "-", "-", "-", "vision", "2/2", "-", "-", "-", "-", "-"],
        ["each_project", "-", "night", "-", "speech", "-", "-", "-", "-", "1/1", "-"],
        ["each_project", "-", "night", "-", "text", "-", "-", "-", "-", "1/1", "-"],
        ["each_host", "-", "-", "one", "-", "-", "-", "-", "-", "-", "1/1"],
        ["each_host", "-", "-", "two", "-", "-", "-", "-", "-", "-", "1/1"],
        ["memory", "-", "-", "one", "-", "-", "60/100", "-", "-", "-", "-"],
    ]


def test_what_a_queue_gives_and_allows_each_job(cluster: Cluster) -> None:
    cluster.configure(
        lsb_queues=queue(
            "bound",
            "HOSTS = two",
            "RUNLIMIT = 5 1:00",
            "CPULIMIT = 2 3",
            "MEMLIMIT = 1G 2G",
            "PROCESSLIMIT = 100",
            "TASKLIMIT = 1 2 4",
            "RES_REQ = rusage[mem=100:duration=20:decay=1] order[mem]",
        )
    )
    plain = cluster.submit("-q", "bound", *SLEEP)
    own = cluster.submit("-q", "bound", "-n", "1", "-W", "10", "-M", "2G", "-R", "rusage[mem=50]", *SLEEP)
    assert hosts_of(cluster, [plain, own]) == ["two", "two"]
    told = cluster.run(
        "gjobs", "-noheader", "-o", "slots runtimelimit memlimit processlimit effective_resreq", str(plain), str(own)
    )
    assert told.stdout.splitlines() == [
        "2 5.0 1 Gbytes 100 select[type == local] order[mem] rusage[mem=100.00:duration=20m:decay=1]",
        "1 10.0 2 Gbytes 100 select[type == local] order[mem] rusage[mem=50.00:duration=20m:decay=1]",
    ]
    limits = "Cannot exceed queue's hard limit(s): "
    assert [
        refused(cluster, "-q", "bound", *words)
        for words in (("-W", "61"), ("-c", "4"), ("-M", "3G"), ("-p", "101"), ("-n", "5"), ("-m", "one"))
    ] == [
        f"{limits}61 minutes, queue bound allows 60. Job not submitted.\n",
        f"{limits}CPULIMIT 240 s, queue bound allows 180 s. Job not submitted.\n",
        f"{limits}MEMLIMIT 3072 MB, queue bound allows 2048 MB. Job not submitted.\n",
        f"{limits}PROCESSLIMIT 101, queue bound allows 100. Job not submitted.\n",
        "Too many processors requested: 5, queue bound allows 4. Job not submitted.\n",
        "one: Host or host group is not used by the queue. Job not submitted.\n",
    ]


def test_options_of_gpus_come_from_job_queue_and_cluster(cluster: Cluster) -> None:
    cluster.configure(
        lsb_queues=queue("gpus", "GPU_REQ = num=2:j_exclusive=yes"),
        lsb_params="=Begin Parameters\nGPU_REQ = gmem=1G\nGPU_REQ_MERGE = Y\nEnd Parameters\n",
    )
    job = cluster.submit("-q", "gpus", "-gpu", "num=1", *SLEEP)
    cluster.starts(job)
    shown = "num=1:mode=shared:mps=no:j_exclusive=yes:gvendor=nvidia:gmem=1G\n"
    assert f" Combined: {shown}" in cluster.run("gjobs", "-UF", str(job)).stdout
    cluster.configure(lsb_params="=Begin Parameters\nEnd Parameters\n")
    whole = cluster.submit("-q", "gpus", "-gpu", "num=1", *SLEEP)
    assert " Combined: num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia\n" in (
        cluster.run("gjobs", "-UF", str(whole)).stdout
    )


def test_cores_are_kept_for_free_gpus(cluster: Cluster) -> None:
    cluster.configure(lsb_params="=Begin Parameters\nRESERVE_CORES_PER_GPU = 4\nEnd Parameters\n")
    one = ("-m", "one")
    cluster.starts(cluster.submit(*one, "-n", "8", *SLEEP))
    waiting = cluster.submit(*one, *SLEEP)
    assert cluster.why_pending(waiting) == (
        "Job slot limit reached: 1 host (1 wanted, 8 free on one, 8 of them kept for 2 free GPUs)"
    )
    cluster.starts(cluster.submit(*one, "-gpu", "num=1:mode=exclusive_process", *SLEEP))
    cluster.starts(waiting)


def test_nobody_is_preempted_before_his_time(cluster: Cluster) -> None:
    config = "=Begin Parameters\nMIN_RUN_BEFORE_PREEMPT = {}\nEnd Parameters\n"
    urgent = queue("urgent", "PREEMPTION = PREEMPTIVE[normal]", priority=90)
    cluster.configure(lsb_queues=urgent, lsb_params=config.format(36000))
    low = cluster.submit("-m", "one", "-n", "16", *SLEEP)
    cluster.starts(low)
    high = cluster.submit("-m", "one", "-q", "urgent", *SLEEP)
    assert cluster.why_pending(high).startswith("Job slot limit reached: 1 host")
    assert cluster.state(low) == "RUN"
    cluster.run("gkill", str(high))  # it would look for victims again in some seconds; a new job looks at once
    cluster.configure(lsb_params=config.format(0))
    cluster.starts(cluster.submit("-m", "one", "-q", "urgent", *SLEEP))
    assert cluster.state(low) == "SSUSP"


def test_a_job_beyond_load_stop_is_suspended_once_until_the_load_is_gone(cluster: Cluster) -> None:
    cluster.configure(lsb_queues=queue("careful", "mem = /99999999"))
    job = cluster.submit("-q", "careful", *SLEEP)
    cluster.becomes(job, "SSUSP")
    assert "Host load exceeded threshold: The available memory (mem) is low" in (
        cluster.run("gjobs", "-s", str(job)).stdout
    )
    table = cluster.run("gjobs", "-l", str(job)).stdout.partition("SCHEDULING PARAMETERS")[2].splitlines()
    assert [line.split()[-1] for line in table[2:4]] == ["-", "95.4T"]
    loads: list[object] = []
    with cluster.client() as client:

        def have_been_reported() -> bool:
            load = client.hosts(["one"])[0].load
            if load not in loads:
                loads.append(load)
            return len(loads) > 3

        cluster.until(have_been_reported, "no load is reported")
    assert cluster.state(job) == "SSUSP"
    assert cluster.run("ghist", "-l", str(job)).stdout.count(": Suspended: ") == 1
    cluster.configure(lsb_queues="=" + queue("careful") + queue("normal"))
    cluster.becomes(job, "RUN")


def test_order_decides_where_a_job_goes(cluster: Cluster) -> None:
    cluster.configure(lsb_hosts="=Begin Host\nHOST_NAME MXJ\none 4\ntwo 9\nEnd Host\n")
    emptiest, fullest = (cluster.submit("-R", f"order[{key}]", *SLEEP) for key in ("slots", "-slots"))
    assert (hosts_of(cluster, [emptiest]), hosts_of(cluster, [fullest])) == (["two"], ["one"])
    preferred = cluster.submit("-m", "one two+3", "-R", "order[-slots]", *SLEEP)
    assert hosts_of(cluster, [preferred]) == ["two"]


def test_hosts_of_a_job_agree_in_what_same_names(cluster: Cluster) -> None:
    path = cluster.conf / "lsf.cluster.private"
    lines = path.read_text().splitlines()
    path.write_text("\n".join("two ! LINUXAARCH64 1 ()" if line.startswith("two ") else line for line in lines) + "\n")
    cluster.configure()
    agreeing = cluster.submit("-n", "20", "-R", "type==any same[type]", *SLEEP)
    assert cluster.why_pending(agreeing) == (
        "Not enough hosts to meet the job's spanning requirement "
        "(20 slots wanted, 16 on 1 host could be had that agree in type)"
    )
    cluster.run("gkill", str(agreeing))
    local = cluster.submit("-n", "20", *SLEEP)
    assert "type==local: type is LINUXAARCH64, local is LINUX on two" in (
        cluster.why_pending(local) + cluster.run("gjobs", "-p3", str(local)).stdout
    )
    cluster.run("gkill", str(local))
    assert hosts_of(cluster, [cluster.submit("-n", "20", "-R", "type==any", *SLEEP)]) == ["one", "two"]


def test_an_advance_reservation_is_for_those_who_name_it(cluster: Cluster) -> None:
    begin, end = (time.strftime("%Y:%m:%d:%H:%M", time.gmtime(time.time() + ahead)) for ahead in (-60, 7200))
    user = getpass.getuser()
    cluster.run("grsvadd", "-N", "demo", "-n", "2", "-gpu", "2", "-m", "one", "-u", user, "-b", begin, "-e", end)
    named = cluster.submit("-U", "demo", "-gpu", "num=1:mode=exclusive_process", *SLEEP)
    assert hosts_of(cluster, [named]) == ["one"]
    assert cluster.run("grsvs").stdout.splitlines()[1].split()[:5] == ["demo", "user", user, "1/2", "one:1/2"]
    other = cluster.submit("-m", "one", "-gpu", "num=1:mode=exclusive_process", *SLEEP)
    assert cluster.why_pending(other).startswith("Resources are kept for an advance reservation: 1 host (demo keeps 1")
    assert "nosuch: there is no such advance reservation." in refused(cluster, "-U", "nosuch")
    cluster.run("grsvdel", "demo")
    cluster.starts(other)


POLICY = "Begin ResourceReservation\nNAME = lab\nUSERS = all ~nobody\nHOSTS = one\nEnd ResourceReservation\n"


def test_lines_of_the_prompt_and_the_policies_that_they_bring(cluster: Cluster) -> None:
    path = cluster.conf / "lsb.resources"
    path.write_text((path.read_text() if path.exists() else "") + POLICY)
    lines = 'nosuch\nreconfig\nqclose -C "two words" normal\nqopen normal\nquit\n'
    done = cluster.run("gadmin", stdin=lines)
    assert done.stdout == "Reconfiguration initiated\nQueue <normal> is closed\nQueue <normal> is opened\n"
    assert done.stderr.startswith("Invalid command <nosuch> \nhelp lists the commands\n")
    assert cluster.run("grsvs", "-c", "all").stdout == (
        "Policy Name: lab\nUsers: all ~nobody\nHosts: one\nTime Window: all\n"
    )


def is_said(cluster: Cluster, job: int, text: str) -> bool:
    """Whether `gjobs -l` says so, whose lines break within words."""
    return "".join(text.split()) in "".join(cluster.run("gjobs", "-l", str(job)).stdout.split())


def test_who_starts_leaves_a_planned_job_and_an_advance_reservation_enough_together(cluster: Cluster) -> None:
    """Of 16 slots 8 are held for 5 minutes, then 12 are planned for an hour, and in 10 minutes 4 are reserved."""
    cluster.starts(cluster.submit("-m", "one", "-n", "8", "-W", "5", *SLEEP))
    begin, end = (time.strftime("%Y:%m:%d:%H:%M", time.gmtime(time.time() + ahead)) for ahead in (600, 7200))
    cluster.run("grsvadd", "-N", "later", "-n", "4", "-m", "one", "-u", "nobody", "-b", begin, "-e", end)
    planned = cluster.submit("-m", "one", "-n", "12", "-W", "60", *SLEEP)
    cluster.why_pending(planned)
    kept = cluster.submit("-m", "one", "-n", "2", "-W", "60", *SLEEP)
    assert f"Resources are reserved for job <{planned}>" in cluster.why_pending(kept)
    assert is_said(cluster, planned, "Job will start no sooner than indicated time stamp")
    cluster.run("grsvdel", "later")
    cluster.starts(kept)


def test_no_start_is_planned_for_when_the_queue_is_closed(cluster: Cluster) -> None:
    begin, end = (time.strftime("%H:%M", time.localtime(time.time() + ahead)) for ahead in (-7200, 1800))
    cluster.configure(lsb_queues=queue("evening", f"DISPATCH_WINDOW = {begin}-{end}"))
    cluster.starts(cluster.submit("-m", "one", "-n", "16", "-W", "60", *SLEEP))
    job = cluster.submit("-q", "evening", "-m", "one", "-n", "4", *SLEEP)
    cluster.why_pending(job)
    assert is_said(
        cluster,
        job,
        "Job will start at an unknown time: on host(s) <one>, its queue closes before, by its time windows",
    )


def test_a_queue_and_a_host_in_use_are_taken_away(cluster: Cluster) -> None:
    cluster.configure(lsb_queues=queue("going"))
    runs = cluster.submit("-q", "going", "-m", "two", *SLEEP)
    cluster.starts(runs)
    there = cluster.submit("-m", "two", "-n", "16", *SLEEP)
    waits = cluster.submit("-q", "going", "-n", "32", *SLEEP)
    cluster.why_pending(waits)
    queues, hosts = cluster.conf / "lsb.queues", cluster.conf / "lsf.cluster.private"
    before = {path: path.read_text() for path in (queues, hosts)}
    queues.write_text(before[queues].replace(queue("going"), ""))
    hosts.write_text("".join(line for line in before[hosts].splitlines(keepends=True) if not line.startswith("two ")))
    cluster.configure()
    cluster.until(
        lambda: (
            (cluster.why_pending(waits), cluster.why_pending(there))
            == ("The queue going no longer exists", "Host two no longer exists")
        ),
        "the reasons do not say what is gone",
    )
    assert cluster.state(runs) == "RUN"
    for path, text in before.items():
        path.write_text(text)
    cluster.configure()
    cluster.run("gkill", str(runs))
    cluster.starts(waits)


def test_groups_that_egroup_lists(cluster: Cluster) -> None:
    user = getpass.getuser()
    program = Path(load(str(cluster.conf)).required().locations.server_dir) / "egroup"
    users, hosts = "nobody", "two"

    def lists() -> None:
        program.write_text(f"#!/bin/sh\n[ $1 = -u ] && echo {users} || echo {hosts}\n")
        program.chmod(0o755)

    lists()
    try:
        cluster.configure(
            lsb_users="=Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (!)\nEnd UserGroup\n"
            "Begin User\nUSER_NAME MAX_JOBS\nstaff 2\ndefault -\nEnd User\n",
            lsb_hosts="Begin HostGroup\nGROUP_NAME GROUP_MEMBER\npool (!)\nEnd HostGroup\n",
        )
        assert hosts_of(cluster, [cluster.submit("-m", "pool", *SLEEP) for _ in range(3)]) == ["two"] * 3
        cluster.end_jobs()
        users, hosts = user, "one"
        lists()
        cluster.run("gadmin", "reconfig")
        started, reason = many(cluster, 3, "-m", "pool")
        assert "limit" in reason and "2 of 2" in reason
        assert hosts_of(cluster, started) == ["one", "one"]
        program.chmod(0o644)
        done = cluster.run("gadmin", "reconfig", check=False)
        problem = f"group staff: {program}: cannot be run: Permission denied"
        assert done.returncode != 0 and f"{cluster.conf}/lsb.users:4: {problem}" in done.stdout + done.stderr
        assert user in cluster.run("gugroup", "staff").stdout.split()
        checked = cluster.run("gadmin", "ckconfig", check=False)
        assert checked.returncode != 0 and problem in checked.stdout + checked.stderr
        cluster.run("gjobs")  # commands do not run it
        lists()
        cluster.kill("master")
        cluster.up()
        assert cluster.run("gmgroup", "pool").stdout.split()[-1] == "one"
    finally:
        program.unlink()
