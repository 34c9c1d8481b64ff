"""The walk-through: it says only what is so, and leaves nothing behind however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.fakenvml.build import NoCompiler, build  # noqa: E402 - the line above makes it importable

pytestmark = pytest.mark.system

EXAMPLES = ROOT / "examples"
LONGEST_S = 300
MOST_LINES = 170  # the folds of long names vary
TOLD_OF_WAITS = "  ... "  # how many there are depends on the machine's speed


def start(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """The walk-through, with `folder` as the place for temporary files."""
    return subprocess.Popen(
        [sys.executable, *(words or (str(EXAMPLES / "walkthrough.py"), "--simulated"))],
        env={**os.environ, "TMPDIR": str(folder), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that work in the folder or name it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf8", "replace")
            if str(folder) in words or os.readlink(entry / "cwd").startswith(str(folder)):
                found.append(words)
        except OSError:  # it has ended, or is not ours
            continue
    return found


def check_nothing_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    deadline = time.monotonic() + LONGEST_S
    while left := processes_of(folder):  # none is a child of ours: nothing tells of its end
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.smoke
def test_story_is_told_and_true(folder: Path) -> None:
    demo = start(folder)
    output = demo.communicate(timeout=LONGEST_S)[0]
    assert demo.returncode == 0, output
    lines = output.splitlines()
    assert sum(not line.startswith(TOLD_OF_WAITS) for line in lines) <= MOST_LINES
    assert "\x1b" not in output and "\r" not in output  # a pipe is no terminal
    assert sum(line.startswith("== ") for line in lines) == 8
    assert "(46 vs. 0)  all CUDA-capable devices are busy or unavailable" in output
    assert "Exited with exit code 134." in output
    assert "4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4" in output
    totals = re.findall(r"^ +Total +0\.0 +0\.0 +0\.0 +(\d\.0)$", output, re.MULTILINE)
    assert totals == ["4.0", "3.0", "2.0"]
    pairs = re.findall(r":gpus=(\d,\d);", output)
    assert len(pairs) == 3
    assert {pairs[0], pairs[1]} == {"0,1", "2,3"}
    assert "reserving resource (ngpus_excl_p) not satisfied: 1 host (2 wanted, 0 of 4 free" in output
    assert lines[-2].startswith("== All of it was so") and "docs/getting-started.md" in lines[-1]
    check_nothing_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_interrupted_story_cleans_up(folder: Path, number: signal.Signals) -> None:
    demo = start(folder)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "Job <1> is submitted" in line:
            break
    demo.send_signal(number)
    rest = demo.communicate(timeout=LONGEST_S)[0]
    assert demo.returncode == 128 + number, rest
    assert f"stopped by {number.name}" in rest
    assert "Traceback" not in rest
    check_nothing_left(folder)


def test_interrupt_while_the_cluster_starts(folder: Path) -> None:
    demo = start(folder)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("$ gsched up"):
            break
    demo.send_signal(signal.SIGINT)
    rest = demo.communicate(timeout=LONGEST_S)[0]
    assert demo.returncode == 128 + signal.SIGINT, rest
    check_nothing_left(folder)


@pytest.mark.nightly
def test_untrue_sentence_fails_the_demo(folder: Path) -> None:
    lie = f"""if True:
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import walkthrough
        walkthrough.counts = lambda text: {{"ngpus": ("3.0", "0.0"), "ngpus_excl_p": ("4.0", "0.0")}}
        sys.exit(walkthrough.main(["--simulated"]))
    """
    demo = start(folder, "-c", lie)
    output = demo.communicate(timeout=LONGEST_S)[0]
    assert demo.returncode == 1, output
    assert "NOT SO: ngpus is 4.0" in output
    assert "Traceback" not in output
    check_nothing_left(folder)


@pytest.mark.nightly
def test_closed_pipe_ends_the_demo(folder: Path) -> None:
    demo = start(folder)
    assert demo.stdout is not None
    demo.stdout.readline()
    demo.stdout.close()
    assert demo.wait(timeout=LONGEST_S) == 128 + signal.SIGPIPE
    check_nothing_left(folder)


@pytest.mark.nightly
@pytest.mark.needs_gcc
@pytest.mark.parametrize(
    ("count", "mode", "said"),
    [
        (2, 3, "This machine's 2 EXCLUSIVE_PROCESS GPUs are used; no setting is changed."),
        (1, 0, "This machine's 1 shared (Default) GPU is used; no setting is changed."),
    ],
)
def test_gpus_that_nvml_finds_are_used(folder: Path, tmp_path: Path, count: int, mode: int, said: str) -> None:
    try:
        library = build(tmp_path / "lib")
    except NoCompiler as reason:
        pytest.skip(str(reason))
    state = tmp_path / "gpus"
    # Of this run alone: GPUs that another cluster on the machine uses are left to it.
    uuids = [f"GPU-{os.getpid():08x}-7777-4000-8000-{index:012d}" for index in range(count)]
    gpus = [f"gpu.{index}.mode={mode}\ngpu.{index}.uuid={uuid}\n" for index, uuid in enumerate(uuids)]
    before = f"count={count}\n" + "".join(gpus)
    state.write_text(before)
    script = str(EXAMPLES / "walkthrough.py")
    demo = start(folder, script, LD_LIBRARY_PATH=str(library.parent), GSCHED_FAKE_NVML=str(state))
    output = demo.communicate(timeout=LONGEST_S)[0]
    assert demo.returncode == 0, output
    assert said in output
    assert "SIMULATED" not in output
    assert state.read_text() == before  # no compute mode was set
    check_nothing_left(folder)
