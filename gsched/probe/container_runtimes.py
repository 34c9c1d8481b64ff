"""Programs of this host that run containers. They are looked for by name, never executed."""

from __future__ import annotations

import os
import shutil

from gsched.model.queues.container import RUNTIMES

_FURTHER = ("/usr/local/bin", "/usr/bin", "/opt/apptainer/bin")
"""Where they lie if they are not on the agent's own path."""


def container_runtimes(path: str | None = None) -> dict[str, str]:
    """Name -> path of each that is installed, in the order in which they are taken. `path`: as of $PATH; None: this
    process's, and the usual places.
    """
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FURTHER)) if path is None else path
    found = ((name, shutil.which(name, path=places)) for name in RUNTIMES)
    return {name: program for name, program in found if program is not None}
