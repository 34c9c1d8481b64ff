"""Wall time of gsub, gjobs and others beside `python -I -S -c pass` in the same run. Goal: under 2 times."""

from __future__ import annotations

import sys
from functools import partial

from private_cluster import BIN, client_of, private_cluster, report, wall_ms

from gsched.model.view import JobFilter
from gsched.wire.client import Client

TIMES = 30


def main() -> int:
    """Print a table and the figures; exit code 0."""
    with private_cluster("--sim-gpus", "4:exclusive_process") as environment, client_of(environment) as client:
        base = wall_ms([sys.executable, "-I", "-S", "-c", "pass"], environment, TIMES)
        print(f"{'python -I -S -c pass':<28} {base:7.1f} ms  1.00")
        figures = {"python_ms": base}
        for words in (["gsub", "true"], ["gjobs"], ["gjobs", "-a"], ["ghosts", "-l"], ["gid"]):
            settle = partial(wait_for_all, client)
            found = wall_ms([str(BIN / words[0]), *words[1:]], environment, TIMES, settle)
            print(f"{' '.join(words):<28} {found:7.1f} ms  {found / base:4.2f}")
            name = "_".join(word.strip("-") for word in words if word != "true")
            figures[f"{name}_ms"] = found
            figures[f"{name}_ratio"] = found / base
        alone = wall_ms([str(BIN / "gjobs")], {**environment, "GSCHED_DOOR": "off"}, 5)
        print(f"{'gjobs without the door':<28} {alone:7.1f} ms  {alone / base:4.2f}")
        figures["gjobs_without_door_ms"] = alone
    report("commands", figures)
    return 0


def wait_for_all(client: Client) -> None:
    """Let every job end."""
    client.wait([job.job_id for job in client.jobs(JobFilter(user="all"))], timeout_s=30)


if __name__ == "__main__":
    sys.exit(main())
