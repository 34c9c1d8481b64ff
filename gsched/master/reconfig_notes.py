"""What a reconfig does not change at once: it is refused, or a note says when it takes effect; and which notes are new.

The files are read in rpc.scheduler_service.Reconfigure; the configuration is replaced in
core.engine.Engine._reconfigure. It must never pass over in silence a setting that has changed and is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.errors import Problem
from gsched.model.config import ClusterConfig, MetricsEndpoint


class KnownNotes:
    """What is to be noted about the files that are in force: a reconfig tells it once. gadmin ckconfig tells it each
    time.
    """

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._known = _of(problems)

    def news(self, problems: Iterable[Problem]) -> tuple[str, ...]:
        """Notes that are not known yet, as lines; where in its file one stands may have changed."""
        return tuple(
            str(each) for each in problems if each.severity != "error" and (each.path, each.text) not in self._known
        )

    def replace(self, problems: Iterable[Problem]) -> None:
        """These files are in force now."""
        self._known = _of(problems)


def _of(problems: Iterable[Problem]) -> frozenset[tuple[str, str]]:
    return frozenset((each.path, each.text) for each in problems if each.severity != "error")


def fixed(old: ClusterConfig, new: ClusterConfig) -> tuple[str, ...]:
    """What a reconfig cannot change while the daemons run."""
    was, wanted = old.locations, new.locations
    found = [
        f"{name.upper()} cannot change from {getattr(was, name)} to {getattr(wanted, name)} while the daemons run"
        for name in ("state_dir", "run_dir", "spool_dir")
        if getattr(was, name) != getattr(wanted, name)
    ]
    if was.store != wanted.store:
        found.append("GSCHED_STORE cannot change while the daemons run: see gadmin store-copy")
    if old.cluster != new.cluster:
        found.append(f"the cluster's name cannot change from {old.cluster} to {new.cluster} while the daemons run")
    if (old.is_shared or new.is_shared) and (old.network, old.master_hosts) != (new.network, new.master_hosts):
        found.append("the master's host, its ports and GSCHED_TLSDIR cannot change while the daemons run")
    return tuple(found)


def told_at_start(old: ClusterConfig, new: ClusterConfig) -> Iterator[str]:
    """Notes on what has changed in lsf.conf and agents, or the master, read at their start alone."""
    settings = {
        "GSCHED_GPU_FENCE": (old.gpu_fence, new.gpu_fence),
        "GSCHED_MPS_CONTROL": (old.mps_control, new.mps_control),
        "GSCHED_CUDA_CHECKPOINT": (old.cuda_checkpoint, new.cuda_checkpoint),
        "GSCHED_PAM_LIMITS": (old.pam_limits, new.pam_limits),
        "GSCHED_SSH": (old.ssh_access, new.ssh_access),
        "GSCHED_KEPT_OUTPUT_MIB": (old.kept_output.run_mib, new.kept_output.run_mib),
        "GSCHED_KEPT_OUTPUT_USER_MIB": (old.kept_output.user_mib, new.kept_output.user_mib),
        "GSCHED_KEPT_OUTPUT_HOST_MIB": (old.kept_output.host_mib, new.kept_output.host_mib),
        "GSCHED_DCGM_JOB_MAPPING_DIR": (old.dcgm_mapping_dir, new.dcgm_mapping_dir),
        "LSB_JOB_TMPDIR": (old.job_tmpdir.folder, new.job_tmpdir.folder),
        "LSB_SET_TMPDIR": (old.job_tmpdir.variable, new.job_tmpdir.variable),
        "INTERFACE in lsb.hosts": (_interfaces(old), _interfaces(new)),
        "LSB_PRE_POST_EXEC_USER": (old.pre_post_exec_user, new.pre_post_exec_user),
    }
    for name, (before, after) in settings.items():
        if before != after:
            yield f"{name} has changed: it takes effect when the agents are started again (gadmin hrestart all)"
    if _served(old.metrics) != _served(new.metrics):
        yield "GSCHED_METRICS has changed: it takes effect when the master is started again (gadmin mbdrestart)"
    if old.web != new.web:
        yield "GSCHED_WEB_* has changed: it takes effect when gsched-web.service is started again"


def _interfaces(config: ClusterConfig) -> dict[str, tuple[str, ...]]:
    """Those that hosts have, without hosts that have none."""
    return {name: host.interface for name, host in config.hosts.items() if host.interface}


def _served(endpoint: MetricsEndpoint) -> tuple[object, ...]:
    """What counts of it; the lines that it stands in may have moved."""
    return (endpoint.socket, endpoint.host, endpoint.port, endpoint.token_file)
