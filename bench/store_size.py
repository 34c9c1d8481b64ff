"""How many bytes of the store a job takes, by what it brings: elements of an array, jobs that share their script and
environment, jobs with a script and an environment of their own. Goals: under 0.5 kB for elements, under 2 kB for all.

The jobs run in a private cluster; then the pages of each table and index of its file are counted. What does not grow
with jobs (checkpoints of the state, records of hosts) is left out. The environment is that of a usual session on a
login node, 2 kB, of which a few variables differ from job to job; an own script is a page with other parameters.

    python bench/store_size.py [--jobs 1000]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from private_cluster import client_of, private_cluster, report

from gsched.model.config import STORE_FILE
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Submission
from gsched.wire.calls.client import Client

AT_ONCE = 500
SETTLED_S = 5.0
"""Without a change for so long nothing is being packed any more."""
TABLES = ("event", "job", "blob")
"""What grows with jobs; indexes count with their tables."""


def main() -> int:
    """Print the table and the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    kinds: dict[str, Callable[[Client, int], None]] = {"array": array, "shared": shared, "own_env": own_env, "own": own}
    figures: dict[str, float] = {}
    with private_cluster("--sim-gpus", "4:exclusive_process") as environment, client_of(environment) as client:
        file = Path(environment["GSCHED_ENVDIR"]).parent / "state" / STORE_FILE
        array(client, 1)
        for name, submit in kinds.items():
            before = settled(file)
            submit(client, options.jobs)
            grown = {table: (size - before[table]) / options.jobs for table, size in settled(file).items()}
            total = sum(grown.values())
            parts = ", ".join(f"{table} {size:.0f}" for table, size in grown.items())
            print(f"{name:8} {total:7.0f} bytes a job: {parts}")
            figures |= {f"{name}_bytes": total} | {f"{name}_{table}_bytes": size for table, size in grown.items()}
    report("store_size", figures)
    return 0


def settled(file: Path) -> dict[str, int]:
    """`sizes`, when the master has packed what came in large submissions."""
    found = sizes(file)
    while True:
        time.sleep(SETTLED_S)
        before, found = found, sizes(file)
        if found == before:
            return found


def sizes(file: Path) -> dict[str, int]:
    """Bytes of the pages of each table and of its indexes; of blobs those alone that are no part of a checkpoint."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        pages: Mapping[str, int] = dict(
            connection.execute(
                "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) GROUP BY tbl_name"
            )
        )
        (parts,) = connection.execute("SELECT total(length(data)) FROM blob WHERE id GLOB 'P*'").fetchone()
    return {table: pages[table] - (int(parts) if table == "blob" else 0) for table in TABLES}


def array(client: Client, jobs: int) -> None:
    """Elements of one array."""
    given = Submission(spec=spec(indices=f"1-{jobs}"), environment=environment(0), script=script(0))
    run(client, [given])


def shared(client: Client, jobs: int) -> None:
    """Jobs that have the same script and environment."""
    run(client, [Submission(spec=spec(), environment=environment(0), script=script(0))] * jobs)


def own_env(client: Client, jobs: int) -> None:
    """The same script, and an environment for each."""
    run(client, [Submission(spec=spec(), environment=environment(1 + n), script=script(0)) for n in range(jobs)])


def own(client: Client, jobs: int) -> None:
    """A script and an environment for each."""
    numbers = range(1_000_000, 1_000_000 + jobs)
    run(client, [Submission(spec=spec(), environment=environment(n), script=script(n)) for n in numbers])


def run(client: Client, submissions: Sequence[Submission]) -> None:
    """Until all have ended."""
    ids = []
    for start in range(0, len(submissions), AT_ONCE):
        ids += [job.job_id for job in client.submit_many(submissions[start : start + AT_ONCE])]
    client.wait(ids, timeout_s=3600)


def spec(indices: str = "") -> JobSpec:
    """What gsub sends of a job with a script: its first lines are its command's text."""
    return JobSpec(
        command="train.sh", user="", queue="", name="train", cwd="/tmp", home="/home/ann",
        submit_host="login1", output_file="/dev/null", res_req="rusage[mem=10]", indices=indices,
    )  # fmt: skip


