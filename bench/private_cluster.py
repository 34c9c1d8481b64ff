"""A throw-away private cluster for the benches, and their common last line. Runs on a plain installation."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Submission
from gsched.wire.address import read_address
from gsched.wire.calls.client import Client

BIN = Path(sys.executable).parent


class _Ending:
    """The signal that asked this process to end, and whether it must wait for what is being started."""

    asked = 0
    delayed = False

    @classmethod
    def end(cls, number: int, _frame: object) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, lambda *_: None)  # not SIG_IGN, which those inherit that are started to tidy up
        cls.asked = number
        if not cls.delayed:
            raise SystemExit(128 + number)


def end_in_good_order() -> None:
    """From here on SIGTERM and SIGHUP end this process as an error would: what it has started is ended first."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) not in (signal.SIG_IGN, _Ending.end):  # ignored: nohup
            signal.signal(each, _Ending.end)


@contextlib.contextmanager
def end_only_afterwards() -> Iterator[None]:
    """A signal to end that comes within counts when this is left: no process is started that nobody has noted down."""
    _Ending.delayed = True
    try:
        yield
    finally:
        _Ending.delayed = False
    if _Ending.asked:
        raise SystemExit(128 + _Ending.asked)


@contextlib.contextmanager
def private_cluster(*words: str, **env: str) -> Iterator[dict[str, str]]:
    """Start `gsched up WORDS` in a temporary folder; yields the environment for its commands, `env` among it."""
    end_in_good_order()
    folder = Path(tempfile.mkdtemp(prefix="gsched-bench-"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GSCHED_", "LSF_"))}
    environment.update(GSCHED_ENVDIR=str(folder / "conf"), **env)
    gsched = [str(BIN / "gsched")]
    try:
        subprocess.run([*gsched, "up", "--dir", str(folder), *words], env=environment, check=True, capture_output=True)
        yield environment
    finally:
        subprocess.run(
            [*gsched, "down", "--dir", str(folder), "--kill"], env=environment, capture_output=True, check=False
        )
        shutil.rmtree(folder, ignore_errors=True)


PLAIN = {
    "lsf.conf": {"GSCHED_GPU_INTERVAL": "5", "GSCHED_HOST_LOST": "30"},
    "lsf.cluster.private": {"EXINTERVAL": "15"},
    "lsb.params": {"SBD_SLEEP_TIME": "10", "GPU_SHARED_JOBS": "64"},
    "lsb.hosts": {"default": "64 ()"},
}
"""What a plain configuration says where a private cluster's says something else: intervals in seconds, slots."""


def set_plain(conf: Path) -> None:
    """Write that into the files of a private cluster; a master or agent that runs does not know it yet."""
    for name, values in PLAIN.items():
        text = (conf / name).read_text()
        for key, value in values.items():
            text, found = re.subn(rf"(?m)^({key}\b[ =]*).*$", rf"\g<1>{value}", text)
            assert found == 1, f"{key} in {name}"
        (conf / name).write_text(text)


def client_of(environment: Mapping[str, str]) -> Client:
    """A client of the cluster that `private_cluster` started."""
    return Client(read_address(environment["GSCHED_ENVDIR"]))


def submission(command: str, output: str = "/dev/null") -> Submission:
    """A small job of this user in /tmp."""
    spec = JobSpec(command=command, user="", queue="", cwd="/tmp", home="/tmp", submit_host="bench", output_file=output)
    return Submission(spec=spec, environment=b"PATH=/usr/bin:/bin\0")


def wall_ms(
    command: Sequence[str], environment: dict[str, str], times: int, settle: Callable[[], object] = lambda: None
) -> float:
    """Median wall time of a command in milliseconds, after one run that is not counted unless it is the only one.

    `settle` runs between the runs, untimed: the job of one gsub must not run beside the next.
    """
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        found.append((time.perf_counter() - start) * 1000)
        settle()
    return statistics.median(found[1:] or found)


def report(bench: str, figures: dict[str, float]) -> None:
    """The last line of a bench."""
    print(json.dumps({"bench": bench, "figures": {name: round(value, 3) for name, value in figures.items()}}))
