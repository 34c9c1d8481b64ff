"""Logging of the daemons: to standard error, in the journal's own form where that is the journal.

Source of the form: sd-daemon(3) ("<N>" before a line is its priority) and JOURNAL_STREAM in systemd.exec(5).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
JOURNAL_FORMAT = "%(name)s: %(message)s"
"""The journal has the time and the priority besides."""
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class JournalFormatter(logging.Formatter):
    """Puts the priority before each line: a line is a record of its own to the journal, also in a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        level = next((number for least, number in _PRIORITIES if record.levelno >= least), _DEBUG)
        return "\n".join(f"<{level}>{line}" for line in super().format(record).splitlines())


def setup_logging(environment: MutableMapping[str, str]) -> None:
    """Log to standard error; GSCHED_DEBUG=1 shows more. What a daemon starts does not take its own for the journal."""
    level = logging.DEBUG if environment.get("GSCHED_DEBUG") == "1" else logging.INFO
    handler = logging.StreamHandler(sys.stderr)
    is_journal = _is_stream(environment.pop("JOURNAL_STREAM", ""), sys.stderr.fileno())
    handler.setFormatter(JournalFormatter(JOURNAL_FORMAT) if is_journal else logging.Formatter(LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


_LEVELS = {
    **dict.fromkeys(("LOG_EMERG", "LOG_ALERT", "LOG_CRIT"), logging.CRITICAL),
    "LOG_ERR": logging.ERROR,
    "LOG_WARNING": logging.WARNING,
    **dict.fromkeys(("LOG_NOTICE", "LOG_INFO"), logging.INFO),
}
"""LSF's levels; those that are not here are LOG_DEBUG and finer."""


def log_from(level: str, environment: Mapping[str, str]) -> None:
    """Log what is at least as urgent as LSF's level of that name, or all where GSCHED_DEBUG=1."""
    if environment.get("GSCHED_DEBUG") != "1":
        logging.getLogger().setLevel(_LEVELS.get(level, logging.DEBUG))


def _is_stream(stream: str, descriptor: int) -> bool:
    """Whether `DEVICE:INODE` is what this descriptor writes to."""
    status = os.fstat(descriptor)
    return stream == f"{status.st_dev}:{status.st_ino}"
