"""What signals do to `glaunch`: some it passes on, and none that its tasks get by other ways ends it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

HEARS = """\
import os, signal, sys
from gsched.app import glaunch

class Client:
    heard = []

    def on_signal(self, number, frame):
        self.heard.append(int(number))

client = Client()
glaunch.hear(client)
os.kill(os.getpid(), int(sys.argv[1]))
print(client.heard)
"""


@pytest.mark.parametrize(
    "number, heard", [(signal.SIGUSR1, "[10]"), (signal.SIGALRM, "[]"), (signal.SIGXCPU, "[]"), (signal.SIGRTMIN, "[]")]
)
def test_it_outlives_signals_that_it_does_not_pass_on(number: int, heard: str) -> None:
    done = subprocess.run([sys.executable, "-c", HEARS, str(int(number))], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == heard


def test_what_is_ignored_stays_ignored() -> None:
    words = ["env", "--ignore-signal=HUP", sys.executable, "-c", HEARS, str(int(signal.SIGHUP))]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "[]"
