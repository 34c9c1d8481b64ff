"""What daemons log: priorities for the journal, times for everybody else."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import pytest

from gsched.app.clusters.journal import JOURNAL_FORMAT, JournalFormatter

PROGRAM = """
import logging, os, sys
from gsched.app.clusters.journal import setup_logging
status = os.fstat(2)
if sys.argv[1] == "journal":
    os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
else:
    os.environ["JOURNAL_STREAM"] = "1:1"
setup_logging(os.environ)
assert "JOURNAL_STREAM" not in os.environ
logging.getLogger("gsched.x").warning("attention")
"""


@pytest.mark.parametrize(
    ("level", "number"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_priorities(level: int, number: int) -> None:
    record = logging.LogRecord("gsched.x", level, "", 1, "text", None, None)
    assert JournalFormatter(JOURNAL_FORMAT).format(record) == f"<{number}>gsched.x: text"


def test_every_line_of_a_traceback_has_its_priority() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord("gsched.x", logging.ERROR, "", 1, "failed", None, sys.exc_info())
    lines = JournalFormatter(JOURNAL_FORMAT).format(record).splitlines()
    assert len(lines) > 3 and all(line.startswith("<3>") for line in lines)


@pytest.mark.parametrize(
    ("stream", "line"), [("journal", r"<4>gsched\.x: attention"), ("file", r"\d{4}-.* WARNING gsched\.x: attention")]
)
def test_the_journal_is_known_by_its_stream(stream: str, line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stream], capture_output=True, text=True, env=dict(os.environ), timeout=20
    )
    assert re.fullmatch(line, done.stderr.strip()), done.stderr


LEVELS = """
import logging, sys
from gsched.app.clusters.journal import log_from, setup_logging
setup_logging({"GSCHED_DEBUG": sys.argv[2]})
log_from(sys.argv[1], {"GSCHED_DEBUG": sys.argv[2]})
for name in ("debug", "info", "warning", "error", "critical"):
    getattr(logging.getLogger("gsched.x"), name)(name)
"""


@pytest.mark.parametrize(
    ("level", "debug", "words"),
    [
        ("LOG_DEBUG3", "", "debug info warning error critical"),
        ("LOG_INFO", "", "info warning error critical"),
        ("LOG_NOTICE", "", "info warning error critical"),
        ("LOG_WARNING", "", "warning error critical"),
        ("LOG_ERR", "", "error critical"),
        ("LOG_EMERG", "", "critical"),
        ("LOG_EMERG", "1", "debug info warning error critical"),
    ],
)
def test_how_much_is_logged(level: str, debug: str, words: str) -> None:
    done = subprocess.run([sys.executable, "-c", LEVELS, level, debug], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in done.stderr.splitlines()] == words.split()
