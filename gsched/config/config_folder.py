"""The files of a configuration folder: which of them count, what they hold, and each parsed when it is asked for.

Nothing is judged here but whether a file can be read; nothing raises for what stands in one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping

from gsched.config.files.lsf_conf import LsfConf
from gsched.config.grammar.directives import Directives
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import MAX_FILE_BYTES, ConfigSection, decode, read_sections
from gsched.config.names.external_groups import GroupProgram
from gsched.model.queues.window import minute_of_week

CLUSTER_PREFIX = "lsf.cluster."

UNSUPPORTED_FILES = (
    "lsb.reasons",
    "lsb.threshold",
    "lsb.globalpolicies",
)
"""Files of LSF that must not say anything."""
NOT_READ = {
    "lsb.modules": "there is one scheduler, which takes no plug-ins",
    "lsb.nqsmaps": "there is no NQS",
    "lsf.task": "-R of glsrun and glsgrun says what a task needs",
}
"""Files of LSF that may say what they like -> why."""
OPTIONAL_FILES = {
    "lsb.params": "every parameter has its default",
    "lsb.hosts": "every host has as many slots as CPUs",
    "lsb.users": "",
    "lsb.applications": "",
    "lsb.resources": "",
    "lsb.serviceclasses": "",
}
"""Files that need not be there -> what then holds, where somebody may wonder."""


def files_of(conf_dir: str) -> list[str]:
    """Names of the files of the folder that count as its configuration. Raises OSError."""
    return [name for name in sorted(os.listdir(conf_dir)) if _is_read(name)]


def read_folder(folder: str, findings: Findings) -> dict[str, bytes | None]:
    """Contents of the files that matter, by name; None for one that is there but cannot be read (reported)."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        findings.error(SourcePlace(folder), f"the configuration folder cannot be read: {os.strerror(error.errno or 0)}")
        return {}
    return {name: read_file(os.path.join(folder, name), findings) for name in names if _is_read(name)}


def _is_read(name: str) -> bool:
    known = ("lsf.conf", "lsf.shared", "lsb.queues", *OPTIONAL_FILES, *UNSUPPORTED_FILES, *NOT_READ)
    return name in known or _is_cluster_file(name)


def _is_cluster_file(name: str) -> bool:
    # Editors' back-ups (lsf.cluster.x~, .bak, .orig, .rpmsave) must not become a second cluster.
    return bool(re.fullmatch(r"lsf\.cluster\.[A-Za-z0-9][A-Za-z0-9_.-]*", name)) and not re.search(
        r"\.(bak|old|orig|save|rpmsave|rpmnew|swp)$", name
    )


def read_file(path: str, findings: Findings, named_at: SourcePlace | None = None) -> bytes | None:
    """The file's contents; None, and a problem, if it cannot be read. `named_at`: the line that includes it."""
    try:
        # Not blocking: a FIFO under one of these names must not hang the master.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(MAX_FILE_BYTES + 1)
            text = "not a regular file"
    except OSError as error:
        what = "not a regular file" if error.errno == errno.ENXIO else os.strerror(error.errno or 0)
        text = f"cannot be read: {what}"
    if named_at is None:
        findings.error(SourcePlace(path), text)
    else:
        findings.error(named_at, f"#INCLUDE: {path}: {text}")
    return None


class ConfigFolder:
    """The files of a folder by name, parsed when asked for."""

    def __init__(
        self,
        folder: str,
        contents: Mapping[str, bytes | None],
        findings: Findings,
        minute: int | None = None,
        *,
        reads: bool = True,
        runs_egroup: bool = False,
    ) -> None:
        """`minute` of the week; None: now. `reads`: files that others include may be read."""
        self.folder = folder
        self.contents = contents
        self.findings = findings
        self.included: dict[str, bytes | None] = {}
        """Contents of files that others include, by path."""
        self._reads = reads
        self._runs_egroup = runs_egroup
        self.directives = Directives(self._include, minute_of_week(time.time()) if minute is None else minute)

    def once_more(self, findings: Findings) -> ConfigFolder:
        """The same files as they were read."""
        twin = ConfigFolder(self.folder, self.contents, findings, self.directives.minute, reads=False)
        twin.included = self.included
        return twin

    def egroup(self, conf: LsfConf) -> GroupProgram | None:
        """The program that lists members of groups; None where it is not to be run."""
        if not self._runs_egroup or conf.locations is None:
            return None
        # What root runs, and what users of a shared cluster rely on, must be root's.
        only_roots = conf.network.port is not None or os.geteuid() == 0
        return GroupProgram(conf.locations.server_dir, self.folder, only_roots=only_roots)

    def path(self, name: str) -> str:
        """Where the file lies."""
        return os.path.join(self.folder, name)

    def text(self, name: str) -> str | None:
        """What the file says; None where it is not there, or cannot be read (which is reported)."""
        data = self.contents.get(name)
        return None if data is None else decode(self.path(name), data, self.findings)

    def sections(self, name: str) -> list[ConfigSection]:
        """The sections of the file; none where it is not there."""
        text = self.text(name)
        return [] if text is None else read_sections(self.path(name), text, self.findings, self.directives)

    def _include(self, name: str, at: SourcePlace) -> tuple[str, str] | None:
        """A file that #INCLUDE names: by its path, or as it lies in the folder."""
        path = self.path(name)
        if path not in self.included:
            data = self.contents.get(name, self.contents.get(path))
            if data is None and self._reads:
                data = read_file(path, self.findings, at)
            elif data is None:
                self.findings.error(at, f"#INCLUDE: there is no file {show(name)}")
            self.included[path] = data
        found = self.included[path]
        text = None if found is None else decode(path, found, self.findings)
        return None if text is None else (path, text)


def digest(contents: Mapping[str, bytes | None]) -> str:
    """Fingerprint of the files that were read."""
    state = hashlib.sha256()
    for name in sorted(contents):
        data = contents[name] or b""
        state.update(f"{name} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()
