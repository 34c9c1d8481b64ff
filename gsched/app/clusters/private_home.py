"""Where a private cluster lives, and which folder a command means.

The configuration is not read here: `gsched down` does without what reads it, which takes as long to import as the rest.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from gsched.base.envdir import in_home, read_setting
from gsched.base.errors import BadRequest
from gsched.wire.address import DEFAULT_DIR, DEFAULT_RUN_DIR, is_shared


@dataclass(frozen=True, slots=True)
class Home:
    """Where a private cluster lives. `folder` is where it is (or would be) made, `conf` its configuration."""

    folder: Path
    conf: Path

    @classmethod
    def find(cls, folder: str | None) -> Home:
        """--dir wins over GSCHED_ENVDIR, which wins over ~/.gsched. Raises BadRequest."""
        if folder == "":  # as of "$DIR" where DIR is not set: the user's own cluster is not meant
            raise BadRequest("--dir: the name of the folder is empty")
        if folder:
            base = Path(os.path.abspath(in_home(folder, os.environ)))
            return cls(base, base / "conf")
        named = os.environ.get("GSCHED_ENVDIR")
        if named:
            conf = Path(os.path.abspath(named))
            return cls(conf.parent, conf)
        base = Path(in_home(DEFAULT_DIR, os.environ))
        return cls(base, base / "conf")

    @property
    def exists(self) -> bool:
        return (self.conf / "lsf.conf").exists()

    def require_private(self) -> None:
        """Raise BadRequest for a shared cluster: its daemons belong to several users and hosts."""
        if self.exists and is_shared(str(self.conf)):
            raise BadRequest(
                f"the cluster of {self.conf} is a shared one (LSB_MBD_PORT): its daemons are services of its hosts, "
                "`gsched up`, `down` and `status` are for private ones"
            )

    def require_there(self) -> None:
        """Raise BadRequest if there is no cluster."""
        if not self.exists:
            raise BadRequest(f"there is no cluster in {self.folder}: make one with `gsched up --dir {self.folder}`")

    def run_dir(self) -> str:
        """Where the locks of the daemons lie, also while the files have errors. Raises BadRequest."""
        self.require_there()
        return read_setting(str(self.conf), "GSCHED_RUNDIR") or DEFAULT_RUN_DIR


def host_name() -> str:
    """This machine's name without its domain."""
    return socket.gethostname().split(".")[0]
