"""Floating licences through the real commands on two hosts: static ones, and one that an elim feeds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil
import pytest
from live_cluster import Cluster

SHARED = """
Begin Resource
RESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION
spice Numeric () N Y (floating licences)
place Numeric () N Y (one pool for each host)
flex Numeric 60 N Y (what the licence server says)
tokens Numeric () N Y (of every host its own)
End Resource
"""
MAP = """
Begin ResourceMap
RESOURCENAME LOCATION
spice (3@[all])
place (1@[one] 2@[others])
flex ([all])
tokens (10@[default])
End ResourceMap
"""
ELIM = """#!/bin/sh
test $# -eq 0 || while :; do echo "1 flex $#"; sleep 0.2; done
while :; do cat "{folder}/flex"; sleep 0.2; done
"""
SLEEP = ("sleep", "600")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--hosts", "one,two")
    (made.folder / "flex").write_text("1 flex 2\n")
    script = made.folder / "etc" / "elim.flex"
    script.write_text(ELIM.format(folder=made.folder))
    script.chmod(0o755)
    made.configure(lsf_shared=SHARED, **{"lsf_cluster.private": MAP})
    return made


def table(cluster: Cluster, command: str, name: str) -> list[list[str]]:
    """The rows of -s of one resource without its name."""
    lines = cluster.run(command, "-s", name).stdout.splitlines()[1:]
    return [line.split()[1:] for line in lines]


def reporters(cluster: Cluster) -> set[int]:
    """The agents whose elims are asked for flex now."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if f"{cluster.folder}/etc/elim.flex" in process.cmdline() and "flex" in process.environ()["LSF_RESOURCES"]:
                found.add(process.ppid())
    return found


def test_licences_are_counted_once_over_both_hosts_whatever_is_killed(cluster: Cluster) -> None:
    assert table(cluster, "ghosts", "spice") == [["3.0", "0.0", "one", "two"]]
    first = cluster.submit("-m", "one", "-R", "rusage[spice=2]", *SLEEP)
    second = cluster.submit("-m", "two", "-R", "rusage[spice=1]", *SLEEP)
    cluster.starts(first), cluster.starts(second)
    third = cluster.submit("-m", "two", "-R", "rusage[spice=1]", *SLEEP)
    assert cluster.why_pending(third) == (
        "Job's requirements for reserving resource (spice) not satisfied: 1 host (1 wanted, 0 free on two)"
    )
    assert table(cluster, "ghosts", "spice") == [["0.0", "3.0", "one", "two"]]
    assert table(cluster, "gload", "spice") == [["0.0", "one", "two"]]
    assert table(cluster, "glshosts", "spice") == [["3.0", "one", "two"]]
    cluster.kill("master")
    cluster.up()
    assert table(cluster, "ghosts", "spice") == [["0.0", "3.0", "one", "two"]]
    assert cluster.state(third) == "PEND"
    cluster.run("gkill", str(first))
    cluster.becomes(third, "RUN")
    assert table(cluster, "ghosts", "spice") == [["1.0", "2.0", "one", "two"]]
    cluster.end_jobs()
    assert table(cluster, "ghosts", "spice") == [["3.0", "0.0", "one", "two"]]


def test_what_each_host_has_for_itself_is_a_row_of_its_own(cluster: Cluster) -> None:
    job = cluster.submit("-m", "two", "-R", "rusage[tokens=6]", *SLEEP)
    cluster.starts(job)
    assert table(cluster, "ghosts", "tokens") == [["10.0", "0.0", "one"], ["4.0", "6.0", "two"]]
    assert table(cluster, "ghosts", "place") == [["1.0", "0.0", "one"], ["2.0", "0.0", "two"]]
    long = cluster.run("ghosts", "-l", "two").stdout
    block = long[long.index("tokens") :].splitlines()
    assert block[0].split()[0] == "tokens" and " 4.0" in block[1] and " 6.0" in block[2]
    cluster.end_jobs()


def test_an_elim_feeds_all_hosts_and_runs_on_one(cluster: Cluster) -> None:
    def shows(*row: str) -> Callable[[], bool]:
        return lambda: table(cluster, "ghosts", "flex") == [list(row)]

    cluster.until(shows("2.0", "0.0", "one", "two"), "the elim's value does not come")
    jobs = [cluster.submit("-m", host, "-R", "rusage[flex=1]", *SLEEP) for host in ("two", "one", "two")]
    for job in jobs[:2]:
        cluster.starts(job)
    assert "reserving resource (flex)" in cluster.why_pending(jobs[2])
    (cluster.folder / "more").write_text("1 flex 3\n")
    (cluster.folder / "more").replace(cluster.folder / "flex")  # at once: the elim never reads half a line
    cluster.becomes(jobs[2], "RUN")
    cluster.until(shows("0.0", "3.0", "one", "two"), "the new value is not shown")
    cluster.until(lambda: reporters(cluster) == {cluster.pid("agent-one")}, "both hosts go on reporting")
    cluster.kill("agent-one")
    cluster.until(lambda: cluster.pid("agent-two") in reporters(cluster), "the other host's elim does not take over")
    cluster.until(shows("0.0", "3.0", "one", "two"), "its value is not shown")
    cluster.up()
    cluster.end_jobs()


def test_a_reconfiguration_gives_the_elim_arguments(cluster: Cluster) -> None:
    cluster.configure(**{"lsf_cluster.private": "Begin Parameters\nELIMARGS = -v 'a b' c d\nEnd Parameters\n"})
    cluster.until(
        lambda: table(cluster, "ghosts", "flex") == [["4.0", "0.0", "one", "two"]], "the elim is not started with them"
    )
