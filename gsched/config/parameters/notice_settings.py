"""GSCHED_NOTIFY and GSCHED_NOTIFY_PROXY of lsf.conf: how the site lets users have notices of their jobs sent.

It reads texts alone; what users ask for is read by gsched.dialect.notify.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import KeyValues
from gsched.model.config import Params
from gsched.model.jobs.notice import WAYS


def read_ways(settings: KeyValues) -> tuple[str, ...]:
    """The ways that are open to users."""
    return settings.take("GSCHED_NOTIFY", _ways, Params().notice_ways)


def read_proxy(settings: KeyValues) -> str:
    """The URL of the proxy for webhooks; empty: there is none."""
    return settings.take("GSCHED_NOTIFY_PROXY", _proxy, "")


def _ways(text: str) -> tuple[str, ...]:
    words = text.split()
    if words == ["none"]:
        return ()
    for word in words or [""]:
        if word not in WAYS:
            raise BadRequest(f"'{show(word)}' is none of {', '.join(WAYS)}; none turns all of them off")
    return tuple(way for way in WAYS if way in words)


def _proxy(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not text.isascii() or not text.isprintable() or " " in text or not host or port is None:
        raise BadRequest(f"'{show(text)}' is not of the form http://HOST:PORT")
    if parts.scheme != "http" or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadRequest(f"'{show(text)}' is not of the form http://HOST:PORT")
    if parts.username is not None:
        raise BadRequest("a proxy that wants a password is not supported: everybody can read lsf.conf")
    return f"http://{parts.netloc}"
