"""The configuration for `gsched-pam` when no agent answers: in a module of its own, for no other login waits for it."""

from __future__ import annotations

from gsched.agent import trusted_files
from gsched.config.configuration import load
from gsched.model.config import ClusterConfig


def trusted_configuration(conf_dir: str) -> ClusterConfig:
    """The cluster's. Raises GschedError, also where others than root could have changed it."""
    loaded = load(conf_dir)
    trusted_files.check(conf_dir, loaded.included)
    return loaded.required()
