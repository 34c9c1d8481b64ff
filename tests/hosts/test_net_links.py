"""A shared cluster whose network fails: links that are cut, lossy or slow, two machines with one name, power cuts."""

from __future__ import annotations

import re
import time

import pytest
from netlab import Host, Lab
from netlab_cluster import ENVDIR, PATIENCE_S, SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

LOST_S = "8"
"""Of tests in which a host is lost. On a busy machine the agent of another one may say nothing for seconds."""


def sleeping(host: Host, seconds: str) -> bool:
    """Whether a process `sleep SECONDS` runs there."""
    return host.run(["pgrep", "-f", f"^sleep {seconds}$"]).returncode == 0


def starts(cluster: SharedCluster, job_id: int) -> int:
    """How often the job has been started, as its history says."""
    history = cluster.run("ghist", "-l", "-u", "all", str(job_id), user="alice").stdout
    return len(re.findall(r"Starting \(Pid", " ".join(history.split())))


def goes_on(host: Host, seconds: str) -> None:
    """Let the job that `runs` has submitted go on before its time."""
    host.run(["pkill", "-f", f"^sleep {seconds}$"], check=True)


def runs(cluster: SharedCluster, host: Host, seconds: str, *words: str) -> int:
    """Submit `sleep SECONDS` to the host as alice and wait until it runs there."""
    job_id = cluster.submit(*words, "-m", host.name, "-o", "out.%J", f"sleep {seconds}; echo over")
    cluster.until(lambda: sleeping(host, seconds), f"job {job_id} does not run")
    return job_id


def test_link_is_cut_for_seconds_and_nothing_is_lost(lab: Lab) -> None:
    """The host is unreach and ok again; its job never notices, and its output and result arrive."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": "60"})
    job_id = runs(cluster, b, "1000.16")
    b.cut()
    cluster.host_becomes(b, "unreach")
    assert cluster.field(job_id, "stat") == "RUN"
    goes_on(b, "1000.16")
    b.mend()
    cluster.host_becomes(b, "ok")
    cluster.becomes(job_id, "DONE")
    assert starts(cluster, job_id) == 1
    assert "over" in a.run(["cat", f"out.{job_id}"], user="alice").stdout.splitlines()


def test_link_is_cut_for_longer_than_a_host_may_be_silent(lab: Lab) -> None:
    """UNKWN, and RUN again; a rerunnable job starts once elsewhere, and what is left of it here is ended."""
    a, b, c = lab.host("h1"), lab.host("h2"), lab.host("h3")
    cluster = shared_cluster(lab, [a, b, c], settings={"GSCHED_HOST_LOST": LOST_S})
    plain = runs(cluster, b, "1000.1")
    again = cluster.submit("-r", "-m", "h2 h3", "-R", "order[r1m]", "sleep 1000.2")
    cluster.until(lambda: sleeping(b, "1000.2") or sleeping(c, "1000.2"), "the job does not run")
    first, other = (b, c) if sleeping(b, "1000.2") else (c, b)
    first.cut()
    cluster.host_becomes(first, "unavail")
    cluster.until(lambda: sleeping(other, "1000.2"), "the rerunnable job does not start again")
    if first is b:
        assert cluster.field(plain, "stat") == "UNKWN"
    assert sleeping(first, "1000.2"), "nobody could end the first attempt yet"
    first.mend()
    cluster.host_becomes(first, "ok")
    cluster.until(lambda: not sleeping(first, "1000.2"), "the first attempt still runs")
    assert cluster.field(plain, "stat") == "RUN" and sleeping(b, "1000.1")
    assert cluster.field(again, "stat exec_host").split() == ["RUN", other.name] and sleeping(other, "1000.2")
    assert starts(cluster, again) == 2 and starts(cluster, plain) == 1
    cluster.run("gkill", str(plain), str(again))
    cluster.becomes(plain, "EXIT")
    cluster.becomes(again, "EXIT")
    for host in (b, c):
        cluster.until(lambda host=host: not sleeping(host, "1000.*"), f"a killed job still runs on {host}")


@pytest.mark.nightly
def test_a_third_of_all_packets_is_lost(lab: Lab) -> None:
    """Every job is started once and its end is heard, and no host is given up."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": "20"})
    b.lose(30)
    jobs = [cluster.submit("-m", "h2", f"exit {number}") for number in range(6)]
    for job_id in jobs:
        cluster.until(lambda job_id=job_id: cluster.field(job_id, "stat") in ("DONE", "EXIT"), f"{job_id} does not end")
    assert [cluster.field(job_id, "exit_code") for job_id in jobs] == ["-", *map(str, range(1, 6))]
    assert [starts(cluster, job_id) for job_id in jobs] == [1] * 6
    assert "unavail" not in cluster.states().values()
    b.lose(0)


