"""requirements.lock: what root installs is what somebody has looked at, file by file, wherever it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements.lock"
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)(?: ; (.+))?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def logical_lines() -> list[str]:
    """As pip reads them: without comments, continued lines in one."""
    text = re.sub(r"^\s*#.*\n?", "", LOCK.read_text(), flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pins() -> dict[str, Version]:
    found = {}
    for line in logical_lines():
        words, *hashes = line.split(" --hash=")
        match = _PIN.fullmatch(words)
        assert match, f"not NAME==VERSION: {line[:60]}"
        assert match[3] is None, f"not on every machine: {line[:60]}"
        found[canonicalize_name(match[1])] = Version(match[2])
        assert hashes, f"{match[1]} has no hash"
        assert all(_HASH.fullmatch(f"--hash={each}") for each in hashes), f"a hash of {match[1]} is none"
    return found


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(text) for text in project["dependencies"]]


def test_everything_that_gsched_needs_is_pinned_with_hashes() -> None:
    found = pins()
    for requirement in wanted():
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: `make lock` makes it anew"
        assert version in requirement.specifier, f"{requirement} and {version} of requirements.lock: `make lock`"


def test_it_names_no_place_where_packages_come_from() -> None:
    """Which index that is, is the site's to say; the hashes hold wherever a file comes from."""
    text = LOCK.read_text()
    assert "://" not in text
    options = set(re.findall(r"(?:^|\s)(--?[a-z][a-z-]*)", "\n".join(logical_lines())))
    assert options == {"--hash"}


def test_nothing_but_what_is_needed_is_in_it() -> None:
    """No tool for tests, and nothing of the installers themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for_tests = {canonicalize_name(Requirement(each).name) for each in project["optional-dependencies"]["dev"]}
    assert not {*for_tests, "pip", "setuptools", "gsched"} & set(pins())
