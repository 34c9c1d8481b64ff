"""The file system that booted test hosts share: a Debian made by debootstrap, and gsched installed in it with pip.

The Debian and the packages that gsched needs are kept in a cache folder: GSCHED_TEST_CACHE, else ~/.cache/gsched.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "procps", "python3", "python3-venv"),
    *("openssh-client", "openssh-server", "ca-certificates"),
)
USERS = {"alice": 2001, "bob": 2002, "carol": 2003}
WHEELS = "/wheels"
EXTRAS = "[postgresql,web]"
"""Whose wheels are there as well."""
_SOURCE = re.compile(r"^deb(?:\s+\[[^\]]*\])?\s+(\S+)\s+(\S+)\s+(?:.*\s)?main\b", re.M)


def cache() -> Path:
    folder = os.environ.get("GSCHED_TEST_CACHE") or os.path.expanduser("~/.cache/gsched")
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


class System:
    """`layers` are folders of files, the topmost first; `options` are nspawn's, for what is not in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        self.layers: tuple[Path, ...] = (debian(),)
        self.options: tuple[str, ...] = (f"--bind-ro={self.wheels}:{WHEELS}",)
        self.wheels.mkdir(parents=True)
        self.own_wheel = self.wheels
        """gsched itself, when `fill_wheels` has made it."""

    @property
    def home(self) -> Path:
        """The homes of the users that a layer has made."""
        return next(layer / "home" for layer in self.layers if any((layer / "home").glob("*")))

    def add_layer(self, name: str, script: str) -> None:
        """Run a script as root inside, and keep what it has changed as a layer on top."""
        own, work, root = (self.folder / name / part for part in ("own", "work", "root"))
        for path in (own, work, root):
            path.mkdir(parents=True)
        options = f"lowerdir={':'.join(map(str, self.layers))},upperdir={own},workdir={work}"
        inside = (
            f"mount -t overlay overlay -o {options} {root} && mkdir -p {root}{WHEELS} && "
            f"mount --bind {self.wheels} {root}{WHEELS} && mount -t proc proc {root}/proc && "
            f'mount --bind /dev {root}/dev && exec chroot {root} bash -ec "$1"'
        )
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "sh", "-c", inside, "sh", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **OFFLINE},
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        self.layers = (own, *self.layers)


OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": WHEELS,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
"""pip finds its packages in the folder of wheels, as it would find them in an index."""


def debian() -> Path:
    """The Debian, made when it is not in the cache. About two minutes."""
    mirror, suite = source()
    kind = hashlib.sha256(" ".join([mirror, suite, *PACKAGES]).encode()).hexdigest()[:8]
    folder = cache() / f"{suite}-{kind}"
    if not folder.is_dir():
        new = folder.with_name(f"{folder.name}.{os.getpid()}.new")
        shutil.rmtree(new, ignore_errors=True)
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(new), mirror]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        # What each host has of its own.
        for name in ("etc/hostname", "etc/machine-id", "var/lib/dbus/machine-id"):
            (new / name).unlink(missing_ok=True)
        (new / "etc/machine-id").touch()
        new.rename(folder)
    return folder


def source() -> tuple[str, str]:
    """Mirror and release of this machine's own apt. Skips the test where it has none."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "").strip('"') or "bookworm"
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    texts = [path.read_text(errors="replace") for path in files if path.is_file()]
    for text in texts:
        for address, name in _SOURCE.findall(text):
            if name == suite:
                return address, suite
        for stanza in text.split("\n\n"):
            fields = dict(re.findall(r"^(\w+):\s*(.+)$", stanza, re.M))
            if suite in fields.get("Suites", "").split() and "main" in fields.get("Components", "").split():
                return fields["URIs"].split()[0], suite
    pytest.skip(f"needs an apt source of {suite} to make hosts from")


# -- wheels -----------------------------------------------------------------------------------------------------------


def fill_wheels(folder: Path, system: Path) -> Path:
    """gsched as a wheel, and those that it and its extras need for the Debian's interpreter; returns gsched's own."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY)])
    own = next(folder.glob("gsched-*.whl"))
    version = next(path.name.removeprefix("python") for path in sorted((system / "usr/bin").glob("python3.*[0-9]")))
    wanted = (REPOSITORY / "pyproject.toml").read_text() + version + EXTRAS
    kept = cache() / f"wheels-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
    if not kept.is_dir():
        new = kept.with_name(f"{kept.name}.{os.getpid()}.new")
        words = ["download", "--only-binary=:all:", "--python-version", version, "--dest", str(new)]
        _run([*pip, *words, f"{own}{EXTRAS}"])
        for wheel in new.glob("gsched-*"):
            wheel.unlink()
        new.rename(kept)
    for wheel in kept.iterdir():
        shutil.copy(wheel, folder)
    return own


def variant(wheel: Path, version: str, changes: Sequence[tuple[str, str, str]] = ()) -> Path:
    """The same wheel as another version, with (file, old text, new text) changed."""
    old = wheel.name.split("-")[1]
    edits = [("gsched/__init__.py", f'__version__ = "{old}"', f'__version__ = "{version}"'), *changes]
    made = wheel.with_name(wheel.name.replace(f"-{old}-", f"-{version}-"))
    packed = io.BytesIO()
    with zipfile.ZipFile(wheel) as source_, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for item in source_.infolist():
            data = source_.read(item)
            for name, before, after in edits:
                if item.filename == name:
                    assert data.count(before.encode()) == 1, (name, before)
                    data = data.replace(before.encode(), after.encode())
            if item.filename.endswith("/METADATA"):
                data = data.replace(f"\nVersion: {old}\n".encode(), f"\nVersion: {version}\n".encode())
            if item.filename.endswith("/RECORD"):
                rows = (row.split(",")[0] for row in data.decode().splitlines())
                data = "".join(f"{row.replace(f'gsched-{old}.', f'gsched-{version}.')},,\n" for row in rows).encode()
            item.filename = item.filename.replace(f"gsched-{old}.", f"gsched-{version}.")
            target.writestr(item, data)
    made.write_bytes(packed.getvalue())
    return made


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
