"""PostgreSQL's own side: how its connections are made and set up. It knows nothing of jobs or events.

The driver is loaded here and only when an address asks for it. A password is never part of what is logged or raised.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool, QueuePool

from gsched.base.errors import BadRequest
from gsched.base.machine.secret_file import read_secret
from gsched.model.store_url import StoreUrl, check_verified

if TYPE_CHECKING:
    from psycopg import Connection as DriverConnection

    from gsched.store.tables.answer_limit import LimitedConnection

CONNECT_S = 5
"""How long a server may take to answer a connection, each of its addresses."""
ANSWER_S = 12
"""How long a server may say nothing while a master waits for it: longer than it may wait for a lock, and so short that
a master which tries twice is not taken for one that hangs."""
QUERY_ANSWER_S = 120
"""The same for queries of the history, which may take long for all rows."""
_KEEPALIVE_S, _KEEPALIVES = 5, 3
_USER_TIMEOUT_MS = 15_000
"""A peer that has vanished is noticed after so long, in both directions."""
_LOCK_WAIT = "10s"
"""How long a statement waits for another transaction of the store, which nobody but a master has."""
_IDLE_TRANSACTION = "15s"
"""After so long without a statement the server ends a transaction: that of a master that was stopped in the middle."""
_READERS = 2
"""Connections that stay open between questions: where many ask at once there are more, each for its question. A server
has a hundred for all, and each master reads in several places.
"""
_DEFAULT_PORT = "5432"
"""What libpq takes for one that is left out among several."""
_SINCE = (
    (140_000, "SET idle_session_timeout = 0"),
    (170_000, "SET transaction_timeout = 0"),
)
"""Limits that a site may have set for all sessions, and the version (as server_version_num) that brought each."""
_NOTICES_LOSS = (
    f"SET tcp_keepalives_idle = {_KEEPALIVE_S}",
    f"SET tcp_keepalives_interval = {_KEEPALIVE_S}",
    f"SET tcp_keepalives_count = {_KEEPALIVES}",
    f"SET tcp_user_timeout = {_USER_TIMEOUT_MS}",
)
"""The server ends the sessions of a host that was lost soon; by default it keeps each for two hours, and one for which
it has none left refuses the master that is to lead.
"""
_READ_ONLY = (
    "SET default_transaction_read_only = on",
    "SET idle_in_transaction_session_timeout = '5min'",
    *_NOTICES_LOSS,
)
_WRITING = (
    f"SET lock_timeout = '{_LOCK_WAIT}'",
    "SET statement_timeout = 0",
    f"SET idle_in_transaction_session_timeout = '{_IDLE_TRANSACTION}'",
    *_NOTICES_LOSS,
)

_answered: dict[str, tuple[str, str]] = {}
"""Of an address with several hosts: host and port of the one that was connected to last."""


def driver() -> ModuleType:
    """psycopg. Raises BadRequest where it is not installed."""
    try:
        psycopg = import_module("psycopg")  # whoever keeps the store in a file has no use for it
    except ImportError:
        raise BadRequest("a store in PostgreSQL needs psycopg: pip install 'gsched[postgresql]'") from None
    # It tells in its own words what is raised and told anyway.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    return psycopg


def connect(
    url: StoreUrl, role: str, settings: tuple[str, ...] = _WRITING, answer_s: float | None = None
) -> DriverConnection[Any]:
    """A new connection, which commits each statement. Raises BadRequest (no driver, a password file that cannot be
    used), the driver's OperationalError, also when the server says nothing for `answer_s` seconds (None: it may take
    as long as it wants). `role` is what the server's own views call it.
    """
    driver()
    limited: type[LimitedConnection] = import_module("gsched.store.tables.answer_limit").LimitedConnection
    given: dict[str, Any] = {"password": read_password(url.password_file)} if url.password_file else {}
    if url.sslmode:
        given["sslmode"] = url.sslmode
    places = _last_first(url)
    given |= places
    connection = limited.connect(
        url.libpq,
        autocommit=True,
        application_name=f"gsched {role}",
        connect_timeout=CONNECT_S,
        keepalives_idle=_KEEPALIVE_S,
        keepalives_interval=_KEEPALIVE_S,
        keepalives_count=_KEEPALIVES,
        tcp_user_timeout=_USER_TIMEOUT_MS,
        client_encoding="UTF8",
        **given,
    )
    try:
        connection.answer_s = answer_s
        if places:
            _answered[url.libpq] = (connection.info.host, str(connection.info.port))
        # A service file or the environment may have named another host, or another mode.
        found = connection.info.get_parameters()
        check_verified([connection.info.host or ""], found.get("sslmode", "prefer"))
        version = connection.info.server_version
        # At one go: a master that takes over makes several connections, and each question takes its time.
        connection.execute("; ".join((*settings, *(statement for since, statement in _SINCE if version >= since))))
    except BaseException:
        connection.close()
        raise
    return connection


def _last_first(url: StoreUrl) -> dict[str, str]:
    """Libpq's `host`, and `port` where the address names several, of an address with several servers: the one that was
    connected to last comes first, for one that is dead takes CONNECT_S each time, and a master that takes over makes
    several connections. Else empty.

    A port that is the same for all of them is left to libpq: the environment or a service file may name it.
    """
    named = driver().conninfo.conninfo_to_dict(url.libpq)
    hosts = str(named.get("host") or "").split(",")
    ports = str(named.get("port") or "").split(",")
    if len(hosts) == 1 or len(ports) not in (1, len(hosts)):
        return {}
    if not named.get("port") and "," in os.environ.get("PGPORT", ""):
        return {}  # one for each host, in the order of the address
    host, port = _answered.get(url.libpq, ("", ""))
    if len(ports) == 1:
        return {"host": ",".join(sorted(hosts, key=lambda each: each != host))}
    places = sorted(
        zip(hosts, ports, strict=True), key=lambda place: (place[0], place[1] or _DEFAULT_PORT) != (host, port)
    )
    return {"host": ",".join(each for each, _ in places), "port": ",".join(each for _, each in places)}


def read_password(path: str) -> str:
    """The first line of a file that is its user's, or root's, alone. Raises BadRequest."""
    return read_secret(path, "the password of the store", "the store's password")


def reader_engine(url: StoreUrl, answer_s: float | None = QUERY_ANSWER_S) -> Engine:
    """Connections that cannot write. For any thread; one that the server has closed is replaced before it is used.

    `answer_s`: see `connect`. Raises BadRequest where the driver is missing; it connects to nothing yet.
    """
    driver()
    return create_engine(
        "postgresql+psycopg://",
        creator=partial(connect, url, "reader", _READ_ONLY, answer_s),
        poolclass=QueuePool,
        pool_size=_READERS,
        max_overflow=-1,
        pool_pre_ping=True,
        isolation_level="AUTOCOMMIT",
        paramstyle="format",
        use_native_hstore=False,
    )


def writer_engine(url: StoreUrl, answer_s: float | None = None) -> Engine:
    """Connections that write, each made when it is asked for; whoever asks keeps it. Raises as `reader_engine`."""
    driver()

    def writing() -> DriverConnection[Any]:
        connection = connect(url, "master", answer_s=answer_s)
        connection.autocommit = False
        return connection

    return create_engine(
        "postgresql+psycopg://", creator=writing, poolclass=NullPool, paramstyle="format", use_native_hstore=False
    )
