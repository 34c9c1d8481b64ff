"""The files of a configuration as the store keeps them, so that a look at the past can read them once more.

One piece of bytes for a folder: equal files make equal bytes, and it is stored once. It holds what the files say and
nothing that they only name: secrets are in files of their own. It must never read a folder.
"""

from __future__ import annotations

import msgspec

from gsched.base.errors import Internal
from gsched.base.moments import shown_utc
from gsched.base.packed_values import pack, unpack
from gsched.config.configuration import Loaded, load_contents
from gsched.model.config import ClusterConfig
from gsched.model.event import ConfigApplied

MOST_BYTES = 64 << 20
"""Larger than any folder that can be read: what is larger when it is unpacked is damaged."""


class _KeptFiles(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    folder: str
    files: list[tuple[str, bytes | None]]
    """Sorted; those that others include by path."""
    minute: int | None = None
    """Of the week; None where no line depends on it."""


def packed(loaded: Loaded) -> bytes:
    """The files that were read. `loaded` must have a configuration."""
    config = loaded.required()
    kept = _KeptFiles(
        folder=config.locations.conf_dir,
        files=sorted(loaded.contents.items()),
        minute=loaded.minute if config.time_conditions else None,
    )
    return pack(kept)


def unpacked(data: bytes, master_host: str) -> Loaded:
    """The configuration as `master_host` read it then. Raises Internal for bytes that `packed` has not made."""
    try:
        kept = unpack(data, _KeptFiles, MOST_BYTES)
    except ValueError as error:
        raise Internal(f"the kept files of a configuration cannot be read: {error}") from None
    return load_contents(kept.folder, dict(kept.files), master_host, kept.minute or 0)


def config_of(fact: ConfigApplied, files: bytes) -> ClusterConfig:
    """The configuration that was applied, of its kept files. Raises Internal where this gsched cannot read it."""
    loaded = unpacked(files, fact.host)
    if loaded.config is None:
        errors = [str(each) for each in loaded.problems if each.severity == "error"]
        raise Internal(f"the configuration of {shown_utc(fact.at)} cannot be read by this gsched: {errors[0]}")
    return loaded.config
