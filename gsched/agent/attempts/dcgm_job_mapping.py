"""Which jobs are on which GPU, as files for NVIDIA's DCGM exporter, which labels its metrics with them.

Source of the format: dcgm-exporter, DCGM_HPC_JOB_MAPPING_DIR: a file for each GPU, called by its index, a job in each
line. A GPU without a job has no file: an empty one costs the exporter that GPU's metrics. A folder that cannot be
written is logged once; no job waits for it or fails because of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping

from gsched.base.ids import show_job
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)

MODE = 0o644


class JobMapping:
    """The files in `folder`; `running` tells what the attempts of this host hold that have not ended."""

    def __init__(self, folder: str, running: Callable[[], Mapping[AttemptKey, HostAllocation]]) -> None:
        self._folder = folder
        self._running = running
        self._written: dict[str, str] | None = None
        """Name of a file -> what is in it; None: what lies in the folder is not known."""
        self._said = ""

    def write(self) -> None:
        """Bring the files up to date; what has not changed is not written again."""
        wanted = texts_of(self._running())
        if wanted == self._written:
            return
        try:
            self._bring(wanted)
            self._said = ""
        except OSError as error:
            self._written = None
            told = f"{error.filename or self._folder}: {error.strerror}"
            if told != self._said:
                log.error("the DCGM exporter is not told of jobs on GPUs: %s", told)
            self._said = told

    def _bring(self, wanted: Mapping[str, str]) -> None:
        before = self._written
        if before is None:
            os.makedirs(self._folder, mode=0o755, exist_ok=True)
            before = dict.fromkeys((name for name in os.listdir(self._folder) if _is_index(name)), "")
        for name in before.keys() - wanted.keys():
            _remove(f"{self._folder}/{name}")
        for name, text in wanted.items():
            if before.get(name) != text:
                self._replace(name, text)
        self._written = dict(wanted)

    def _replace(self, name: str, text: str) -> None:
        """Whole, so that nobody reads a half; and never through a link."""
        new = f"{self._folder}/.{name}.new"
        _remove(new)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
        with open(descriptor, "w", encoding="ascii") as file:
            os.fchmod(descriptor, MODE)  # whatever the umask: the exporter is somebody else
            file.write(text)
        os.replace(new, f"{self._folder}/{name}")


def texts_of(running: Mapping[AttemptKey, HostAllocation]) -> dict[str, str]:
    """Index of a GPU -> the jobs that hold it, one in each line; parts by MIG are left out."""
    jobs: dict[int, set[int]] = {}
    for (job_id, _), part in running.items():
        for held in part.gpus:
            if not held.parent:
                jobs.setdefault(held.index, set()).add(job_id)
    return {str(index): "".join(f"{show_job(each)}\n" for each in sorted(found)) for index, found in jobs.items()}


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
