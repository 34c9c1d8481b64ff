"""Which configuration folder a command means when nobody says: the one rule, for every program of gsched."""

from __future__ import annotations

import os
from collections.abc import Mapping

SITE_CONF_DIR = "/etc/gsched"


def conf_dir(environment: Mapping[str, str]) -> str:
    """The configuration folder: GSCHED_ENVDIR, else LSF_ENVDIR, else ~/.gsched/conf if it exists, else /etc/gsched."""
    for name in ("GSCHED_ENVDIR", "LSF_ENVDIR"):
        if environment.get(name):
            return environment[name]
    home = environment.get("HOME") or os.path.expanduser("~")
    private = os.path.join(home, ".gsched", "conf")
    return private if os.path.isdir(private) else SITE_CONF_DIR
