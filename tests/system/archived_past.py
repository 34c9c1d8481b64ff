"""A cluster with a past that can be archived, and the questions that are asked of it and of its archive."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from live_cluster import Cluster as Live

from gsched.base.ids import element_id

DAYS = 40
SCRIPT = "#!/bin/sh\n#BSUB -J scripted\necho from the script\n"
QUESTIONS = [
    ("ghist", "-a"),
    ("ghist", "-l", "-gpu", "-a"),
    ("gacct", "-l", "-N", "2.0"),
    ("gacct", "-gpu", "-json", "-l"),
]


NOWHERE = {"GSCHED_ENVDIR": "/nowhere"}
"""There is no cluster: no daemon and no configuration is needed."""


class Past:
    """A cluster whose jobs ended last month, and which has forgotten them."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.archive = live, folder / "archive"
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 86400\nEnd Parameters\n")
        self.failed = live.submit("-gpu", "num=1", "exit 7")
        self.array = live.submit("-J", "sweep[1-3]", "-o", "/dev/null", "exit $((LSB_JOBINDEX == 2))")
        self.scripted = int(live.run("gsub", "-o", "/dev/null", stdin=SCRIPT).stdout.split("<")[1].split(">")[0])
        self.killed = live.submit("-H", "true")
        live.run("gkill", str(self.killed))
        self.elements = [element_id(self.array, index) for index in (1, 2, 3)]
        live.wait(self.failed, *self.elements, self.scripted, self.killed)
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 0\nEnd Parameters\n")
        live.until(self._are_forgotten, "the jobs are still remembered")
        self._make_old()
        self.before = (datetime.now(UTC) - timedelta(DAYS - 31)).strftime("%Y-%m")

    def _are_forgotten(self) -> bool:
        done = self.live.run("gjobs", "-a", "-u", "all", check=False)
        return done.returncode == 255 or not done.stdout

    def _make_old(self) -> None:
        """As if they had run so many days ago: only months that are over are archived."""
        columns = ", ".join(f"{name} = {name} - {DAYS * 86400}" for name in ("submitted_at", "dispatched_at"))
        with closing(sqlite3.connect(self.live.folder / "state" / "gsched.db", timeout=60)) as store, store:
            store.execute(f"UPDATE job SET {columns}, finished_at = finished_at - {DAYS * 86400}")

    def asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that reads files, in a process of its own: the launcher, which goes behind all others then, would
        take minutes where tests use all processors.
        """
        program = "import sys; from gsched.cli.session.call import run_local; sys.exit(run_local(sys.argv[1:]))"
        return self.live.run(sys.executable, "-c", program, *words, check=False, **NOWHERE)

    def answers(self, *more: str) -> list[tuple[int, str, str]]:
        run = self.asked if more else partial(self.live.run, check=False)
        done = [run(*words, *more) for words in QUESTIONS]
        return [(each.returncode, each.stdout, each.stderr) for each in done]
