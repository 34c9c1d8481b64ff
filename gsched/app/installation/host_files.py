"""`gadmin host-files`: what another host needs of the configuration folder, as a tar archive.

The configuration is the same on every host. Of the certificates a host gets the CA's and its own, of the keys its own
alone: no other key may ever be in the archive. Nothing is written before all that goes into it can be read.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import IO

from gsched.app.installation.units import USER
from gsched.base.errors import BadRequest, GschedError, PermissionDenied
from gsched.model.config import ClusterConfig
from gsched.wire.identity.certificates import REVOKED_FILE

_CLOSED = 0o640
_OPEN = 0o644
_SUFFIXES = (".crt", ".key")


def pack_host(config: ClusterConfig, host: str, target: IO[bytes]) -> None:
    """Write the archive; its names begin with that of the configuration folder.

    Raises BadRequest for a host of another cluster, or one that has no certificate yet, PermissionDenied where
    something cannot be read, both before anything is written; GschedError.
    """
    if host not in config.hosts:
        raise BadRequest(f"{host} is not in the Host section of lsf.cluster.{config.cluster}")
    folder, tls = Path(config.locations.conf_dir), Path(config.network.tls_dir)
    own = [tls / "ca.crt", tls / f"{host}.crt", tls / f"{host}.key"] if config.is_shared else []
    try:
        _require(own, host)
        if own and not tls.is_relative_to(folder):
            raise BadRequest(f"the certificates are in {tls}, not below {folder}: copy them by hand")
        found = _files(folder, tls, [*own, tls / REVOKED_FILE])
        _try_to_read(found)
    except OSError as problem:
        text = f"{problem.filename}: {problem.strerror}: nothing was written; it takes root to pack a host's files"
        raise PermissionDenied(text) from None
    try:
        with tarfile.open(fileobj=target, mode="w|") as archive:
            archive.add(folder, folder.name, recursive=False, filter=_as_of_root)
            for path in found:
                archive.add(path, f"{folder.name}/{path.relative_to(folder)}", recursive=False, filter=_as_of_root)
    except OSError as problem:
        raise GschedError(f"{problem.filename or 'the archive'}: {problem.strerror}") from None


def _require(own: list[Path], host: str) -> None:
    """Raises BadRequest for a certificate or key that nobody has made, OSError."""
    for path in own:
        try:
            path.stat()
        except FileNotFoundError:
            how = "gadmin init-ca" if path.name == "ca.crt" else f"gadmin host-cert {host}"
            raise BadRequest(f"{path}: there is no such file; {how} makes it") from None


def _try_to_read(paths: list[Path]) -> None:
    """Raises OSError for the first file that cannot be opened."""
    for path in paths:
        if path.is_file() and not path.is_symlink():
            path.open("rb").close()


def _raise(problem: OSError) -> None:
    raise problem


def _files(folder: Path, tls: Path, own: list[Path]) -> list[Path]:
    """Everything below the folder, a folder before what is in it; of the folder of certificates and keys only `own`.

    For there lie keys of others, under whatever name: copies, backups of an editor. Raises OSError for a folder that
    cannot be read.
    """
    found: list[Path] = []
    for base, folders, names in os.walk(folder, onerror=_raise):
        if tls != folder and Path(base) == tls:
            folders.clear()
            names[:] = [name for name in names if tls / name in own]
        for name in sorted([*folders, *names]):
            path = Path(base, name)
            if path.suffix in _SUFFIXES and path not in own:
                continue
            if path.is_symlink() or path.is_file() or path.is_dir():  # sockets and the like are nobody's files
                found.append(path)
    return found


def _as_of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root's; a key is for the group of the services as well, where the host has it already."""
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    if info.isreg() and info.name.endswith(".key"):
        info.mode, info.gname = _CLOSED, USER
    elif info.isreg():
        info.mode = _OPEN
    return info
