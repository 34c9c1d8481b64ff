"""The configuration of a private cluster, as it is in its files now. It is only read here."""

from __future__ import annotations

from pathlib import Path

from gsched.app.clusters.private_home import Home, host_name
from gsched.base.errors import BadRequest
from gsched.config.configuration import load
from gsched.model.config import ClusterConfig
from gsched.probe.gpu import inventory_path


def config_of(home: Home) -> ClusterConfig:
    """The configuration. Raises BadRequest if there is no cluster, ConfigError if its files are wrong."""
    home.require_there()
    return load(str(home.conf), host_name()).required()


def inventory_of(config: ClusterConfig, host: str) -> Path:
    """Inventory file of a simulated host. Raises BadRequest if the cluster's GPUs are not simulated."""
    if host not in config.hosts:
        raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    path = inventory_path(config.gpu_provider, host)
    if path is None:
        raise BadRequest(f"the GPUs of this cluster are not simulated (GSCHED_GPU_PROVIDER is {config.gpu_provider})")
    return path
