"""munge: a credential says which user of which number asked for it, and is good once and for a few minutes.

Spoken to by its own library, which speaks to munged on this host. Each call has a context of its own: one that has seen
a bad credential makes no good ones any more. Source: munge.h, munge(3), munge_ctx(3).
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any, NamedTuple

from gsched.base.errors import PermissionDenied, Unavailable

LIBRARY = "libmunge.so.2"
_OPT_SOCKET = 8
_SOCKET_ERRORS = (6, 7)
"""EMUNGE_SOCKET, EMUNGE_TIMEOUT: munged does not answer."""
MOST_BYTES = 4096
"""A credential of ours has a few hundred."""


class CredentialContent(NamedTuple):
    """What a credential says: who had it made, and what was to be said."""

    uid: int
    gid: int
    payload: bytes


class Munge:
    """munged of this host, at `socket` (empty: where the library looks). For any thread; calls block for its answer."""

    def __init__(self, socket: str = "") -> None:
        """Raises Unavailable when the library is not installed."""
        self._socket = socket
        self._library = _library()

    def encode(self, payload: bytes) -> str:
        """A credential of this process's user over `payload`. Raises Unavailable when munged does not answer."""
        context = self._context()
        found = ctypes.c_void_p()
        try:
            self._check(context, self._library.munge_encode(ctypes.byref(found), context, payload, len(payload)))
            return (ctypes.string_at(found) if found else b"").decode("ascii")
        finally:
            self._free(found)
            self._library.munge_ctx_destroy(context)

    def decode(self, credential: str) -> CredentialContent:
        """What a credential says. Raises PermissionDenied for one that is used again, too old, changed or none at all,
        Unavailable when munged does not answer.
        """
        if not credential.isascii() or len(credential) > MOST_BYTES:
            raise PermissionDenied("what should be a munge credential is none")
        context = self._context()
        payload, length = ctypes.c_void_p(), ctypes.c_int()
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        answers = [ctypes.byref(each) for each in (payload, length, uid, gid)]
        try:
            self._check(context, self._library.munge_decode(credential.encode(), context, *answers))
            data = ctypes.string_at(payload, length.value) if payload and length.value > 0 else b""
            return CredentialContent(uid.value, gid.value, data)
        finally:
            self._free(payload)
            self._library.munge_ctx_destroy(context)

    def _context(self) -> ctypes.c_void_p:
        context = ctypes.c_void_p(self._library.munge_ctx_create())
        if not context:
            raise Unavailable("munge: out of memory")
        if self._socket:
            path = ctypes.c_char_p(os.fsencode(self._socket))
            self._check(context, self._library.munge_ctx_set(context, _OPT_SOCKET, path))
        return context

    def _check(self, context: ctypes.c_void_p, code: int) -> None:
        if code == 0:
            return
        said = self._library.munge_ctx_strerror(context) or self._library.munge_strerror(code) or b"unknown"
        text = " ".join(bytes(said).decode("utf-8", "replace").split())
        if code in _SOCKET_ERRORS:
            raise Unavailable(f"munged does not answer on this host: {text}")
        raise PermissionDenied(f"munge: {text}")

    def _free(self, found: ctypes.c_void_p) -> None:
        if found:
            _libc().free(found)


@lru_cache(maxsize=1)
def _library() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise Unavailable(f"munge is not installed on this host ({LIBRARY} is missing)") from None
    library.munge_ctx_create.restype = ctypes.c_void_p
    library.munge_ctx_create.argtypes = []
    library.munge_ctx_destroy.restype = None
    library.munge_ctx_destroy.argtypes = [ctypes.c_void_p]
    library.munge_ctx_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    library.munge_ctx_strerror.restype = ctypes.c_char_p
    library.munge_ctx_strerror.argtypes = [ctypes.c_void_p]
    library.munge_strerror.restype = ctypes.c_char_p
    library.munge_strerror.argtypes = [ctypes.c_int]
    pointer = ctypes.POINTER(ctypes.c_void_p)
    library.munge_encode.argtypes = [pointer, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    number = ctypes.POINTER(ctypes.c_uint32)
    library.munge_decode.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        pointer,
        ctypes.POINTER(ctypes.c_int),
        number,
        number,
    ]
    return library


@lru_cache(maxsize=1)
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.free.restype = None
    libc.free.argtypes = [ctypes.c_void_p]
    return libc
