"""A process that hangs in the kernel: what its job holds stays held, and the host goes on with the rest."""

from __future__ import annotations

import re

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence
from tests.support.hangingfs import HangingFile

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def test_an_unkillable_job_is_named_and_keeps_its_own_alone(cluster: Cluster, hang: HangingFile) -> None:
    """pains 21."""
    conf = cluster.conf / "lsb.params"
    conf.write_text(conf.read_text().replace("Begin Parameters", "Begin Parameters\nJOB_TERMINATE_INTERVAL = 1"))
    cluster.run("gadmin", "reconfig")
    job = cluster.submit("-R", "rusage[ngpus_excl_p=1]", "cat", str(hang.path))
    pid = cluster.starts(job).pid
    cluster.until(hang.asked.exists, "nothing hangs")
    cluster.run("gkill", str(job))
    text = f"UNKILLABLE pid {pid} (cat) of run 1 of job {job} of user {cluster.job(job).spec.user} on {cluster.host}"
    cluster.until(
        lambda: any(note.startswith(text) for note in map(sentence, cluster.job(job).notes)), "nobody is told"
    )
    for command in ("gjobs", "ghist"):
        assert text in re.sub(r"\n {21}", "", cluster.run(command, "-l", str(job)).stdout)
    note = f"UNKILLABLE pid {pid} (cat) of job {job};"
    cluster.until(lambda: note in cluster.run("ghosts", "-l").stdout, "ghosts -l does not say it")
    # Three GPUs are free and the host is open; the fourth is not given to anybody.
    rest = cluster.submit("-R", "rusage[ngpus_excl_p=3]", "true")
    assert [view.state for view in cluster.wait(rest)] == ["DONE"]
    waiting = cluster.submit("-R", "rusage[ngpus_excl_p=4]", "true")
    assert "ngpus_excl_p" in cluster.why_pending(waiting)
    assert cluster.run("ghosts").stdout.splitlines()[1].split()[1] == "ok"
    # Neither agent nor master forget it.
    for name in (f"agent-{cluster.host}", "master"):
        cluster.kill(name)
        cluster.up()
    assert cluster.job(job).state == "RUN"
    assert [note.startswith(text) for note in map(sentence, cluster.job(job).notes)].count(True) == 1
    hang.release()
    ended, served = cluster.wait(job, waiting)
    assert (ended.state, served.state) == ("EXIT", "DONE")
