"""A cluster's configuration as one frozen value: what the LSF-format files say once they have been checked.

Nothing here reads a file; gsched.config makes it, the engine holds it and swaps it whole at a reconfig.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gsched.model.host import HostConfig
from gsched.model.queue import Queue
from gsched.model.resource import BUILTIN, Resource


class GpuUnrequested(StrEnum):
    """GPU_UNREQUESTED: what a job sees that asks for no GPU."""

    HIDE = "hide"
    ALLOW = "allow"
    AUTO = "auto"
    """One shared or exclusive GPU is asked for on the job's behalf (auto=1)."""


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """lsb.params, with gsched's defaults. Intervals in seconds."""

    default_queue: str = "normal"
    default_project: str = "default"
    job_accept_interval_s: float = 0.0
    clean_period_s: int = 3600
    max_job_id: int = 2147483646
    job_terminate_interval_s: float = 10.0
    gpu_shared_jobs: int = 1
    gpu_unrequested: GpuUnrequested = GpuUnrequested.HIDE
    host_lost_after_s: float = 30.0
    """How long after its agent's last sign of life a host is unavail and its jobs UNKWN."""
    root_may_submit: bool = True


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of the daemons, from lsf.cluster's Parameters and lsf.conf, in seconds."""

    exchange_s: float = 15.0
    """EXINTERVAL: how often an agent reports load."""
    gpu_probe_s: float = 5.0
    """GSCHED_GPU_INTERVAL: how often GPUs are probed."""
    elim_restart_s: float = 90.0
    """Shortest time between two starts of one elim (back-off doubles it up to ten times this)."""
    command_wait_s: float = 60.0
    """GSCHED_COMMAND_WAIT: how long a command waits for a master that does not answer."""
    usage_sample_s: float = 10.0
    """SBD_SLEEP_TIME: how often a running job's memory and CPU time are sampled."""


class Locations(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and programs from lsf.conf. Absolute paths."""

    conf_dir: str
    state_dir: str
    """LSB_SHAREDIR: the event store of the master."""
    log_dir: str
    server_dir: str
    """LSF_SERVERDIR: where elims lie (elim, elim.NAME)."""
    run_dir: str
    """GSCHED_RUNDIR: sockets, mode 0700."""
    spool_dir: str
    """GSCHED_SPOOLDIR: what agents keep of their attempts; a folder per host below it."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `mapped` names the external resources that ResourceMap places, and on which hosts."""

    cluster: str
    master_host: str
    administrators: tuple[str, ...] = ()
    hosts: dict[str, HostConfig] = {}
    queues: dict[str, Queue] = {}
    resources: dict[str, Resource] = {}
    """External resources of lsf.shared by name, in file order."""
    mapped: dict[str, tuple[str, ...]] = {}
    """External resource -> names of the hosts that have an instance of their own ([default])."""
    shared_values: dict[str, dict[str, float]] = {}
    """Static shared resources: name -> {host name: value}; every host of one instance has the same value."""
    params: Params = Params()
    timing: Timing = Timing()
    locations: Locations
    gpu_provider: str = "nvml"
    """GSCHED_GPU_PROVIDER: "nvml", "none" or "sim:FOLDER" (inventory FOLDER/HOST.json)."""
    host_types: tuple[str, ...] = ()
    digest: str = ""
    """Fingerprint of the files, for the record of a reconfig."""

    def resource(self, name: str) -> Resource | None:
        """The resource called `name`, built-in or defined in lsf.shared; None if there is none."""
        return BUILTIN.get(name) or self.resources.get(name)

    def external_on(self, host: str) -> tuple[str, ...]:
        """Names of the mapped external resources that `host` has, in lsf.shared's order."""
        return tuple(name for name in self.resources if host in self.mapped.get(name, ()))
