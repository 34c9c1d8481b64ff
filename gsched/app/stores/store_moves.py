"""A store in another database: `gadmin store-copy` copies one, `gsched up --store` moves a private cluster's.

The master is down meanwhile, and for no longer: agents and jobs go on. What was moved is renamed, never removed.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from gsched.app.clusters.draining import Say
from gsched.base.errors import BadRequest
from gsched.base.machine.atomic_write import replace_file
from gsched.model.config import STORE_FILE, ClusterConfig
from gsched.model.store_url import is_store_url, parse_store_url
from gsched.store.transfer import Copied, copy_whole_store

FILE = "file"
"""What `--store` calls the file below LSB_SHAREDIR."""


def copy_store(source: str, target: str, say: Say) -> None:
    """Copy a store that no master has to where there is none. Raises GschedError."""
    say(_summary(copy_whole_store(source, target)))


def address_of(wanted: str, present: str = "") -> str:
    """What GSCHED_STORE is to be; empty: the file. The file with the password is that of the `present` address where
    the new one names none. Raises BadRequest.
    """
    if wanted == FILE:
        return ""
    if not is_store_url(wanted):
        raise BadRequest(f"--store: a store is in postgresql://USER@HOST/DATABASE, or `{FILE}`")
    return parse_store_url(wanted, parse_store_url(present).password_file if present else "").text


def move_store(config: ClusterConfig, conf: Path, address: str, say: Say) -> None:
    """Copy the store to that address, and name it in lsf.conf; the master must be down. Raises GschedError, OSError."""
    locations = config.locations
    file = Path(locations.state_dir) / STORE_FILE
    if locations.store or file.exists():
        say(_summary(copy_whole_store(locations.store_place, address or str(file))))
    set_store(conf, address)
    if not locations.store:
        for kept in _set_aside(file):
            say(f"kept: {kept}")
    elif not address:
        say("the database that had the store is left as it is")


def set_store(conf: Path, address: str) -> None:
    """Write GSCHED_STORE into lsf.conf, in place of what it said; empty: without a word. Raises OSError."""
    path = conf / "lsf.conf"
    names = ("GSCHED_STORE", "GSCHED_STORE_PASSWORD_FILE") if not address else ("GSCHED_STORE",)
    lines = _without(path.read_text("utf8", "surrogateescape").splitlines(), names)
    if address:
        lines.append(f'GSCHED_STORE="{address}"')
    mode = stat.S_IMODE(path.stat().st_mode)
    replace_file(str(path), ("\n".join(lines) + "\n").encode("utf8", "surrogateescape"), durable=True)
    path.chmod(mode)


def _without(lines: list[str], names: tuple[str, ...]) -> list[str]:
    """Lines of lsf.conf but for these parameters, each with the lines that go on with it."""
    kept, goes_on, is_named = [], False, False
    for line in lines:
        if not goes_on:
            is_named = line.partition("=")[0].strip() in names
        goes_on = line.rstrip().endswith("\\") and not line.lstrip().startswith("#")
        if not is_named:
            kept.append(line)
    return kept


def _set_aside(file: Path) -> list[str]:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = []
    for suffix in ("", "-wal", "-shm"):
        old, new = f"{file}{suffix}", f"{file}.moved-{stamp}{suffix}"
        if os.path.lexists(old):
            os.rename(old, new)
            kept.append(new)
    return kept


def _summary(copied: Copied) -> str:
    others = sum(copied.rows.values()) - copied.rows["event"]
    return f"copied and compared: {copied.rows['event']} events, {others} other rows"
