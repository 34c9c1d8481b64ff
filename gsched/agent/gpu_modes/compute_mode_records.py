"""Which GPUs' compute modes are set for jobs, on disk before they are set: what an agent after a crash sets back.

The file names the boot, since a reboot loses compute modes. Nothing is set here, and no GPU is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.host import ComputeMode

log = logging.getLogger(__name__)


class ModeSetting(msgspec.Struct, kw_only=True):
    """A GPU whose compute mode is not, or will not stay, what it was before its jobs."""

    standing: ComputeMode
    """The mode to which it goes back."""
    given: ComputeMode
    """The mode in which its jobs have it."""
    attempts: list[str] = []
    """Those that have it (`17.1`); when there is none left the GPU is due to be set back."""


class _Page(msgspec.Struct, kw_only=True):
    """The file."""

    boot_id: str
    gpus: dict[str, ModeSetting] = {}


class ModeRecords:
    """Settings by the UUID of the GPU."""

    def __init__(self, path: Path, boot_id: str) -> None:
        """Read what an earlier agent wrote in this boot; a file that cannot be read is told in the log."""
        self._path = path
        self._boot_id = boot_id
        self.gpus: dict[str, ModeSetting] = {}
        self.is_stored = True
        """Whether all changes are on disk; whoever changes something says so by `touch`."""
        try:
            page = msgspec.json.decode(path.read_bytes(), type=_Page)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            log.error("%s cannot be read, so no compute mode is set back: %s", path, error)
            return
        if page.boot_id == boot_id:
            self.gpus = page.gpus

    def touch(self) -> None:
        """Something differs from what is on disk."""
        self.is_stored = False

    def due(self) -> list[str]:
        """GPUs that no attempt has any more."""
        return [uuid for uuid, setting in self.gpus.items() if not setting.attempts]

    def join(self, name: str, uuid: str) -> None:
        """The attempt has the GPU too, if its mode is set for jobs."""
        setting = self.gpus.get(uuid)
        if setting is not None and name not in setting.attempts:
            setting.attempts.append(name)
            self.touch()

    def release(self, name: str) -> None:
        """The attempt has no GPU any more."""
        for setting in self.gpus.values():
            if name in setting.attempts:
                setting.attempts.remove(name)
                self.touch()

    def keep(self, names: Collection[str]) -> None:
        """Only these attempts are known."""
        for setting in self.gpus.values():
            if left := [name for name in setting.attempts if name not in names]:
                setting.attempts = [name for name in setting.attempts if name not in left]
                self.touch()

    def forget(self, uuid: str) -> None:
        """The GPU's mode is nothing of ours any more."""
        if self.gpus.pop(uuid, None) is not None:
            self.touch()

    def store(self) -> None:
        """Put it on disk, all or nothing; returns when it is there. Raises OSError."""
        data = msgspec.json.encode(_Page(boot_id=self._boot_id, gpus=self.gpus))
        self.is_stored = True
        try:
            replace_file(str(self._path), data, durable=True)
        except OSError:
            self.is_stored = False
            raise
