"""One daemon in the foreground: its log, its lock, the folders it needs, and what becomes of its end.

It never starts a second daemon of the same name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from gsched.app.clusters import daemons, journal
from gsched.base.envdir import conf_dir
from gsched.base.machine.log_file import reopen_when_told
from gsched.base.machine.service import TOLD_TO_RESTART, ServiceManager
from gsched.config.configuration import load


def serve(name: str, envdir: str | None, daemon: Callable[[str, ServiceManager], int]) -> None:
    """Run the daemon `name` with its configuration folder and whoever started it; the process ends with its code."""
    journal.setup_logging(os.environ)
    reopen_when_told()
    with daemons.telling_failure(os.environ):
        code = _served(name, envdir, daemon)
    sys.exit(code)


def _served(name: str, envdir: str | None, daemon: Callable[[str, ServiceManager], int]) -> int:
    manager = ServiceManager.take(os.environ)
    folder = os.path.abspath(envdir or conf_dir(os.environ))
    config = load(folder).required()
    kind = name.partition("-")[0]
    journal.log_from(config.log_levels.of(kind), os.environ)
    if config.is_shared:  # several users' daemons have their folders below it
        daemons.make_shared_folder(config.locations.run_dir)
        if kind != "master":
            daemons.make_shared_folder(config.folder_of(kind))
    with daemons.holding_lock(config.folder_of(kind), name):
        code = daemon(folder, manager)
    if code == TOLD_TO_RESTART:
        if not manager.is_there:  # nobody else starts it again
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        code = 0
    return code
