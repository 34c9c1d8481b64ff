"""Whether a server of PostgreSQL keeps what it acknowledges, and can be written.

It changes nothing of the server's, and of the session's only what would let a promise be taken back.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from gsched.base.errors import Conflict, Unavailable

_PROMISES = {
    "synchronous_commit": "a commit would be acknowledged too early",
    "fsync": "a crash of its machine would lose what was acknowledged",
    "full_page_writes": "a crash of its machine could damage what was acknowledged",
}
OLDEST_SERVER = 130_000
"""As server_version_num; what is older gets no corrections any more."""


def pin_promises(connection: Connection) -> None:
    """Keep synchronous_commit in this session as it was when it was checked, whatever the server's administrator
    changes meanwhile. It counts from the commit of the transaction that it is called in.
    """
    connection.execute(text("SELECT set_config(:name, current_setting(:name), false)"), {"name": "synchronous_commit"})


def check_promises(connection: Connection, name: str) -> None:
    """Raises Conflict for a server that would not keep what it acknowledges, or is not fit for a store."""

    def said(setting: str) -> str:
        return str(connection.exec_driver_sql(f"SHOW {setting}").scalar())

    if int(said("server_version_num")) < OLDEST_SERVER:
        raise Conflict(
            f"the store {name} is in PostgreSQL {said('server_version')}: 13 is the oldest that is supported"
        )
    for setting, why in _PROMISES.items():
        if said(setting) == "off":
            raise Conflict(f"the store {name} cannot be used: its server has {setting} = off, so {why}")
    if said("server_encoding") != "UTF8":
        raise Conflict(f"the store {name} cannot be used: its encoding is {said('server_encoding')}, not UTF8")
    if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
        raise Unavailable(f"the store {name} is a standby, which cannot be written")
