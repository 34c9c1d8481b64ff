"""Jobs of a user of a lab: a script in the home that all hosts share, and what it has printed."""

from __future__ import annotations

from netlab import Host
from netlab_cluster import SharedCluster

from tests.support.reports import printed_in


def script(host: Host, text: str, user: str = "alice") -> str:
    """Put a script into the user's home, which all hosts share; its path."""
    path = f"/home/{user}/job.sh"
    host.run(["sh", "-c", f"cat > {path} && chmod 755 {path}"], user=user, stdin=f"#!/bin/bash\n{text}\n", check=True)
    return path


def read(host: Host, name: str, user: str = "alice") -> str:
    """A file in the user's home; empty where there is none."""
    return host.run(["cat", name], user=user).stdout


def output(host: Host, job_id: int) -> str:
    """What a job of alice has printed, without the report on it."""
    return printed_in(read(host, f"out.{job_id}"))


def end_jobs(cluster: SharedCluster) -> None:
    """End all jobs of alice, and wait until they have."""
    cluster.run("gkill", "-r", "0", check=False)

    def have_ended() -> bool:
        lines = cluster.run("gjobs", "-noheader", "-o", "jobid", check=False).stdout.splitlines()
        return not any(line.strip().isdigit() for line in lines)

    cluster.until(have_ended, "jobs of alice do not end")


def run_job(cluster: SharedCluster, text: str, *words: str, hosts: int = 0, slots: int = 1) -> tuple[list[str], str]:
    """Run a job of alice on so many slots of each host, or of so many hosts; its lines, and how it ended."""
    path = script(cluster.master_host, text)
    number = str((hosts or len(cluster.hosts)) * slots)
    job_id = cluster.submit("-n", number, "-R", f"span[ptile={slots}]", "-o", "out.%J", *words, path)
    cluster.until(lambda: cluster.field(job_id, "stat") in ("DONE", "EXIT"), f"job {job_id} does not end")
    return output(cluster.master_host, job_id).splitlines(), cluster.field(job_id, "stat")
