"""How a master that must not lead any more ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gsched.master.succession import BROKEN_EXIT

PATIENCE_S = 60
BLOCKED = """
import logging, threading
from gsched.master.succession import leave_at_once

class Hanging(logging.Handler):
    def emit(self, record):
        threading.Event().wait()

logging.getLogger().addHandler(Hanging())
leave_at_once("the lease is lost")
"""
CROWDED = """
import threading
from gsched.master.succession import leave_at_once

def full(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = full
leave_at_once("the lease is lost")
"""
WELL = """
from gsched.master.succession import leave_at_once
leave_at_once("the lease is lost")
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [(BLOCKED, ""), (CROWDED, ""), (WELL, "the lease is lost; the next start replays\n")],
    ids=["its log hangs", "no more threads", "all is well"],
)
def test_a_process_that_must_not_go_on_ends_whatever_its_log_does(program: str, said: str) -> None:
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (BROKEN_EXIT, said)
