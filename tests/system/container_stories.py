"""What a job in a container is expected to do whatever runs the container: tests of each runtime tell these."""

from __future__ import annotations

import signal
from pathlib import Path

from live_cluster import Cluster, printed

from gsched.model.jobs.job import EXIT_SAVED


def hears_a_signal_once_is_stopped_goes_on_and_is_killed(cluster: Cluster, image: str, out: Path) -> None:
    """`out`: the file that its output goes to."""
    script = "trap 'echo heard' USR1; echo begun; while :; do sleep 0.1; done"
    job = cluster.submit("-o", str(out), "--container", image, script)
    cluster.until(lambda: out.exists() and "begun" in out.read_text(), "it does not begin")
    cluster.run("gkill", "-s", "USR1", str(job))
    cluster.until(lambda: "heard" in out.read_text(), "it hears nothing")
    cluster.run("gstop", str(job))
    cluster.becomes(job, "USUSP")
    cluster.run("gresume", str(job))
    cluster.becomes(job, "RUN")
    cluster.run("gkill", str(job))
    (view,) = cluster.wait(job)
    assert view.result is not None and view.result.exit_code == 128 + signal.SIGINT, "it ends as its shell ends"
    assert printed(out).count("heard") == 1


def saves_before_its_run_limit_or_is_ended_by_it(cluster: Cluster, image: str) -> None:
    """One that saves and asks for another run, and one that hears nothing of it."""
    script = "trap 'echo saved; exit 99' USR2; echo begun $GSCHED_ATTEMPT; while :; do sleep 0.1; done"
    words = ("--signal", "USR2@40", "-W", "1", "--container", image)
    saves = cluster.submit("-o", "saves.out", "--max-restarts", "1", "--restart-on", "timelimit", *words, script)
    deaf = cluster.submit("-o", "deaf.out", *words, "trap '' INT TERM USR2; echo begun; sleep 1000; sleep 1000")
    ends = {view.job_id: view for view in cluster.wait(saves, deaf, timeout_s=180)}
    text = printed(cluster.folder / "saves.out")
    assert text.count("saved") == 2 and "begun 1" in text and "begun 2" in text
    assert ends[saves].result is not None and ends[saves].result.exit_code == EXIT_SAVED
    assert ends[deaf].result is not None and ends[deaf].result.term_reason == "TERM_RUNLIMIT"
