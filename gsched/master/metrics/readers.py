"""Who may read the metrics on a port: whoever shows the token of the file, or else a certificate of the cluster's CA.

Where the cluster has certificates all of it is encrypted. Files that are replaced count from the next connection on.
It never shows a token, and knows nothing of what is read.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import socket
import ssl
import stat

from gsched.base.errors import Conflict, GschedError
from gsched.model.config import MetricsEndpoint
from gsched.wire.identity.certificates import (
    CA_FILE,
    Revoked,
    certificate_file,
    key_file,
    read_credentials,
    stamp,
)

log = logging.getLogger(__name__)

LEAST_TOKEN, MOST_TOKEN = 16, 4096
"""Characters of a token."""
_OTHERS = 0o137
"""Mode bits that a token must not have: a group of services may read it, and that is all."""


class TokenFile:
    """The secret that readers show; the file's first line."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._stamp: tuple[int, ...] = ()
        self._token = b""
        self._said = ""

    def check(self) -> None:
        """Raise Conflict, with the line of lsf.conf, unless there is a token that is a secret."""
        try:
            self._read()
        except (OSError, GschedError) as error:
            why = error.text if isinstance(error, GschedError) else f"cannot be read: {error.strerror}"
            raise Conflict(f"{self._source}: GSCHED_METRICS_TOKEN_FILE: {self._path}: {why}") from None

    def is_shown(self, header: str) -> bool:
        """Whether the Authorization header has the token. A file that is bad now lets nobody in."""
        try:
            self._read()
            self._said = ""
        except (OSError, GschedError) as error:
            if str(error) != self._said:
                log.error("%s: %s; nobody can read the metrics", self._path, error)
            self._said = str(error)
            return False
        kind, _, token = header.partition(" ")
        shown = token.strip().encode("utf8", "replace")
        return kind.lower() == "bearer" and hmac.compare_digest(shown, self._token)

    def _read(self) -> None:
        with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            seen = (status.st_ino, status.st_ctime_ns, status.st_size)
            if seen == self._stamp:
                return
            self._stamp = ()
            if not stat.S_ISREG(status.st_mode):
                raise Conflict("not a regular file")
            if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & _OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise Conflict(f"a token that others can read is no secret (mode {mode:04o}): chmod 0600 it")
            token = file.readline(MOST_TOKEN + 2).strip()
        if not LEAST_TOKEN <= len(token) <= MOST_TOKEN:
            raise Conflict(f"its first line must be a token of {LEAST_TOKEN} to {MOST_TOKEN} characters")
        self._token, self._stamp = token, seen


class Readers:
    """The check of one port. `tls_dir` empty: the cluster has no certificates."""

    def __init__(self, endpoint: MetricsEndpoint, tls_dir: str, host: str) -> None:
        self._token = TokenFile(endpoint.token_file, endpoint.token_source) if endpoint.token_file else None
        self._tls_dir = tls_dir
        self._host = host
        self._source = endpoint.source
        self._revoked = Revoked(tls_dir)
        self._seen: tuple[int, ...] = ()
        self._context: ssl.SSLContext | None = None

    def check(self) -> None:
        """Raise Conflict, with the line of lsf.conf, for a token or certificates that cannot be used."""
        if self._token is not None:
            self._token.check()
        if self._tls_dir:
            try:
                self._context = self._new_context()
            except GschedError as error:
                raise Conflict(f"{self._source}: GSCHED_METRICS: {error.text}") from None

    def secured(self, connection: socket.socket) -> socket.socket:
        """The connection, encrypted where the cluster has certificates. Raises OSError (also of ssl), GschedError."""
        if not self._tls_dir:
            return connection
        seen = stamp(self._tls_dir, self._host)
        if seen != self._seen:
            with contextlib.suppress(GschedError, OSError):  # the last good ones stay, as of the master's own port
                self._context = self._new_context()
            self._seen = seen
        assert self._context is not None
        return self._context.wrap_socket(connection, server_side=True)

    def admits(self, connection: socket.socket, authorization: str) -> bool:
        """Whether who is on the connection may read."""
        if self._token is not None:
            return self._token.is_shown(authorization)
        if not isinstance(connection, ssl.SSLSocket):
            return False
        shown = connection.getpeercert(binary_form=True)
        if shown is None:
            return False
        try:
            return not self._revoked.has(ssl.DER_cert_to_PEM_cert(shown).encode("ascii"))
        except GschedError as error:
            log.error("%s; nobody can read the metrics", error.text)
            return False

    def _new_context(self) -> ssl.SSLContext:
        read_credentials(self._tls_dir, self._host)  # says what is wrong in one line
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = certificate_file(self._tls_dir, self._host), key_file(self._tls_dir, self._host)
        context.load_cert_chain(str(certificate), str(key))
        if self._token is None:
            context.load_verify_locations(f"{self._tls_dir}/{CA_FILE}")
            context.verify_mode = ssl.CERT_REQUIRED
        return context
