"""Copies of a cluster's store, and of its configuration, for administrators: `gadmin backup` and `gadmin restore`."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.app.stores.configuration_copies import (
    folders_of,
    kept_configuration,
    put_back_configuration,
    sealed_configuration,
)
from gsched.base.errors import BadRequest, Conflict
from gsched.master.succession import open_store
from gsched.model.config import STORE_FILE, ClusterConfig
from gsched.store.mark import MARK_NAME, MarkFile, StoreMark, known_on_this_machine
from gsched.store.safeguards import sealed_files
from gsched.store.safeguards.copies import copy_store, restore_copy
from gsched.store.safeguards.failure import StoreInUse
from gsched.store.safeguards.filesystem import sync_folder
from gsched.store.transfer import back_up, put_back


def backup_store(
    config: ClusterConfig, target: str, passphrase: str, say: Callable[[str], None], *, told: str = ""
) -> None:
    """Copy the store into a new file, whether the master runs or not, and say what is in it; with the configuration
    and the keys where there is a passphrase. `told`: the name that the file gets. Raises GschedError.
    """
    file, locations = Path(os.path.abspath(target)), config.locations
    lines: list[str] = []
    if passphrase:
        sealed = sealed_configuration(config, config.master_host, passphrase, lines.append)
    else:
        sealed = b""
        where = " and ".join(folders_of(config))
        lines.append(f"left out: configuration and keys, {where} (--passphrase-file or --ask-passphrase encrypts them)")
    if locations.store:
        mark = back_up(locations.store, file, sealed)
    else:
        mark = copy_store(Path(locations.state_dir) / STORE_FILE, file, sealed)
    say(f"{told or target}: a copy of the store with its {mark.seq} events until now")
    for line in lines:
        say(line)


def backup_into(config: ClusterConfig, folder: str, keep: int, passphrase: str, say: Callable[[str], None]) -> None:
    """The same, into a new file of this folder that is named by cluster and time; then the oldest ones of the same
    cluster go, but for the `keep` newest. A copy that fails takes none away. Raises GschedError.
    """
    of_whom = f"{config.cluster}-{config.master_host}" if config.masters else config.cluster
    made = f"{of_whom}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.backup"
    # Half a copy, of a machine that went down meanwhile, must not count as one of the newest.
    half = os.path.join(folder, f".{of_whom}.half")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half)
        os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.unlink(half)
    except OSError as error:
        raise BadRequest(f"{os.path.join(folder, made)}: {error.strerror}") from None
    backup_store(config, half, passphrase, say, told=os.path.join(folder, made))
    pattern = re.compile(rf"{re.escape(of_whom)}-\d{{8}}T\d{{6}}Z\.backup")
    try:
        os.rename(half, os.path.join(folder, made))
        sync_folder(Path(folder))
        older = sorted(name for name in os.listdir(folder) if pattern.fullmatch(name) and name != made)
        for name in older[: max(0, len(older) - keep + 1)]:
            os.unlink(os.path.join(folder, name))
            say(f"removed: {os.path.join(folder, name)}, as {keep} are kept")
    except OSError as error:
        raise BadRequest(f"{error.filename or folder}: {error.strerror}; the new copy is there") from None


def restore_configuration(copy: str, into: str, ask: Callable[[], str], say: Callable[[str], None]) -> None:
    """Put back the configuration and the keys that are in a copy, below the folder `into` or where they were; `ask` is
    who knows the passphrase. Raises BadRequest.
    """
    sealed = sealed_files.read(Path(os.path.abspath(copy)))
    if not sealed:
        raise BadRequest(f"{copy}: no configuration is part of it: it was made without a passphrase")
    put_back_configuration(kept_configuration(sealed, ask(), copy), into, say)


def restore_store(config: ClusterConfig, copy: str, say: Callable[[str], None]) -> None:
    """Put a copy in the store's place and say what is given up; the master must be down. Raises GschedError."""
    path = Path(config.locations.state_dir) / STORE_FILE
    witnesses = known_on_this_machine(Path(config.locations.spool_dir))
    if config.locations.store:
        _restore_into_database(config, copy, witnesses, say)
        return
    try:
        restored = restore_copy(Path(os.path.abspath(copy)), path, witnesses, time.time())
    except StoreInUse as error:
        raise Conflict(f"{error.text}: stop the master first") from None
    for kept in restored.kept:
        say(f"kept: {kept}")
    if restored.may_lack:
        say(f"{copy} was not closed when it was copied, and there is no {copy}-wal: its newest events may be missing")
    _say_what_it_is(config, copy, say)


def _restore_into_database(
    config: ClusterConfig, copy: str, witnesses: Mapping[str, StoreMark], say: Callable[[str], None]
) -> None:
    """The database must be empty: what was there before is for its administrator to keep, or to drop."""
    known = MarkFile(Path(config.locations.state_dir)).mark
    if known is not None:
        witnesses = {MARK_NAME: known, **witnesses}
    put_back(Path(os.path.abspath(copy)), config.locations.store, witnesses)
    _say_what_it_is(config, copy, say)


def _say_what_it_is(config: ClusterConfig, copy: str, say: Callable[[str], None]) -> None:
    store = open_store(config)
    try:
        events = f"the {store.last_seq} events of {copy}; what happened later is given up"
        say(f"the store {store.name} has {events}: this is generation {store.generation} now")
        if sealed_files.read(Path(os.path.abspath(copy))):
            say(f"configuration and keys are part of {copy}: gadmin restore --configuration {copy} puts them back")
        say(f"new jobs get numbers from {store.numbers_from} on; what runs unrecorded goes on, see `gadmin orphans`")
    finally:
        store.close()
