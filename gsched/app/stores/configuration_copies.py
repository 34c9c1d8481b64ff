"""The configuration and the keys of a cluster as a part of a copy of its store, and put back from there.

What cannot be read is left out by name. Nothing that lies in a file's place is lost: it gets another name. Nothing is
written outside the folders that the copy was made of.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from gsched.app.stores.sealing import seal, unseal
from gsched.base.errors import BadRequest
from gsched.base.machine.atomic_write import replace_file
from gsched.model.config import ClusterConfig
from gsched.model.store_url import parse_store_url
from gsched.wire.address import MASTER_FILE

MOST_BYTES = 16 << 20
"""Of a file; a larger one is no configuration, and is left out."""
MOST_FILES = 10_000


class KeptFile(msgspec.Struct, frozen=True):
    """A file as it was."""

    path: str
    mode: int
    owner: str
    group: str
    data: bytes


class KeptConfiguration(msgspec.Struct, frozen=True):
    """The files of the folders of a cluster's configuration on one host."""

    cluster: str
    host: str
    made_at: float
    """UTC seconds."""
    folders: tuple[str, ...]
    files: tuple[KeptFile, ...]


def folders_of(config: ClusterConfig) -> tuple[str, ...]:
    """Those of the configuration and the keys, each once."""
    conf = os.path.abspath(config.locations.conf_dir)
    tls = os.path.abspath(config.network.tls_dir) if config.is_shared else conf
    return (conf,) if _is_below(tls, conf) else (conf, tls)


def sealed_configuration(config: ClusterConfig, host: str, passphrase: str, say: Callable[[str], None]) -> bytes:
    """All files of these folders, sealed; says what there are, and each that is left out. Raises BadRequest."""
    files: list[KeptFile] = []
    left_out: list[str] = []
    for folder in folders_of(config):
        for path in _paths_below(folder, left_out):
            if len(files) >= MOST_FILES:
                raise BadRequest(f"{folder} has more than {MOST_FILES} files: that is no configuration")
            _take(path, files, left_out)
    password = parse_store_url(config.locations.store).password_file if config.locations.store else ""
    if password and not any(_is_below(password, folder) for folder in folders_of(config)):
        left_out.append(f"{password}: the store's password is kept elsewhere")
    kept = KeptConfiguration(config.cluster, host, time.time(), folders_of(config), tuple(files))
    sealed = seal(zlib.compress(msgspec.json.encode(kept), 9), passphrase)
    say(f"{len(files)} files of {' and '.join(kept.folders)} are part of it, encrypted")
    for each in left_out:
        say(f"left out: {each}")
    return sealed


def kept_configuration(sealed: bytes, passphrase: str, name: str) -> KeptConfiguration:
    """What `sealed_configuration` has made; `name` is the file it comes from. Raises BadRequest."""
    try:
        kept = msgspec.json.decode(zlib.decompress(unseal(sealed, passphrase, name)), type=KeptConfiguration)
    except (zlib.error, msgspec.MsgspecError):
        raise BadRequest(f"{name}: the configuration in it cannot be read") from None
    for file in kept.files:
        if os.path.normpath(file.path) != file.path or not any(_is_below(file.path, each) for each in kept.folders):
            raise BadRequest(f"{name}: {file.path} is in none of the folders {' '.join(kept.folders)}")
    return kept


def put_back_configuration(kept: KeptConfiguration, into: str, say: Callable[[str], None]) -> None:
    """Write the files to where they were, or below the folder `into`, with their modes and, for root, their owners.

    A file that is another one now is renamed first. Raises BadRequest at the first that cannot be written.
    """
    suffix = time.strftime(".replaced-%Y%m%dT%H%M%SZ", time.gmtime())
    written = same = 0
    for file in kept.files:
        path = f"{os.path.abspath(into)}{file.path}" if into else file.path
        try:
            if _is_there(path, file.data):
                same += 1
                continue
            os.makedirs(os.path.dirname(path), mode=0o700 if os.geteuid() else 0o755, exist_ok=True)
            if os.path.lexists(path):
                os.rename(path, path + suffix)
                say(f"kept: {path}{suffix}")
            replace_file(path, file.data, durable=True)
            _own(path, file)
        except OSError as error:
            raise BadRequest(f"{error.filename or path}: {error.strerror or error}") from None
        written += 1
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(kept.made_at))
    as_it_was = f"{same} were there as they are" if same else "none was there as it is"
    say(f"the configuration of cluster {kept.cluster}, of {kept.host}, {made}: {written} files written, {as_it_was}")


def _paths_below(folder: str, left_out: list[str]) -> Iterator[str]:
    """Files, also those that links lead to, but for what a master writes there for commands."""

    def unreadable(error: OSError) -> None:
        left_out.append(f"{error.filename}: {error.strerror}")

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders.sort()
        left_out += [f"{parent}/{name}: a link to a folder" for name in folders if os.path.islink(f"{parent}/{name}")]
        yield from (f"{parent}/{name}" for name in sorted(names) if name != MASTER_FILE)


def _take(path: str, files: list[KeptFile], left_out: list[str]) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                left_out.append(f"{path}: not a file")
                return
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        left_out.append(f"{path}: {error.strerror}")
        return
    if len(data) > MOST_BYTES:
        left_out.append(f"{path}: larger than {MOST_BYTES >> 20} MiB")
        return
    owner, group = _name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)
    files.append(KeptFile(path, stat.S_IMODE(status.st_mode), owner, group, data))


def _name(look_up: Callable[[int], Any], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return ""


def _is_there(path: str, data: bytes) -> bool:
    try:
        return not os.path.islink(path) and Path(path).read_bytes() == data
    except OSError:
        return False


def _own(path: str, file: KeptFile) -> None:
    """Whose it was, as far as root knows them here; then its mode, which a change of owner would take bits of."""
    if os.geteuid() == 0:
        for look_up, name, place in ((pwd.getpwnam, file.owner, 0), (grp.getgrnam, file.group, 1)):
            try:
                number = look_up(name)[2]
            except KeyError:
                continue
            os.chown(path, *((number, -1) if place == 0 else (-1, number)))
    os.chmod(path, file.mode & 0o777)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
