"""A job that counts, saves how far it has come when it is asked to, and goes on from there: what its attempts did."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

COUNTING = """\
#!/bin/sh
# Counts to $1; at the signal it writes down how far it has come, and asks for another run.
n=$(cat count 2>/dev/null || echo 0)
echo "begins $n $GSCHED_ATTEMPT" >> counted
trap 'echo "saves $n of $(cat "$GSCHED_DEADLINE")" >> counted; echo $n > count.new; mv count.new count; exit 99' TERM
[ -s "$GSCHED_DEADLINE" ] && echo "asked too early" >> counted
while [ $n -lt $1 ]; do sleep 0.2 & wait $!; n=$((n + 1)); done
echo "ends $n" >> counted
"""
PREEMPTING = "Begin Queue\nQUEUE_NAME = urgent\nPRIORITY = 90\nPREEMPTION = PREEMPTIVE[normal]\nEnd Queue\n"
BY_REQUEUE = "Begin Parameters\nPREEMPT_ACTION = requeue\n{}End Parameters\n"


class Counted(NamedTuple):
    """Where its attempts began, what they saved, where they ended, until when they had time, and their numbers."""

    begins: list[int]
    saves: list[int]
    ends: list[int]
    deadlines: list[float]
    attempts: list[int]


def counting(folder: Path) -> str:
    """The command line of such a job, whose working directory is to be `folder`; it is made."""
    folder.mkdir()
    script = folder / "count.sh"
    script.write_text(COUNTING)
    script.chmod(0o755)
    return "./count.sh"


def counted(folder: Path) -> Counted:
    words = [line.split() for line in (folder / "counted").read_text().splitlines()]
    assert {each[0] for each in words} <= {"begins", "saves", "ends"}, words
    begun = [each for each in words if each[0] == "begins"]
    saved = [each for each in words if each[0] == "saves"]
    return Counted(
        begins=[int(each[1]) for each in begun],
        saves=[int(each[1]) for each in saved],
        ends=[int(each[1]) for each in words if each[0] == "ends"],
        deadlines=[float(each[3]) for each in saved],
        attempts=[int(each[2]) for each in begun],
    )
