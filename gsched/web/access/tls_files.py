"""Certificate and key of the port: read by root, who alone may, and taken by the front without a restart.

A pair that does not fit, as while one of the two files is being replaced, is left alone until it does.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from gsched.wire.identity.certificates import BadCertificate, check_key_mode

MOST_BYTES = 24 * 1024
"""Of each file."""
_Seen = tuple[tuple[int, int, int], ...]


def new_context() -> ssl.SSLContext:
    """For the port, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsFiles:
    """`certificate` and `key` are paths; `seen` is what they looked like when they were read last."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate, self._key = certificate, key
        self._seen: _Seen = ()

    def load(self, context: ssl.SSLContext) -> None:
        """Have the context show the certificate. Raises BadCertificate."""
        with self._told_of():
            self._seen = self._looks()
            check_key_mode(Path(self._key), os.stat(self._key))
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")

    def changed(self) -> tuple[str, str] | None:
        """Both as texts, where they are others than when they were looked at last, and fit together.

        Raises BadCertificate where they do not, once.
        """
        with self._told_of():
            looks = self._looks()
            if looks == self._seen:
                return None
            self._seen = looks
            check_key_mode(Path(self._key), os.stat(self._key))
            pair = _text_of(self._certificate), _text_of(self._key)
            use_pair(new_context(), *pair)
            return pair

    def _looks(self) -> _Seen:
        states = (os.stat(path) for path in (self._certificate, self._key))
        return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)

    @contextlib.contextmanager
    def _told_of(self) -> Iterator[None]:
        try:
            yield
        except ssl.SSLError as error:
            what = f"GSCHED_WEB_CERT {self._certificate} and GSCHED_WEB_KEY {self._key}"
            raise BadCertificate(f"{what} are no certificate and its key in PEM: {error.reason}") from None
        except OSError as error:
            where = error.filename or f"{self._certificate} or {self._key}"
            raise BadCertificate(f"{where}: cannot be read: {error.strerror}") from None


def _text_of(path: str) -> str:
    """Raises OSError, BadCertificate."""
    with open(path, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadCertificate(f"{path}: has more than {MOST_BYTES} bytes")
    return data.decode("utf8", "replace")


def use_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have the context show it from the next connection on: Python reads them from files alone, which are in memory
    here. Raises ssl.SSLError; the context is of no use then.
    """
    with _in_memory(certificate) as certificate_path, _in_memory(key) as key_path:
        context.load_cert_chain(certificate_path, key_path, password=lambda: "")


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    descriptor = os.memfd_create("gsched-web", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
        file.flush()
        yield f"/proc/self/fd/{descriptor}"
