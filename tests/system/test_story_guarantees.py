"""Guarantees of GPUs through real daemons: who gets what, what gsla and gresources show, what is told of it later."""

from __future__ import annotations

import pytest
from live_cluster import Cluster

from gsched.base.errors import LSF_FAILURE

pytestmark = pytest.mark.system
CLASSES = """\
Begin ServiceClass
NAME = gold
GOALS = [GUARANTEE]
ACCESS_CONTROL = QUEUES[normal]
DESCRIPTION = the group that paid
End ServiceClass
"""
POOL = """\
Begin GuaranteedResourcePool
NAME = cards
TYPE = resource[ngpus]
DISTRIBUTION = ([gold, 3])
End GuaranteedResourcePool
"""
GPU = ("-o", "/dev/null", "-R", "rusage[ngpus_excl_p=1]", "sleep", "600")


def row(text: str, first: str) -> list[str]:
    """The words of the line that begins with this one."""
    return next(words for line in text.splitlines() if (words := line.split()) and words[0] == first)


def shows(cluster: Cluster, numbers: str) -> None:
    """Wait until gresources shows the pool with these: total, free, guaranteed, of that in use, lent."""

    def now() -> list[str]:
        return row(cluster.run("gresources", "-g").stdout, "cards")[1:]

    cluster.until(lambda: now() == ["resource[ngpus]", "ok", *numbers.split()], f"the pool is not shown as {numbers}")


def test_owners_get_what_is_kept_for_them_and_all_is_shown(cluster: Cluster) -> None:
    cluster.configure(lsb_serviceclasses=CLASSES, lsb_resources=POOL)
    mine = cluster.submit(*GPU)
    cluster.starts(mine)
    other = cluster.submit(*GPU)
    assert "Held back for guarantee cards of service class gold" in cluster.why_pending(other)
    owner = cluster.submit("-sla", "gold", *GPU)
    cluster.starts(owner)
    assert cluster.state(other) == "PEND"

    shows(cluster, "4 2 3 1 0")
    shown = cluster.run("gsla", "gold").stdout
    assert row(shown, "cards") == ["cards", "resource", "3", "1", "1"]
    assert shown.splitlines()[-1].split()[:3] == ["1", "0", "1"]
    assert cluster.run("gsla", "silver", check=False).returncode == LSF_FAILURE
    assert [line.split()[0] for line in cluster.run("gjobs", "-sla", "gold", "-noheader").stdout.splitlines()] == [
        str(owner)
    ]
    refused = cluster.run("gsub", "-sla", "silver", "true", check=False)
    assert refused.returncode == LSF_FAILURE and "silver: No such service class" in refused.stderr

    cluster.run("gkill", str(mine), str(owner))
    cluster.wait(mine, owner)
    cluster.starts(other)
    shows(cluster, "4 3 3 0 0")
    brief = cluster.run("gacct", "-b", "-sla", "gold").stdout
    assert "  - accounted on service classes gold, " in brief and "Total number of exited jobs:     1" in brief
    past = cluster.run("ghist", "-a", "-sla", "gold").stdout
    assert [line.split()[0] for line in past.splitlines()[2:]] == [str(owner)]
    assert "No matching job found" in cluster.run("ghist", "-a", "-sla", "silver", check=False).stdout