@pytest.mark.nightly
def test_slow_link_is_not_taken_for_a_dead_one(lab: Lab) -> None:
    """A large output crawls over it, to three readers; meanwhile the host stays, and jobs start there."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": "10"})
    b.slow(kbit=256)
    job_id = cluster.submit("-m", "h2", "head -c 300000 /dev/zero | tr '\\0' x; echo; sleep 1000.3")
    cluster.until(lambda: sleeping(b, "1000.3"), "the job does not run")
    began = time.monotonic()
    readers = [a.popen(["gpeek", str(job_id)], user="alice", stdout=-1, stderr=-1, text=True) for _ in range(3)]
    for reader in readers:
        shown, problem = reader.communicate(timeout=PATIENCE_S)
        assert shown.count("x" * 1000) == 300, problem
    assert time.monotonic() - began > 5, "the link was not slow"
    other = cluster.submit("-m", "h2", "true")
    cluster.becomes(other, "DONE")
    assert cluster.log(a, "master").count("agent of h2 said hello") == 1
    b.slow(0)


@pytest.mark.nightly
def test_two_machines_with_one_name(lab: Lab) -> None:
    """The first keeps the host, the second is told so, and both logs say it once; when the first has gone it may."""
    a, b, impostor = lab.host("h1"), lab.host("h2"), lab.host("h3")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": "60"})
    job_id = runs(cluster, b, "1000.4")
    cluster.prepare(impostor)
    for path in b.path(ENVDIR).rglob("*"):
        if path.is_file():
            copy = impostor.path(f"{ENVDIR}/{path.relative_to(b.path(ENVDIR))}")
            copy.write_bytes(path.read_bytes())
            copy.chmod(path.stat().st_mode)
    cluster.start_daemon(impostor, "agent", as_host="h2")
    text = "host h2 already has an agent"
    cluster.until(lambda: text in cluster.log(impostor, "agent"), "the second is not refused")
    time.sleep(5)  # it asks again twice
    versions = cluster.run("gadmin", "versions", user="root", check=False)
    for told in (cluster.run("ghosts", "-l", "h2").stdout, versions.stdout):
        unfolded = "".join(told.split())
        assert "".join(text.split()) in unfolded and impostor.address in unfolded, told
    assert versions.returncode == 1 and " refused " in versions.stdout
    assert cluster.states()["h2"] == "ok" and cluster.field(job_id, "stat") == "RUN"
    assert cluster.log(a, "master").count("agent of h2 said hello") == 1
    assert cluster.log(a, "master").count(text) == 1 and cluster.log(impostor, "agent").count(text) == 1
    cluster.kill(b, "agent")
    cluster.until(lambda: "has heard the hello" in cluster.log(impostor, "agent"), "the second is still refused")


def test_power_of_a_host_with_running_jobs_fails(lab: Lab) -> None:
    """Unknown while it is off; when it is back the jobs are over, or start again where they may."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": LOST_S})
    plain = runs(cluster, b, "1000.5")
    again = runs(cluster, b, "1000.6", "-r")
    cluster.power_off(b)
    cluster.becomes(plain, "UNKWN")
    cluster.becomes(again, "PEND")
    assert cluster.states()["h2"] == "unavail"
    cluster.boot(b)
    cluster.becomes(plain, "EXIT")
    assert "the host restarted while the job ran" in " ".join(cluster.run("ghist", "-l", str(plain)).stdout.split())
    cluster.until(lambda: sleeping(b, "1000.6"), "the rerunnable job does not start again")
    assert starts(cluster, again) == 2
    # Back before anybody has noticed: its agent takes the place of the session that it left behind.
    cluster.power_off(b)
    cluster.boot(b)
    cluster.until(lambda: sleeping(b, "1000.6"), "the rerunnable job does not start a third time")
    assert starts(cluster, again) == 3


def test_link_of_the_master_is_cut(lab: Lab) -> None:
    """Commands wait and say so; jobs go on and end, and what happened meanwhile is told when it is back."""
    a, b, c = lab.host("h1"), lab.host("h2"), lab.host("h3")
    cluster = shared_cluster(lab, [a, b, c], settings={"GSCHED_HOST_LOST": "60"})
    long, short = runs(cluster, b, "1000.7"), runs(cluster, c, "1000.17")
    a.cut()
    waiting = b.popen(["gsub", "-m", "h2", "true"], user="bob", stdout=-1, stderr=-1, text=True)
    assert waiting.stderr is not None and (said := waiting.stderr.readline())
    goes_on(c, "1000.17")
    a.mend()
    out, err = waiting.communicate(timeout=PATIENCE_S)
    assert "is submitted" in out, (said, err)
    cluster.becomes(short, "DONE")
    assert cluster.field(long, "stat") == "RUN" and sleeping(b, "1000.7")
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "the hosts do not come back")


