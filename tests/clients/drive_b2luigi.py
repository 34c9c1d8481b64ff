"""b2luigi on the bsub, bjobs and bkill that come first on PATH: tasks, one that fails, their output. Prints OK b2luigi.

b2luigi runs a copy of this file in each job, for one task. It has no means to ask for GPUs: a queue with GPU_REQ does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import b2luigi

RESULTS = Path("results").absolute()
TASKS = "tasks.py"


class Where(b2luigi.Task):
    """Tells which job it runs in."""

    number = b2luigi.IntParameter()
    batch_system = "lsf"
    queue = os.environ.get("BATCH_QUEUE", "normal")
    job_slots = 2
    job_name = "b2luigi where"

    def output(self):
        yield self.add_to_output("where.json")

    def run(self):
        seen = {name: os.environ.get(name) for name in ("LSB_JOBID", "LSB_JOBNAME", "LSB_DJOB_NUMPROC", "PASSED_ON")}
        print("printed by task", self.number)
        with open(self.get_output_file_name("where.json"), "w") as file:
            json.dump(seen, file)


class Sum(b2luigi.Task):
    """Needs all of these, so it runs when their jobs are over."""

    batch_system = "lsf"

    def requires(self):
        return [Where(number=number) for number in range(3)]

    def output(self):
        yield self.add_to_output("jobs.json")

    def run(self):
        found = [json.loads(Path(name).read_text()) for name in self.get_input_file_names("where.json")]
        Path(self.get_output_file_name("jobs.json")).write_text(json.dumps(found))


class Broken(b2luigi.Task):
    """A job that fails."""

    batch_system = "lsf"

    def output(self):
        yield self.add_to_output("never")

    def run(self):
        raise RuntimeError("as it was meant to")


def check() -> None:
    (path,) = RESULTS.rglob("jobs.json")
    found = json.loads(path.read_text())
    print("in the jobs:", found)
    assert len({each["LSB_JOBID"] for each in found}) == 3
    assert {(each["LSB_JOBNAME"], each["LSB_DJOB_NUMPROC"], each["PASSED_ON"]) for each in found} == {
        ("b2luigi where", "2", "to the jobs")
    }
    assert not list(RESULTS.rglob("never"))
    printed = [log.read_text() for log in Path("logs").rglob("stdout") if "Where" in str(log)]
    assert len(printed) == 3 and all("printed by task" in text for text in printed), printed


if __name__ == "__main__":
    b2luigi.set_setting("result_dir", str(RESULTS))
    b2luigi.set_setting("log_dir", str(Path("logs").absolute()))
    b2luigi.set_setting("batch_status_cache_ttl", 1)  # seconds between two questions
    if Path(__file__).name != TASKS:
        # Jobs are run in the folder of the file with the tasks, and files are put there.
        shutil.copy(__file__, TASKS)
        ended = subprocess.run([sys.executable, TASKS, "--batch"], env={**os.environ, "PASSED_ON": "to the jobs"})
        print("exit code:", ended.returncode)
        check()
        print("OK b2luigi")
    else:
        b2luigi.process([Sum(), Broken()], workers=4)
