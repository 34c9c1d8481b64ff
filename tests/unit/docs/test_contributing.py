"""The changes that CONTRIBUTING.md walks through: on a copy of the sources their tests fail first, and then pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
COPIED = (
    *(
        "gsched",
        "pyproject.toml",
        "tests/conftest.py",
        "tests/support",
        "tests/fakenvml",
        "tests/unit/conftest.py",
        "tests/unit/config/config_texts.py",
    ),
    *("tests/unit/cli", "tests/unit/core", "tests/unit/render"),
)
TESTS = ("tests/unit/cli/test_cli_views.py", "tests/unit/core/test_core_overuse.py")

SHOWN = """
import sys
sys.path.insert(0, "tests/unit/config")
from config_texts import BASE, check
from gsched.app.manual import entries, roff, shells
from gsched.config.files.queue_parameters import shown_parameters

found = entries.entries()
for text in (roff.pages(found)["gqueues.1"].replace("\\\\-", "-"), shells.completion("bash", found)):
    assert "--gpu" in text
read = {each: check({"lsb.queues": BASE["lsb.queues"].replace("End", f"GMEM_KILL = {each}\\nEnd")}) for each in "Y3"}
assert read["3"].errors == ["lsb.queues:4: GMEM_KILL: '3' is neither Y nor N"], read["3"].errors
assert read["Y"].errors + read["Y"].notes == []
assert dict(shown_parameters(read["Y"].config.queues["normal"])) == {"GMEM_KILL": "yes"}
"""


def changes() -> list[tuple[str, str, str]]:
    """(file, what stands there, what takes its place) of each piece of each ```diff of the document."""
    found = []
    for block in re.findall(r"^```diff\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        for name, body in re.findall(r"^--- (\S+)\n\+\+\+ \1\n(.*?)(?=^--- |\Z)", block, re.MULTILINE | re.DOTALL):
            for piece in body.split("@@\n")[1:]:
                lines = piece.splitlines(keepends=True)
                before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
                after = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
                found.append((name, before, after))
    return found


def apply(folder: Path, *, to_tests: bool) -> set[str]:
    """Make those changes in the folder; returns the files."""
    names = set()
    for name, before, after in changes():
        if name.startswith("tests/") == to_tests:
            text = (folder / name).read_text()
            assert text.count(before) == 1, f"{name} has no longer, or more than once: {before}"
            (folder / name).write_text(text.replace(before, after))
            names.add(name)
    return names


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for path in (ROOT / name for name in COPIED):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = [sys.executable, *words]
    return subprocess.run(done, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_the_changes_that_are_walked_through_work(copy: Path) -> None:
    assert apply(copy, to_tests=True) == set(TESTS)
    before = run(copy, "-m", "pytest", *TESTS)
    assert before.returncode == 1 and " 2 failed," in f" {before.stdout.splitlines()[-1]}", before.stdout
    changed = apply(copy, to_tests=False)
    assert len(changed) == 4  # one for the option, three for the other
    assert "gsched/cli/commands/cluster/gqueues.py" in changed
    after = run(copy, "-m", "pytest", *TESTS)
    assert after.returncode == 0, after.stdout
    shown = run(copy, "-c", SHOWN)
    assert shown.returncode == 0, shown.stderr


def test_what_the_guide_names_is_there() -> None:
    names = re.findall(r"`((?:gsched|tests|proto|docs)/[\w/.-]*)`", TEXT)
    assert len(names) > 8 and [name for name in names if not (ROOT / name).exists()] == []
    targets = (ROOT / "Makefile").read_text()
    assert [name for name in re.findall(r"\bmake ([a-z-]+)(?=`|  )", TEXT) if f"\n{name}:" not in targets] == []
