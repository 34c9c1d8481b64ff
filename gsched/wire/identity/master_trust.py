"""Which certificates of the master count on this host: those of the CA, but for what the file `revoked` names.

gRPC checks chain, name and time, and knows of no revoked certificates on the side that connects. So as long as that
file has a line, the certificate that the master shows is looked at in a handshake of its own, and the connection that
follows trusts this very certificate alone: whoever shows another one then, however well signed, is told nothing.
Must never fall back to the CA alone while anything is revoked.
"""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from gsched.base.errors import GschedError, PermissionDenied, Unavailable
from gsched.wire.identity.certificates import (
    CA_FILE,
    Revoked,
    certificate_file,
    files_of,
    key_file,
    read_ca,
    read_credentials,
    revoked_stamp,
    stamp_of,
)

HANDSHAKE_S = 5.0


class Believed(NamedTuple):
    """What a connection to the master is opened with. `is_pinned`: it is good for one master with one certificate, and
    must be made anew when that does not answer.
    """

    address: str
    credentials: grpc.ChannelCredentials
    is_pinned: bool


class Trust:
    """The certificates of the master that count on this host; for any thread. `host`: whose certificate is shown in
    turn; empty: none, who asks proves itself otherwise.
    """

    def __init__(self, tls_dir: str, host: str = "") -> None:
        self._tls_dir = tls_dir
        self._host = host
        self._files: tuple[str, ...] = ()

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever one of the files is replaced; costs a look at each."""
        if not self._files:
            self._files = files_of(self._tls_dir, self._host)
        return stamp_of(self._files)

    def revoked_stamp(self) -> tuple[int, ...]:
        """Changes whenever the list of revoked certificates does: it is the end of `stamp`."""
        return revoked_stamp(self._tls_dir)

    def believed(self, address: str) -> Believed:
        """For a new connection to the master at HOST:PORT; asks it first where anything is revoked, or where several
        may lead (HOST:PORT,HOST:PORT), and may take HANDSHAKE_S then.

        Raises BadCertificate (of this host's own files), Unavailable, PermissionDenied for a revoked master.
        """
        addresses = address.split(",")
        own = read_credentials(self._tls_dir, self._host) if self._host else None
        roots, pair = (own.ca, (own.key, own.certificate)) if own else (read_ca(self._tls_dir), (None, None))
        revoked = Revoked(self._tls_dir)
        if len(addresses) == 1 and not revoked.has_any():
            return Believed(address, grpc.ssl_channel_credentials(roots, *pair), False)
        found, shown = self._first_to_answer(addresses, revoked)
        counts = shown if revoked.has_any() else roots
        return Believed(found, grpc.ssl_channel_credentials(counts, *pair), True)

    def _first_to_answer(self, addresses: Sequence[str], revoked: Revoked) -> tuple[str, bytes]:
        """The master that answers, and the certificate that it shows: one that waits to lead does not listen.

        Raises Unavailable, PermissionDenied.
        """
        told: queue.SimpleQueue[tuple[str, bytes] | GschedError] = queue.SimpleQueue()

        def ask(address: str) -> None:
            try:
                told.put((address, self._counting(address, revoked)))
            except GschedError as error:
                told.put(error)
            except Exception as error:  # certificates that are being replaced: whoever waits must hear of it
                told.put(Unavailable(f"{address}: {error}"))

        if len(addresses) == 1:
            ask(addresses[0])
        else:  # one that was stopped takes connections and says nothing: nobody waits for it
            for address in addresses:
                threading.Thread(target=ask, args=(address,), name="find master", daemon=True).start()
        failures: list[GschedError] = []
        for _ in addresses:
            answer = told.get()
            if not isinstance(answer, GschedError):
                return answer
            failures.append(answer)
        if all(isinstance(error, PermissionDenied) for error in failures):
            raise failures[0]
        raise Unavailable("; ".join(error.text for error in failures))

    def _counting(self, address: str, revoked: Revoked) -> bytes:
        """The certificate that the master at this address shows. Raises Unavailable, PermissionDenied."""
        shown = self._shown_by(address)
        if revoked.has(shown):
            host = address.rpartition(":")[0]
            raise PermissionDenied(f"the certificate that {host} shows as the master's host is revoked")
        return shown

    def _shown_by(self, address: str) -> bytes:
        """The certificate, in PEM, by which the master proves itself now; the CA, the name and the time are right."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(Path(self._tls_dir) / CA_FILE)
        context.set_alpn_protocols(["h2"])
        if self._host:
            files = certificate_file(self._tls_dir, self._host), key_file(self._tls_dir, self._host)
            context.load_cert_chain(*files, password=lambda: "")
        host, _, port = address.rpartition(":")
        try:
            with (
                socket.create_connection((host, int(port)), timeout=HANDSHAKE_S) as plain,
                context.wrap_socket(plain, server_hostname=host) as connection,
            ):
                shown = connection.getpeercert(binary_form=True)
        except ssl.SSLCertVerificationError as problem:
            raise Unavailable(f"{address}: the certificate does not count: {problem.verify_message}") from None
        except OSError as problem:
            raise Unavailable(f"{address}: {problem.strerror or problem}") from None
        if shown is None:
            raise Unavailable(f"{address} shows no certificate")
        return ssl.DER_cert_to_PEM_cert(shown).encode()