def environment(number: int) -> bytes:
    """Of a session on a login node: what number it has shows where terminals, connections and agents are named."""
    chosen = random.Random(number)
    colors = ":".join(f"*.{chr(97 + n % 26)}{chr(97 + n // 26)}{n % 7}=01;3{n % 8}" for n in range(100))
    values = {
        "SHELL": "/bin/bash", "USER": "ann", "LOGNAME": "ann", "HOME": "/home/ann", "LANG": "en_US.UTF-8",
        "PATH": "/home/ann/envs/torch/bin:/opt/conda/condabin:/opt/cuda-12.4/bin:/usr/local/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/opt/cuda-12.4/lib64:/opt/nccl/lib:/opt/openmpi-4.1.6/lib", "CUDA_HOME": "/opt/cuda-12.4",
        "MODULEPATH": "/opt/modules/core:/opt/modules/mpi:/opt/modules/gcc", "LOADEDMODULES": "gcc/13:cuda/12.4:nccl",
        "CONDA_PREFIX": "/home/ann/envs/torch", "CONDA_DEFAULT_ENV": "torch", "CONDA_SHLVL": "2", "TERM": "xterm",
        "LS_COLORS": colors, "LESSOPEN": "| /usr/bin/lesspipe %s", "PWD": "/home/ann/experiments/resnet", "SHLVL": "2",
        "XDG_RUNTIME_DIR": "/run/user/1001", "XDG_SESSION_ID": str(number), "OMP_NUM_THREADS": "8",
        "SSH_CONNECTION": f"10.0.3.{chosen.randrange(250)} {chosen.randrange(1 << 16)} 10.0.0.5 22",
        "SSH_TTY": f"/dev/pts/{chosen.randrange(200)}", "SSH_AUTH_SOCK": f"/tmp/ssh-{chosen.randbytes(5).hex()}/agent",
        "WANDB_RUN_ID": chosen.randbytes(4).hex(), "TMPDIR": f"/tmp/ann-{chosen.randrange(10**6)}",
        "BASH_FUNC_module%%": "() {  eval `/usr/bin/modulecmd bash $*`\n}", "_": "/usr/local/bin/gsub",
    }  # fmt: skip
    return b"".join(f"{name}={value}\0".encode() for name, value in values.items())


def script(number: int) -> bytes:
    """A page as people write it; parameters and the run's name are its own."""
    chosen = random.Random(-number - 1)
    run_name = chosen.randbytes(6).hex()
    lines = [
        "#!/bin/bash", f"#BSUB -J resnet-{run_name}", "#BSUB -q normal", f"#BSUB -o logs/{run_name}.%J.out", "",
        "exit 0  # the bench wants no training", "set -euo pipefail",
        "source /opt/conda/etc/profile.d/conda.sh", "conda activate torch",
        "module load gcc/13 cuda/12.4 nccl", "cd \"$HOME/experiments/resnet\"", f"mkdir -p runs/{run_name} logs", "",
        "# data is copied to the local disk first: reading it from home is slow",
        "rsync -a --info=stats1 /data/imagenet/ \"$TMPDIR/imagenet/\"", "export NCCL_DEBUG=WARN",
        "export PYTHONUNBUFFERED=1", "nvidia-smi --query-gpu=name,memory.total --format=csv", "",
        "python train.py \\", "  --data \"$TMPDIR/imagenet\" \\", f"  --out runs/{run_name} \\",
        *(f"  --{name} {chosen.uniform(0, high):.6g} \\" for name, high in (
            ("lr", 0.1), ("weight-decay", 0.001), ("momentum", 1), ("dropout", 0.5), ("label-smoothing", 0.2))),
        f"  --epochs {chosen.randrange(50, 300)} --batch {2 ** chosen.randrange(5, 10)} \\",
        f"  --seed {chosen.randrange(10**6)}",
        "cp -r \"runs/$(ls -t runs | head -1)\" /results/ann/",
    ]  # fmt: skip
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    raise SystemExit(main())
