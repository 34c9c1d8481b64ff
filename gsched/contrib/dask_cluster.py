"""Workers of dask as jobs: `GschedCluster(cores=4, memory="8GB", options={"gpus": 1})`, a class of dask-jobqueue."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path
from typing import Any

from dask_jobqueue.core import Job, JobQueueCluster

from gsched.api.asynchronous import AsyncCluster


class GschedJob(Job):
    """One job, with one or several workers. `options` are those of `Cluster.submit`; the others are dask-jobqueue's."""

    config_name = "lsf"
    """Whose section of dask's configuration holds what is left out."""

    def __init__(
        self, scheduler: Any = None, name: Any = None, options: dict[str, Any] | None = None, **of_dask: Any
    ) -> None:
        super().__init__(scheduler=scheduler, name=name, **of_dask)
        self.job_header = ""
        given = dict(options or {})
        memory = f"{ceil(self.worker_memory / 2**20)}MB"
        given["options"] = ["-M", memory, *given.get("options", ())]
        given.setdefault("name", self.job_name)
        given.setdefault("slots", self.worker_cores)
        given.setdefault("requirement", "span[hosts=1]")
        if self.log_directory is not None:
            given.setdefault("output", os.path.join(self.log_directory, f"{name or 'worker'}-%J.out"))
        self._given = given

    async def _submit_job(self, script_filename: str) -> str:
        async with AsyncCluster() as cluster:
            return str((await cluster.submit(script=Path(script_filename), **self._given)).id)

    @classmethod
    async def _close_job(cls, job_id: str, cancel_command: object) -> None:
        if job_id:
            async with AsyncCluster() as cluster:
                await cluster.kill([int(job_id)])


class GschedCluster(JobQueueCluster):
    """A cluster of dask whose workers are jobs of gsched; `options` are those of `Cluster.submit`, for each job."""

    job_cls = GschedJob
    config_name = "lsf"
