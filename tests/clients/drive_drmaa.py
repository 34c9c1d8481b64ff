"""gsched.contrib.drmaa in place of drmaa: drmaa-python's own test suite, unmodified, and Snakemake. Prints OK drmaa."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from gsched.contrib.drmaa.installation import IMPORT_PATH

BIN = Path(sys.executable).parent
SOURCES = BIN.parent / "sources"
TESTS = 19
SNAKEFILE = """
rule all:
    input: "gpu.txt"
rule gpu:
    output: "gpu.txt"
    shell: "echo $LSB_JOBID gpu $CUDA_VISIBLE_DEVICES > {output}"
rule bad:
    output: "never.txt"
    shell: "exit 3"
"""


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # The tests call python by that name; a rule's job calls snakemake again.
    env = {**os.environ, "PYTHONPATH": IMPORT_PATH, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)


def use_the_test_suite(folder: Path) -> None:
    (archive,) = SOURCES.glob("drmaa-*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    (tests,) = folder.glob("drmaa-*/test")
    done = run(sys.executable, "-m", "nose", "-v", ".", cwd=tests)
    print(done.stderr)
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert done.returncode == 0 and ran is not None and int(ran[1]) == TESTS, done.stdout + done.stderr


def snakemake(folder: Path, target: str) -> subprocess.CompletedProcess[str]:
    words = ["--executor", "drmaa", "--jobs", "2", "--latency-wait", "5", "--seconds-between-status-checks", "1"]
    words += ["--drmaa-log-dir", "logs", "--drmaa-args", " -gpu num=1 -W 10", "--", target]
    return run(BIN / "snakemake", *words, cwd=folder)


def use_snakemake(folder: Path) -> None:
    folder.mkdir()
    (folder / "Snakefile").write_text(SNAKEFILE)
    done = snakemake(folder, "all")
    assert done.returncode == 0, done.stdout + done.stderr
    number, gpu, index = (folder / "gpu.txt").read_text().split()
    assert gpu == "gpu" and index.isdigit() and (folder / "logs" / f"{number}.out").exists()
    failed = snakemake(folder, "never.txt")
    assert failed.returncode != 0 and "external_jobid" in failed.stderr, failed.stderr


if __name__ == "__main__":
    use_the_test_suite(Path.cwd())
    use_snakemake(Path.cwd() / "snakes")
    print("OK drmaa")
