"""The command that puts a configuration into force, with what its files say, which is kept for looks at the past.

Whoever switches the engine to a configuration does it by this command; it decides nothing.
"""

from __future__ import annotations

from gsched.config.configuration import Loaded
from gsched.config.kept_files import packed
from gsched.core.command import Reconfigure
from gsched.store.eventlog import blob_id


def switching_to(loaded: Loaded, user: str, *, started: bool = False) -> tuple[Reconfigure, dict[str, bytes]]:
    """The command, and the blobs that it refers to. `loaded` must have a configuration."""
    data = packed(loaded)
    return Reconfigure(user, loaded.required(), started=started, files=blob_id(data)), {blob_id(data): data}
