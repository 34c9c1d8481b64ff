"""The lock files: what root installs is what somebody has looked at, file by file, wherever it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
LOCK, LOCK_OF_ALL = ROOT / "requirements.lock", ROOT / "requirements-all.lock"
LOCKS = (LOCK, LOCK_OF_ALL)
EXTRAS = ("executor", "mcp", "progress", "sim", "top", "web")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)(?: ; (.+))?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def logical_lines(lock: Path) -> list[str]:
    """As pip reads them: without comments, continued lines in one."""
    text = re.sub(r"^\s*#.*\n?", "", lock.read_text(), flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pins(lock: Path) -> dict[str, Version]:
    found = {}
    for line in logical_lines(lock):
        words, *hashes = line.split(" --hash=")
        match = _PIN.fullmatch(words)
        assert match, f"not NAME==VERSION: {line[:60]}"
        assert match[3] is None, f"not on every machine: {line[:60]}"
        found[canonicalize_name(match[1])] = Version(match[2])
        assert hashes, f"{match[1]} has no hash"
        assert all(_HASH.fullmatch(f"--hash={each}") for each in hashes), f"a hash of {match[1]} is none"
    return found


def wanted(lock: Path) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for name in EXTRAS for text in project["optional-dependencies"][name]] if lock == LOCK_OF_ALL else []
    return [Requirement(text) for text in (*project["dependencies"], *extras)]


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_that_gsched_needs_is_pinned_with_hashes(lock: Path) -> None:
    found = pins(lock)
    for requirement in wanted(lock):
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {lock.name}: `make lock` makes it anew"
        assert version in requirement.specifier, f"{requirement} and {version} of {lock.name}: `make lock`"


def test_with_extras_there_are_no_other_versions() -> None:
    assert pins(LOCK).items() <= pins(LOCK_OF_ALL).items()


@pytest.mark.parametrize("lock", LOCKS)
def test_it_names_no_place_where_packages_come_from(lock: Path) -> None:
    """Which index that is, is the site's to say; the hashes hold wherever a file comes from."""
    text = lock.read_text()
    assert "://" not in text
    options = set(re.findall(r"(?:^|\s)(--?[a-z][a-z-]*)", "\n".join(logical_lines(lock))))
    assert options == {"--hash"}


@pytest.mark.parametrize("lock", LOCKS)
def test_nothing_but_what_is_needed_is_in_it(lock: Path) -> None:
    """No tool for tests, and nothing of the installers themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for_tests = {canonicalize_name(Requirement(each).name) for each in project["optional-dependencies"]["dev"]}
    assert not {*for_tests, "pip", "setuptools", "gsched"} & set(pins(lock))
