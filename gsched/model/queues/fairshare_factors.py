"""The weights of dynamic user priority: LSF's defaults, those where hosts have GPUs, and which hold in a queue.

What is stated wins, each factor by itself: the queue's, then the cluster's. It knows nothing of use or of shares.
Source of the formula and of LSF's defaults: lsb.params(5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from gsched.model.queues.queue import Queue


class FairshareFactors(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of LSF's dynamic user priority, with LSF's defaults. Times count in hours there."""

    cpu_time: float = 0.7
    run_time: float = 0.7
    run_job: float = 3.0
    job_count: bool = False
    """FAIRSHARE_JOB_COUNT: RUN_JOB_FACTOR weighs jobs, and not their slots."""
    committed_run_time: float = 0.0
    gpu_run_time: float = 0.0
    hist_hours: float = 5.0
    """HIST_HOURS: past use has fallen to a tenth after so many hours; 0: it does not decay."""
    hist_run_time: bool = False
    """ENABLE_HIST_RUN_TIME: run time of finished jobs counts too."""
    gpu_hist_run_time: bool = False


WHERE_GPUS = FairshareFactors(cpu_time=0.0, run_time=0.0, run_job=0.001, gpu_run_time=1.0, gpu_hist_run_time=True)
"""Defaults where hosts have GPUs: GPU hours decide. A slot in use counts as 3.6 GPU seconds: enough for users to take
turns within one cycle, when nobody's use has grown yet, and too little to distort the shares of a small cluster.
"""


def factors_of(stated: Mapping[str, float], queue: Queue | None, gpu_hosts: Collection[str]) -> FairshareFactors:
    """The factors in force in the queue, or, with None, in one that runs jobs on all hosts and states none.

    `stated`: fields that lsb.params sets; `gpu_hosts`: the hosts that have GPUs.
    """
    if queue is None or queue.hosts is None:
        has_gpus = bool(gpu_hosts)
    else:
        has_gpus = any(host in gpu_hosts for host in queue.hosts)
    default = WHERE_GPUS if has_gpus else FairshareFactors()
    return msgspec.structs.replace(default, **{**stated, **(queue.factors if queue is not None else {})})
