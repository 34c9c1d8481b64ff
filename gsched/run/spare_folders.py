"""Emptied folders of attempts, kept for further attempts: on ext4 to make and remove one costs more than its files do.

Kept are folders alone that are empty and that nobody but their owner may go through. Anybody may remove them at any
time; an agent that starts removes those of the one before. Nothing depends on them: without them folders are made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections import deque

SPARE = "spare"
"""Their place in the spool folder."""
MOST_SPARE = 64


class SpareFolders:
    """Those below `place`, a folder that is made anew."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._spare: deque[str] = deque()
        """Their paths, that one first which was emptied first: ext4 uses a file's number again only after a while."""
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.mkdir(place, 0o700)

    def take(self, folder: str) -> bool:
        """Have one of them lie here; False where there is none, or something lies here already."""
        if not self._spare or os.path.lexists(folder):
            return False
        try:
            os.rename(self._spare.popleft(), folder)
        except OSError:
            return False
        return True

    def keep(self, folder: str) -> bool:
        """Take over this one, which is empty; False where it is not wanted. Raises OSError where there is none."""
        if len(self._spare) >= MOST_SPARE or stat.S_IMODE(os.stat(folder).st_mode) != 0o700:
            return False
        spare = f"{self._place}/{os.path.basename(folder)}"
        try:
            os.rename(folder, spare)
        except OSError:
            return False
        self._spare.append(spare)
        return True
