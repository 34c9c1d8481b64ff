"""The files of an installation of LSF: found by its lsf.conf, and read with the files that they include.

It judges nothing but whether a file can be read, and changes nothing of the installation.
Source: lsf.conf(5) (LSF_CONFDIR, LSB_CONFDIR), lsf.shared(5) (#INCLUDE).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from gsched.base.errors import ConfigError, NotFound
from gsched.config.config_folder import CLUSTER_PREFIX, files_of, read_file
from gsched.config.files.lsf_conf import LSB_FOLDER
from gsched.config.grammar.directives import MOST_INCLUDED, MOST_NESTED, included_name
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import MAX_FILE_BYTES, MAX_LINES, read_assignments
from gsched.config.grammar.values import cluster_name
from gsched.config.takeover.edited_file import EditedFile

INCLUDE_FOLDER = "include"
_OF_LSF = re.compile(r"ls[bf]\.[A-Za-z0-9_.-]+|hosts")


@dataclass(slots=True)
class LsfInstallation:
    """What was found."""

    cluster: str
    files: dict[str, EditedFile] = field(default_factory=dict)
    """By the name below the new folder."""
    latin: list[str] = field(default_factory=list)
    """Names of files that were not in UTF-8."""
    others: list[str] = field(default_factory=list)
    """Paths of files of LSF that gsched has no file for."""


def read_installation(envdir: str, cluster: str = "") -> LsfInstallation:
    """The installation whose lsf.conf lies in `envdir`. `cluster`: which one, where there are several.

    Raises NotFound where there is none, BadRequest where that cannot be a name, ConfigError where a file cannot be
    read as text.
    """
    return _Reading(os.path.abspath(envdir)).read(cluster)


class _Reading:
    def __init__(self, envdir: str) -> None:
        self._envdir = envdir
        self._findings = Findings()
        self._found = LsfInstallation("")
        self._copies: dict[str, str] = {}
        """Real path of an included file -> its name below the new folder."""

    def read(self, cluster: str) -> LsfInstallation:
        conf = os.path.join(self._envdir, "lsf.conf")
        if not os.path.lexists(conf):
            raise NotFound(f"{self._envdir}: there is no lsf.conf in it: it is no LSF_ENVDIR")
        self._add("lsf.conf", conf)
        settings = self._settings()
        conf_dir = self._folder(settings.get("LSF_CONFDIR", ""), "lsf.shared") or self._envdir
        name = cluster_name(cluster) if cluster else self._only_cluster(conf_dir)
        self._found.cluster = name
        lsb_dir = self._lsb_dir(settings, conf_dir, name)
        for each in sorted({"lsf.shared", CLUSTER_PREFIX + name}):
            self._add(each, os.path.join(conf_dir, each))
        for each in _names(lsb_dir):
            if each.startswith("lsb."):
                self._add(each, os.path.join(lsb_dir, each))
        self._look_for_others(conf_dir, lsb_dir)
        self._check()
        return self._found

    def _settings(self) -> dict[str, str]:
        self._check()
        file = self._found.files["lsf.conf"]
        entries = read_assignments(file.source, "\n".join(file.lines), Findings())
        return {entry.key: entry.value for entry in entries}

    def _folder(self, folder: str, holds: str) -> str:
        """The folder if it is there and holds that file: one that was copied from elsewhere names folders of there."""
        return folder if folder and os.path.exists(os.path.join(folder, holds)) else ""

    def _only_cluster(self, conf_dir: str) -> str:
        names = [name.removeprefix(CLUSTER_PREFIX) for name in _names(conf_dir) if name.startswith(CLUSTER_PREFIX)]
        if len(names) == 1:
            return names[0]
        if not names:
            raise NotFound(f"{conf_dir}: there is no {CLUSTER_PREFIX}NAME in it")
        raise NotFound(f"{conf_dir} has {len(names)} clusters ({' '.join(names)}): --cluster NAME says which is meant")

    def _lsb_dir(self, settings: dict[str, str], conf_dir: str, cluster: str) -> str:
        bases = [settings.get("LSB_CONFDIR", ""), os.path.join(conf_dir, LSB_FOLDER)]
        folders = [os.path.join(base, cluster, "configdir") for base in bases if base]
        for folder in (*folders, conf_dir):
            if os.path.exists(os.path.join(folder, "lsb.queues")):
                return folder
        raise NotFound(f"there is no lsb.queues in {' or '.join(dict.fromkeys((*folders, conf_dir)))}")

    def _look_for_others(self, conf_dir: str, lsb_dir: str) -> None:
        taken = {os.path.realpath(file.source) for file in self._found.files.values()}
        for folder in dict.fromkeys((self._envdir, conf_dir, lsb_dir)):
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if _OF_LSF.fullmatch(name) and os.path.isfile(path) and os.path.realpath(path) not in taken:
                    self._found.others.append(path)

    def _check(self) -> None:
        if self._findings.has_errors:
            raise ConfigError(self._findings.problems)

    def _add(self, name: str, path: str, within: tuple[str, ...] = (), named_at: SourcePlace | None = None) -> bool:
        """Read a file and what it includes; False where it cannot be, which has been reported."""
        data = read_file(path, self._findings, named_at)
        text = None if data is None else self._text(name, path, data)
        if text is None:
            return False
        file = self._found.files[name] = EditedFile(name, path, text, _mode_of(path))
        if name != "lsf.conf":
            self._include(file, (*within, path))
        return True

    def _text(self, name: str, path: str, data: bytes) -> str | None:
        if len(data) > MAX_FILE_BYTES or data.count(b"\n") > MAX_LINES:
            text = f"the file is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB or has more than {MAX_LINES} lines"
            self._findings.error(SourcePlace(path), text)
            return None
        if b"\0" in data:
            at = SourcePlace(path, data.count(b"\n", 0, data.index(b"\0")) + 1)
            self._findings.error(at, "not a text file (it holds NUL bytes)")
            return None
        try:
            return data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            self._found.latin.append(name)
            return data.decode("latin-1").replace("\r\n", "\n")

    def _include(self, file: EditedFile, within: tuple[str, ...]) -> None:
        for number, raw in enumerate(file.lines, start=1):
            name = included_name(raw)
            if name is None:
                continue
            at = SourcePlace(file.source, number)
            path = self._included_path(name, file.source)
            reals = [os.path.realpath(each) for each in within]
            if os.path.realpath(path) in reals:
                circle = " includes ".join((*within[reals.index(os.path.realpath(path)) :], path))
                self._findings.error(at, f"{show(raw.strip())}: files include each other in a circle: {circle}")
            elif len(within) > MOST_NESTED or len(self._copies) > MOST_INCLUDED:
                text = f"more than {MOST_NESTED} files in one another, or {MOST_INCLUDED} in all"
                self._findings.error(at, f"{show(raw.strip())}: {text}")
            elif (copy := self._copy(path, within, at)) is not None:
                file.raw_instead[number] = f'#INCLUDE "{copy}"'

    def _included_path(self, name: str, source: str) -> str:
        """By its path, or beside the file that names it, or in LSF_ENVDIR."""
        beside = os.path.join(os.path.dirname(source), name)
        return beside if os.path.exists(beside) else os.path.join(self._envdir, name)

    def _copy(self, path: str, within: tuple[str, ...], at: SourcePlace) -> str | None:
        """The name of the file below the new folder; it is read where that has not been done."""
        real = os.path.realpath(path)
        if real in self._copies:
            return self._copies[real]
        used, base = set(self._copies.values()), os.path.basename(path)
        choices: Iterator[str] = (f"{base}-{number}" if number > 1 else base for number in range(1, MOST_INCLUDED + 3))
        name = next(f"{INCLUDE_FOLDER}/{each}" for each in choices if f"{INCLUDE_FOLDER}/{each}" not in used)
        self._copies[real] = name
        return name if self._add(name, path, within, at) else None


def _mode_of(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:  # it went since it was read
        return 0o600


def _names(folder: str) -> list[str]:
    """Names of the files of the folder that gsched reads. Raises NotFound."""
    try:
        return files_of(folder)
    except OSError as error:
        raise NotFound(f"{folder}: {os.strerror(error.errno or 0)}") from None
