"""FireWorks on the commands of a batch system (slurm, pbs) that come first on PATH. Prints OK fireworks.

Driven are its own programs, `lpad` and `qlaunch`, with its own templates for PBS and SLURM; in each job `rlaunch` runs
what the launchpad has. The launchpad is the file of mongomock-persistence instead of a MongoDB. That is read when a
program starts and written when it ends, so each of them has to end before the next begins: a job waits for `go`.
"""

from __future__ import annotations

import datetime
import json
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 300
FOLDER = Path.cwd()
SYSTEM = sys.argv[1]
QUEUE = os.environ.get("BATCH_QUEUE", "normal")
BIN = Path(sys.executable).parent
STORE = FOLDER / "launchpad.json"
USER = pwd.getpwuid(os.getuid()).pw_name
ENVIRONMENT = os.environ | {"MONGOMOCK_SERVERSTORE_FILE": str(STORE), "PYTHONWARNINGS": "ignore", "LOGNAME": USER}
PRE_ROCKET = f"""\
export MONGOMOCK_SERVERSTORE_FILE='{STORE}'
echo "gpus ${{GSCHED_GPU_UUIDS-none}}"
until [ -e '{FOLDER}/go' ]; do sleep 0.1; done"""
ADAPTERS = {
    "slurm": {"_fw_q_type": "SLURM", "nodes": 1, "ntasks": 1, "gres": "gpu:1", "walltime": "0:05:00"},
    "pbs": {"_fw_q_type": "PBS", "nnodes": 1, "ppnode": "1:gpus=1", "walltime": "00:05:00"},
}
OUTPUT = {"slurm": "first-*.out", "pbs": "FW_job.out"}


def run(*words: str) -> str:
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]], env=ENVIRONMENT, cwd=FOLDER, capture_output=True, text=True, check=False
    )
    print("$", " ".join(words), done.stdout[-1000:], done.stderr[-2000:])
    assert done.returncode == 0, words
    return done.stdout


def write(name: str, content: object) -> str:
    """As YAML, of which JSON is a part."""
    path = FOLDER / name
    path.write_text(json.dumps(content))
    return str(path)


def of_queue(code: str) -> str:
    """What FireWorks' adapter for the queue says, in a process of its own."""
    head = "from fireworks.utilities.fw_serializers import load_object_from_file; "
    done = subprocess.run(
        [sys.executable, "-c", f"{head}q = load_object_from_file('qadapter.yaml'); print('told', {code})"],
        env=ENVIRONMENT,
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )
    return next(line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith("told "))


def state(number: int) -> str:
    told = run("lpad", "-l", "launchpad.yaml", "get_fws", "-i", str(number), "-d", "less")
    return json.loads(told[told.index("\n{") :])["state"]  # warnings stand before it


def launch(number: int) -> None:
    """Put one job into the queue, let it begin, and wait until the queue has none of ours."""
    (FOLDER / "go").unlink(missing_ok=True)
    run("qlaunch", "-l", "launchpad.yaml", "-q", "qadapter.yaml", "-w", "fworker.yaml", "singleshot")
    assert of_queue("q.get_njobs_in_queue()") == "1"
    (FOLDER / "go").touch()
    deadline = time.monotonic() + PATIENCE_S
    while of_queue("q.get_njobs_in_queue()") != "0":
        assert time.monotonic() < deadline, f"job {number} does not end"
        time.sleep(0.5)


def main() -> None:
    STORE.write_text("{}")
    write("launchpad.yaml", {"host": "localhost", "port": 27017, "name": "fireworks"})
    write("fworker.yaml", {"name": "here", "category": "", "query": "{}"})
    rlaunch = f"'{BIN}/rlaunch' -l '{FOLDER}/launchpad.yaml' -w '{FOLDER}/fworker.yaml' singleshot"
    fields = {"queue": QUEUE, "job_name": "first", "pre_rocket": PRE_ROCKET, "rocket_launch": rlaunch}
    write("qadapter.yaml", {"_fw_name": "CommonAdapter", "_fw_timeout": 60, **ADAPTERS[SYSTEM], **fields})
    run("lpad", "-l", "launchpad.yaml", "reset", "--password", f"{datetime.date.today():%Y-%m-%d}")
    for number, script in ((1, f"echo done by $$ > '{FOLDER}/result'"), (2, "exit 3")):
        task = {"_fw_name": "ScriptTask", "script": script, "fizzle_bad_rc": True}
        write(f"fw{number}.yaml", {"fw_id": -1, "spec": {"_tasks": [task]}, "name": f"fw{number}"})
        run("lpad", "-l", "launchpad.yaml", "add", f"fw{number}.yaml")
    launch(1)
    assert (FOLDER / "result").read_text().startswith("done by ")
    assert {state(1), state(2)} == {"COMPLETED", "READY"}, "another one was run first"
    launch(2)
    assert (state(1), state(2)) == ("COMPLETED", "FIZZLED")
    (output, *_) = sorted(FOLDER.rglob(OUTPUT[SYSTEM]))
    gpus = next(line for line in output.read_text().splitlines() if line.startswith("gpus "))
    print("devices", gpus)
    assert gpus.count("GPU-") == 1, gpus
    print("OK fireworks")


main()
