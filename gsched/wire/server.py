"""The serving side of gRPC: options, listening on a unix socket, and errors as one line with the right status."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.wire.address import MAX_SOCKET_PATH
from gsched.wire.channel import KEEPALIVE_OPTIONS, MESSAGE_LIMIT, PING_TIMEOUT, SMALL_MESSAGES
from gsched.wire.identity.certificates import BadCertificate, Credentials, read_credentials, stamp
from gsched.wire.messages.protocol import ABOUT
from gsched.wire.messages.refusal_code import said_trailer

log = logging.getLogger(__name__)
R = TypeVar("R")

ChannelOptions = tuple[tuple[str, int], ...]
SERVER_OPTIONS: ChannelOptions = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.so_reuseport", 0),
    # Who connects and says nothing is not waited for.
    ("grpc.server_handshake_timeout_ms", 10_000),
    *SMALL_MESSAGES,
    *(each for each in KEEPALIVE_OPTIONS if each[0] != PING_TIMEOUT),
    (PING_TIMEOUT, 20_000),  # a client on a busy host may be slow, and loses more than it would gain
    # Clients look after a silent connection too; none of them is cut off for asking.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
)


SERVER_OPTIONS_FOR_ANYBODY: ChannelOptions = (
    *((name, value) for name, value in SERVER_OPTIONS if name != "grpc.max_receive_message_length"),
    # Who has proven nothing yet must not fill the memory.
    ("grpc.max_receive_message_length", MESSAGE_LIMIT // 8),
    ("grpc.max_concurrent_streams", 100),
    # Nor keep a place that somebody else could have.
    ("grpc.max_connection_idle_ms", 60_000),
)


def bounded(options: ChannelOptions, connections: int) -> ChannelOptions:
    """The options of a port that takes no more than so many connections: who comes then is cut off before any work is
    done for him. Those that are there go on.
    """
    return (*options, ("grpc.max_allowed_incoming_connections", connections))


def status_of(error: GschedError) -> grpc.StatusCode:
    """The gRPC status an error travels as. UNAVAILABLE is left to the transport: there it means this process itself,
    and clients wait for it; what the master in turn cannot reach is a state that does not allow the request."""
    status = grpc.StatusCode[error.status]
    return grpc.StatusCode.FAILED_PRECONDITION if status is grpc.StatusCode.UNAVAILABLE else status


async def refuse(context: Any, error: GschedError) -> None:
    """End the call with that error: a line of text, and beside it the text's code where it has one."""
    besides = said_trailer(error)
    if error.about:
        besides = ((ABOUT, ",".join(error.about)), *besides)
    if besides:
        await context.abort(status_of(error), error.text, trailing_metadata=besides)
    await context.abort(status_of(error), error.text)


def answers(method: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
    """A unary method whose GschedErrors become statuses; of any other exception the caller gets one line."""

    @wraps(method)
    async def call(self: Any, request: Any, context: Any) -> R:
        try:
            return await method(self, request, context)
        except GschedError as error:
            await refuse(context, error)
        except (grpc.aio.AbortError, AssertionError) as error:
            raise error
        except Exception:
            log.exception("%s failed", method.__name__)
            await context.abort(grpc.StatusCode.INTERNAL, f"{method.__name__} failed; the master's log says why")
        raise AssertionError("unreachable")

    return call


def streams(method: Callable[..., AsyncIterator[R]]) -> Callable[..., AsyncIterator[R]]:
    """As `answers`, for a method that answers with a stream."""

    @wraps(method)
    async def call(self: Any, request: Any, context: Any) -> AsyncIterator[R]:
        try:
            async for item in method(self, request, context):
                yield item
        except GschedError as error:
            await refuse(context, error)
        except grpc.aio.AbortError:
            raise
        except Exception:
            log.exception("%s failed", method.__name__)
            await context.abort(grpc.StatusCode.INTERNAL, f"{method.__name__} failed; the master's log says why")

    return call


def listen_tls(server: grpc.aio.Server, port: int, tls_dir: str, host: str, *, hosts_only: bool) -> None:
    """Bind the port on all addresses of this machine, with the host's certificate. `hosts_only`: who connects must
    prove itself by a certificate of the same CA.

    Certificates that are replaced count for the next connection. Raises BadCertificate, Conflict (the port is taken).
    """
    certificates = _Certificates(tls_dir, host)
    fresh: Any = certificates.fresh  # may answer None: nothing new
    credentials = grpc.dynamic_ssl_server_credentials(certificates.now, fresh, hosts_only)
    try:
        server.add_secure_port(f"[::]:{port}", credentials)
    except RuntimeError:
        raise Conflict(f"port {port} cannot be listened on: another program does, or it is not allowed") from None


class _Certificates:
    """What a listening port shows, read anew when the files are replaced. `fresh` is called by gRPC's threads."""

    def __init__(self, tls_dir: str, host: str) -> None:
        self._tls_dir, self._host = tls_dir, host
        self._seen = stamp(tls_dir, host)
        self.now = _for_server(read_credentials(tls_dir, host))

    def fresh(self) -> grpc.ServerCertificateConfiguration | None:
        """New certificates, if there are any; bad ones are said once and the last good ones stay."""
        seen = stamp(self._tls_dir, self._host)
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            return _for_server(read_credentials(self._tls_dir, self._host))
        except BadCertificate as error:
            log.error("the certificates stay as they were: %s", error.text)
            return None


def _for_server(credentials: Credentials) -> grpc.ServerCertificateConfiguration:
    pairs = [(credentials.key, credentials.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, root_certificates=credentials.ca)


class _WithoutTraceback(logging.Filter):
    """What others send that is no message is their fault: one line of it in the log is enough. That one goes away while
    he is being answered is no fault at all.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, DecodeError):
            record.exc_info = None
        return not isinstance(error, grpc.aio.InternalError)


def listen(server: grpc.aio.Server | grpc.Server, socket_path: str) -> str:
    """Bind a unix socket, in place of one that nobody listens on any more; returns its address. Raises BadRequest."""
    if len(os.fsencode(socket_path)) > MAX_SOCKET_PATH:
        raise BadRequest(
            f"the socket path {socket_path} is longer than {MAX_SOCKET_PATH} bytes: choose a shorter folder"
        )
    logging.getLogger("grpc._cython.cygrpc").addFilter(_WithoutTraceback())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket_path)
    # gRPC decodes %XX in an address and would cut it at # or ?: a folder may be called anything.
    address = f"unix:{quote(os.fsencode(socket_path))}"
    server.add_insecure_port(address)
    os.chmod(socket_path, 0o600)
    return address
