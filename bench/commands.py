"""Wall time of gsub, gjobs and others beside `python -I -S -c pass` in the same run. Goal: under 2 times.

Slurm's names of our commands are timed too: sbatch beside gsub, squeue beside gjobs. Goal: at most 1.1 times. Where
Debian's slurm-wlm and munge are installed and root asks, Slurm's own sbatch and squeue are timed as well, on a private
Slurm. Where the commands are programs (gsched was installed with a C compiler), gsub and gjobs are timed by Python too,
as without one. All commands are run in turn, round by round, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from private_cluster import BIN, client_of, private_cluster, report, wall_ms
from private_slurm import is_there, private_slurm

from gsched.app.installation.name_scripts import NATIVE_NAME
from gsched.model.views.view import JobFilter
from gsched.wire.calls.client import Client

TIMES = 30
SLOTS = 64
PORTS = 26957, 26958
SBATCH = ("-Q", "-o", "/dev/null", "--wrap", "true")
NAMES = {"sbatch": "gsub", "squeue": "gjobs"}
"""Command of Slurm -> ours that does the same."""
SLURMS_OWN = "slurm's own "
BY_PYTHON = "_by_python"


class Timed(NamedTuple):
    """A command, and what is waited for before the next one is run."""

    words: Sequence[str]
    environment: dict[str, str]
    settle: Callable[[], object]


def main() -> int:
    """Print a table and the figures; exit code 0."""
    report("commands", show(*measured()))
    return 0


def measured(times: int = TIMES) -> tuple[dict[str, float], float]:
    """Milliseconds of each command, and of gjobs without the command server."""
    with (
        private_cluster("--sim-gpus", "4:exclusive_process") as environment,
        client_of(environment) as client,
        slurms_names(environment) as names,
        slurms_own() as own,
    ):
        settle = partial(wait_for_all, client)
        commands = {"python": Timed([sys.executable, "-I", "-S", "-c", "pass"], environment, settle)}
        for words in (["gsub", "true"], ["gjobs"], ["gjobs", "-a"], ["ghosts", "-l"], ["gid"]):
            name = "_".join(word.strip("-") for word in words if word != "true")
            commands[name] = Timed([str(BIN / words[0]), *words[1:]], environment, settle)
        if (BIN / NATIVE_NAME).exists():
            for words in (["gsub", "true"], ["gjobs"]):
                commands[words[0] + BY_PYTHON] = Timed([*script(words[0]), *words[1:]], environment, settle)
        for name, options in (("sbatch", SBATCH), ("squeue", ())):
            commands[name] = Timed([f"{names}/{name}", *options], environment, settle)
        alone = wall_ms([str(BIN / "gjobs")], {**environment, "GSCHED_DOOR": "off"}, min(times, 5))
        return medians(commands | own, times), alone


def script(name: str) -> list[str]:
    """What starts a command where there was no C compiler: bin/launcher as the kernel would start it in BIN."""
    text = (Path(__file__).parents[1] / "bin" / "launcher").read_text(encoding="utf8")
    return ["/bin/bash", "-p", "-c", text, str(BIN / name)]


def show(found: dict[str, float], alone: float) -> dict[str, float]:
    """Print the table; returns the figures. `alone`: gjobs without the command server, in ms."""
    base = found.pop("python")
    print(f"{'python -I -S -c pass':<28} {base:7.1f} ms  1.00")
    figures = {"python_ms": base}
    for name, took in found.items():
        print(f"{name.replace('_', ' '):<28} {took:7.1f} ms  {took / base:4.2f}")
        label = name.replace(SLURMS_OWN, "slurm_")
        figures |= {f"{label}_ms": took, f"{label}_ratio": took / base}
    print(f"{'gjobs without the door':<28} {alone:7.1f} ms  {alone / base:4.2f}")
    figures["gjobs_without_door_ms"] = alone
    for name, ours in NAMES.items():
        figures[f"{name}_to_{ours}"] = found[name] / found[ours]
        print(f"{name} takes {found[name] / found[ours]:4.2f} of {ours}")
        if SLURMS_OWN + name in found:
            figures[f"{name}_to_slurm_{name}"] = found[name] / found[SLURMS_OWN + name]
            print(f"{name} takes {found[name] / found[SLURMS_OWN + name]:4.2f} of {SLURMS_OWN}{name}")
    return figures


def medians(commands: dict[str, Timed], times: int) -> dict[str, float]:
    """Wall time of each in milliseconds, after one round that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(times + 1):
        for name, each in commands.items():
            found[name].append(wall_ms(each.words, each.environment, 0, each.settle))
    return {name: statistics.median(times[1:]) for name, times in found.items()}


@contextlib.contextmanager
def slurms_names(environment: dict[str, str]) -> Iterator[str]:
    """A folder with our sbatch and squeue."""
    with tempfile.TemporaryDirectory(prefix="gsched-names-") as folder:
        words = [str(BIN / "gsched"), "names", "slurm", folder]
        subprocess.run(words, env=environment, check=True, capture_output=True)
        yield folder


@contextlib.contextmanager
def slurms_own() -> Iterator[dict[str, Timed]]:
    """Slurm's sbatch and squeue on a private Slurm; nothing where there is none."""
    if not is_there():
        print("Slurm is not installed here, or root does not ask: its own commands are not timed")
        yield {}
        return
    with private_slurm(PORTS, SLOTS, "") as environment:
        settle = partial(_queue_is_empty, environment)
        yield {
            SLURMS_OWN + name: Timed([str(shutil.which(name)), *words], environment, settle)
            for name, words in (("sbatch", SBATCH), ("squeue", ()))
        }


def _queue_is_empty(environment: dict[str, str]) -> None:
    """Let every job of Slurm end: the job of one sbatch must not run beside the next."""
    while subprocess.run(["squeue", "-h"], env=environment, capture_output=True, check=True).stdout:
        pass


def wait_for_all(client: Client) -> None:
    """Let every job end."""
    client.wait([job.job_id for job in client.jobs(JobFilter(user="all"))], timeout_s=30)


if __name__ == "__main__":
    sys.exit(main())