@pytest.mark.nightly
def test_host_is_added_and_removed_while_jobs_run(lab: Lab) -> None:
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b])
    staying, leaving = runs(cluster, a, "1000.8"), runs(cluster, b, "1000.18")
    c = lab.host("h3")
    cluster.add(c)
    added = runs(cluster, c, "1000.9")
    cluster.remove(b)
    assert "h2" not in cluster.states()
    goes_on(b, "1000.18")
    cluster.becomes(leaving, "DONE")
    assert [cluster.field(job_id, "stat") for job_id in (staying, added)] == ["RUN", "RUN"]
    refused = cluster.run("gsub", "-m", "h2", "true", check=False)
    assert refused.returncode != 0 and "h2" in refused.stderr


@pytest.mark.nightly
def test_job_is_killed_while_its_host_cannot_be_reached(lab: Lab) -> None:
    """ZOMBI until the host is back and has ended it; with -r the job is over at once, and ended there all the same."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": LOST_S})
    kept, removed = runs(cluster, b, "1000.11"), runs(cluster, b, "1000.12")
    b.cut()
    cluster.becomes(kept, "UNKWN")
    cluster.run("gkill", str(kept))
    cluster.run("gkill", "-r", str(removed))
    cluster.becomes(kept, "ZOMBI")
    cluster.becomes(removed, "EXIT")
    assert cluster.field(kept, "stat") == "ZOMBI", "its host has not said that it is over"
    b.mend()
    cluster.becomes(kept, "EXIT")
    for seconds in ("1000.11", "1000.12"):
        cluster.until(lambda seconds=seconds: not sleeping(b, seconds), "a killed job runs on")


@pytest.mark.nightly
def test_host_of_a_part_of_a_job_is_lost(lab: Lab) -> None:
    """Such a job is UNKWN meanwhile and one job again afterwards; a rerunnable one starts elsewhere, as a whole."""
    a, b, c = lab.host("h1"), lab.host("h2"), lab.host("h3")
    cluster = shared_cluster(lab, [a, b, c], settings={"GSCHED_HOST_LOST": LOST_S})
    spread = ["-n", "2", "-R", "span[ptile=1]"]
    plain = cluster.submit(*spread, "-m", "h1! h3", "sleep 1000.13")
    again = cluster.submit(*spread, "-r", "-m", "h1! h3", "sleep 1000.14")
    for seconds in ("1000.13", "1000.14"):
        cluster.until(lambda seconds=seconds: sleeping(a, seconds), "the job does not run")
    first = a.run(["pgrep", "-f", "^sleep 1000.14$"]).stdout.split()
    c.cut()
    cluster.becomes(plain, "UNKWN")
    assert sleeping(a, "1000.13")
    cluster.until(lambda: a.run(["pgrep", "-f", "^sleep 1000.14$"]).stdout.split() != first, "its first run goes on")
    cluster.becomes(again, "PEND")
    c.mend()
    cluster.becomes(plain, "RUN")
    cluster.until(lambda: sleeping(a, "1000.14"), "the rerunnable job does not start again")
    assert (starts(cluster, plain), starts(cluster, again)) == (1, 2)


@pytest.mark.nightly
def test_power_of_the_host_of_a_part_fails(lab: Lab) -> None:
    """The job is over on all its hosts when that one is back without its part."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": LOST_S})
    job_id = cluster.submit("-n", "2", "-R", "span[ptile=1]", "-m", "h1! h2", "sleep 1000.15")
    cluster.until(lambda: sleeping(a, "1000.15"), "the job does not run")
    cluster.power_off(b)
    cluster.becomes(job_id, "UNKWN")
    cluster.boot(b)
    cluster.becomes(job_id, "EXIT")
    cluster.until(lambda: not sleeping(a, "1000.15"), "the job is over on one of its hosts only")


def test_terminal_of_a_job_outlives_a_cut(lab: Lab) -> None:
    """Of gsub -I and gpeek -f: one line says that the host is away, and when it is back nothing is missing."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": LOST_S})
    count = "i=0; until [ -e stop ]; do i=$((i + 1)); echo $i; sleep 0.5; done"
    sitting = a.popen(["gsub", "-I", "-m", "h2", count], user="alice", stdin=-3, stdout=-1, stderr=-1, text=True)
    other = cluster.submit("-m", "h2", count, user="bob")
    cluster.becomes(other, "RUN")
    peek = a.popen(["gpeek", "-f", str(other)], user="bob", stdin=-3, stdout=-1, stderr=-1, text=True)
    assert sitting.stdout is not None and sitting.stdout.readline().startswith("Job <")
    assert sitting.stdout.readline() == "1\n"
    b.cut()
    cluster.becomes(other, "UNKWN")
    time.sleep(5.5)
    b.mend()
    cluster.becomes(other, "RUN")
    for user in ("alice", "bob"):
        cluster.run("touch", "stop", user=user)
    for command, first in ((sitting, 2), (peek, 1)):
        # Not communicate(): it forgets what came together with a line that has been read.
        out, err = command.stdout.read(), command.stderr.read()
        assert command.wait(PATIENCE_S) == 0, err
        said = [int(word) for word in out.split() if word.isdigit()]
        assert said == list(range(first, first + len(said))) and len(said) > 5, out
        assert err.count("gsched: host h2 is not responding") == 1, err
