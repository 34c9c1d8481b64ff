"""The address of a store in PostgreSQL, as GSCHED_STORE and `gadmin store-copy` have it. It opens nothing.

An address holds no password: it is read by whoever reads lsf.conf, and by `ps`. No refusal repeats the address.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from gsched.base.errors import BadRequest

SCHEMES = ("postgresql", "postgres")
PASSWORD_FILE = "password_file"
"""gsched's own option of an address; all others are libpq's."""
_OPTIONS = frozenset(
    (
        *("host", "port", "user", "dbname", "service", "passfile", "target_session_attrs"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding", "gssencmode", "krbsrvname"),
        PASSWORD_FILE,
    )
)
_VERIFYING = ("verify-full", "verify-ca")
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


class StoreUrl(msgspec.Struct, frozen=True):
    """An address that has been checked."""

    text: str
    """All of it, as another process may be given it."""
    name: str
    """As people are told of it: who, where and which database."""
    libpq: str
    """What libpq takes, without gsched's own options."""
    password_file: str
    """Absolute path; empty: libpq finds the password itself (~/.pgpass, a service file), or needs none."""
    sslmode: str
    """What is to be asked for where the address names no sslmode; empty: libpq's own way."""


def is_store_url(text: str) -> bool:
    """Whether it is an address of this kind."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def parse_store_url(text: str, password_file: str = "") -> StoreUrl:
    """Read an address; `password_file` counts where the address names none. Raises BadRequest."""
    try:
        parts = urlsplit(text)
        # To libpq a plus is a plus, in a form it would be a blank.
        query = parts.query.replace("+", "%2B")
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise BadRequest("the address of the store is not of the form postgresql://USER@HOST/DATABASE") from None
    if parts.scheme not in SCHEMES or parts.fragment or not text.isprintable() or " " in text:
        raise BadRequest("the address of the store is not of the form postgresql://USER@HOST/DATABASE")
    account, _, where = parts.netloc.rpartition("@")
    if ":" in account or any(name == "password" for name, _ in options):
        raise BadRequest(
            "the address of the store holds a password, which others could read: put it into a file that "
            "GSCHED_STORE_PASSWORD_FILE names"
        )
    for name, _ in options:
        if name not in _OPTIONS:
            raise BadRequest(f"the address of the store has the option '{name}', which is not supported")
    named = dict(options)
    hosts = [_host(each) for each in (named.get("host") or where).split(",")]
    sslmode = named.get("sslmode", "")
    if sslmode:
        check_verified(hosts, sslmode)
    kept = [(name, value) for name, value in options if name != PASSWORD_FILE]
    file = named.get(PASSWORD_FILE, "") or password_file
    if file and not file.startswith("/"):
        raise BadRequest("the file with the store's password is named by a path that does not begin with /")
    path = f"{SCHEMES[0]}://{parts.netloc}{parts.path}"
    return StoreUrl(
        text=_with_options(path, [*kept, *([(PASSWORD_FILE, file)] if file else [])]),
        name=_name(account or named.get("user", ""), hosts, parts.path, named),
        libpq=_with_options(path, kept),
        password_file=file,
        sslmode=_VERIFYING[0] if not sslmode and any(map(_is_remote, hosts)) else "",
    )


def check_verified(hosts: list[str], sslmode: str) -> None:
    """Raise BadRequest where one of the hosts is another machine, and nothing proves that it is the database's."""
    if sslmode not in _VERIFYING and any(map(_is_remote, hosts)):
        raise BadRequest(f"sslmode={sslmode} does not verify who the database is: take verify-full, with sslrootcert")


def _is_remote(host: str) -> bool:
    return not host.startswith("/") and host not in _LOOPBACK


def _with_options(path: str, options: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(options, safe='/', quote_via=quote)}" if options else path


def _host(text: str) -> str:
    """Of `host:port`, `[address]:port` or the folder of a socket."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return unquote(text if text.startswith("/") else text.partition(":")[0])


def _name(user: str, hosts: list[str], path: str, named: dict[str, str]) -> str:
    database = unquote(path.lstrip("/")) or named.get("dbname", "")
    if named.get("service"):
        return f"postgresql:///?service={named['service']}"
    where = ",".join(host for host in hosts if not host.startswith("/"))
    return f"postgresql://{f'{unquote(user)}@' if user else ''}{where}/{database}"
