"""A private cluster on the machine's GPUs, and the programs that its jobs and others run on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from findings import PATIENCE_S
from live_cluster import Cluster

from tests.support.reports import has_report, printed_in

PROGRAMS = Path(__file__).with_name("programs")
CUDA = str(PROGRAMS / "cuda_program.py")
TORCH = str(PROGRAMS / "torch_program.py")
SAMPLES_S = 1
MIB = 1 << 20
STARTING_S = 60.0
"""For a program to make its context: PyTorch takes ten seconds where its files are not in memory."""

Told = dict[str, Any]


class GpuCluster(Cluster):
    """Its agent looks at the use of GPUs every second. Texts for configuration files as for `configure`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if "GSCHED_FAKE_NVML" in os.environ:
            self.env["GSCHED_FAKE_NVML"] = os.environ["GSCHED_FAKE_NVML"]
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            self.env.pop(name, None)

    def begin(self, *, params: tuple[str, str] = ("", ""), lsf: str = "", **texts: str) -> None:
        """Start the daemons. `params`: a line of lsb.params and what stands in its place; `lsf`: lines of lsf.conf."""
        self.up()
        path = self.conf / "lsb.params"
        path.write_text(path.read_text().replace(*params) if params[0] else path.read_text())
        self.configure(lsf_conf=f"GSCHED_GPU_USE_INTERVAL={SAMPLES_S}\n{lsf}\n", **texts)
        self.kill(f"agent-{self.host}")  # some settings are read when it starts
        self.up()
        self.until(lambda: self.gpu().get("STATUS"), "ghosts knows no GPU", PATIENCE_S)

    def hold(self, gpu: str, name: str, *options: str, gsub: tuple[str, ...] = ()) -> int:
        """A job that runs the CUDA program, which writes to the files NAME and NAME.end; output in NAME.log."""
        return self.submit("-gpu", gpu, "-o", f"{name}.log", *gsub, *self.program(name, *options))

    def program(self, name: str, *options: str) -> list[str]:
        """Words of the CUDA program."""
        return [sys.executable, CUDA, "--say", self.file(name), "--end", self.file(f"{name}.end"), *options]

    def stranger(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """The CUDA program outside of the cluster's jobs, when it has its context."""
        done = subprocess.Popen(self.program(name, *options), cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL)
        self.until((self.folder / name).exists, "a program outside of jobs does not start", STARTING_S)
        return done

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def touch(self, name: str) -> None:
        """Let whoever waits for that file end."""
        (self.folder / name).touch()

    def said(self, name: str, job_id: int) -> Told:
        """What a program of the job has written to the file, waited for until the job has ended; else `error` alone."""
        path = self.folder / name

        def is_over() -> bool:
            return path.exists() or self.job(job_id).state in ("DONE", "EXIT")

        self.until(is_over, f"job {job_id} says nothing", STARTING_S)
        found: Told = json.loads(path.read_text()) if path.exists() else {"error": "it ended and said nothing"}
        return found

    def output(self, name: str) -> str:
        """What the job has printed to the file NAME.log; the report in it where it has printed nothing."""
        path = self.folder / f"{name}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return (printed_in(text) if has_report(text) else text).strip() or text

    def flat(self, *words: str) -> str:
        """What a command prints, on one line, with words that LSF's layout has broken put together."""
        return " ".join(re.sub(r"\n {21}", "", self.run(*words, check=False).stdout).split())

    def records(self, *words: str) -> list[Told]:
        """RECORDS of a command with -json."""
        found: list[Told] = json.loads(self.run(*words, "-json").stdout)["RECORDS"]
        return found

    def gpu(self) -> Told:
        """The first GPU, by `ghosts -gpu -l -json`."""
        found = self.records("ghosts", "-gpu", "-l")
        return found[0] if found else {}

    def process(self, pid: int) -> Told:
        """The process on the first GPU, by `ghosts`; empty when it is not listed."""
        return next((each for each in self.gpu().get("PROCESSES") or () if each["PID"] == pid), {})

    def use(self, job_id: int) -> Told:
        """What the job's last attempt made of the first GPU, by `ghist`; empty when nothing is known."""
        attempts = self.records("ghist", "-l", "-gpu", str(job_id))[0]["ATTEMPTS"]
        found: Told = attempts[-1]["GPUS"][0] if attempts and attempts[-1]["GPUS"] else {}
        return found

    def ended(self, job_id: int) -> str:
        """DONE or EXIT, when the job has ended."""
        (view,) = self.wait(job_id, timeout_s=STARTING_S)
        return view.state


MakeGpuCluster = Callable[..., GpuCluster]
