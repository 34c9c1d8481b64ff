"""GSCHED_WEB_* of lsf.conf: where `gsched web` of a shared cluster listens, and who its users are proven by.

It reads texts alone; files and sockets are opened by `gsched web` when it starts.
"""

from __future__ import annotations

import ipaddress
import re

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, show
from gsched.config.grammar.values import KeyValues, absolute_path, host_name, integer
from gsched.model.config import Network
from gsched.model.web_front import WebFront

LAST_PORT = 65535
GROUP = "group:"
"""Before the group of who may reach the unix socket for a proxy on the same host."""
ANY = "*."
"""Before a name below which jobs' services have theirs."""
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_RESERVED = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "connection", "content-length", "content-type", "cookie"),
        *("host", "origin", "referer", "te", "transfer-encoding", "upgrade", "user-agent"),
    )
)
"""Headers that say something else."""


def read_web_front(settings: KeyValues, findings: Findings, network: Network) -> WebFront:
    """The front; without GSCHED_WEB_PORT or a proxy's group there is none. What is wrong goes to `findings`."""
    names, domains = settings.take("GSCHED_WEB_NAMES", _names, ((), ()))
    proxies, group = settings.take("GSCHED_WEB_PROXIES", _proxies, ((), ""))
    web = WebFront(
        port=settings.take("GSCHED_WEB_PORT", integer(1, LAST_PORT), None),
        hosts=settings.take("GSCHED_WEB_HOSTS", _hosts, ()),
        certificate=settings.take("GSCHED_WEB_CERT", absolute_path, ""),
        key=settings.take("GSCHED_WEB_KEY", absolute_path, ""),
        names=names,
        service_domains=domains,
        pam_service=settings.take("GSCHED_WEB_PAM", _word, WebFront().pam_service),
        proxies=proxies,
        proxy_group=group,
        user_header=settings.take("GSCHED_WEB_USER_HEADER", _header, WebFront().user_header),
    )
    _check(web, settings, findings, network)
    return web


def _check(web: WebFront, settings: KeyValues, findings: Findings, network: Network) -> None:
    at = settings.place("GSCHED_WEB_PORT") or settings.place("GSCHED_WEB_PROXIES")
    if at is None:
        _refuse_unused(web, settings, findings)
        return
    if network.port is None:
        what = "a private cluster has one user, and `gsched web` needs no setting there (LSB_MBD_PORT is not set)"
        findings.error(at, f"GSCHED_WEB_PORT and GSCHED_WEB_PROXIES: {what}")
    if web.port is not None:
        if web.port in (network.port, network.munge_port):
            findings.error(at, f"GSCHED_WEB_PORT: the master listens on port {web.port}; take another one")
        for name, file in (("GSCHED_WEB_CERT", web.certificate), ("GSCHED_WEB_KEY", web.key)):
            if not file:
                findings.error(at, f"GSCHED_WEB_PORT: passwords and sessions travel by TLS alone: {name} is not set")
    if web.proxies and web.port is None:
        findings.error(at, "GSCHED_WEB_PROXIES: a proxy on another host reaches GSCHED_WEB_PORT, which is not set")
    _refuse_unused(web, settings, findings)


def _refuse_unused(web: WebFront, settings: KeyValues, findings: Findings) -> None:
    unused = {
        "GSCHED_WEB_USER_HEADER": not web.is_behind_proxy and "is what a proxy of GSCHED_WEB_PROXIES says",
        "GSCHED_WEB_PAM": web.is_behind_proxy and "is for passwords: with GSCHED_WEB_PROXIES a proxy proves users",
        "GSCHED_WEB_HOSTS": not web.is_on and "is where GSCHED_WEB_PORT is listened on, which is not set",
        "GSCHED_WEB_NAMES": not web.is_on and "are names for GSCHED_WEB_PORT, which is not set",
    }
    for name, why in unused.items():
        if why and (place := settings.place(name)) is not None:
            findings.error(place, f"{name} {why}")


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host_name(word) for word in text.split()))


def _names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the pages, and those below which services have names. Raises BadRequest."""
    words = dict.fromkeys(text.lower().split())
    domains = tuple(host_name(word.removeprefix(ANY)) for word in words if word.startswith(ANY))
    return tuple(host_name(word) for word in words if not word.startswith(ANY)), domains


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise BadRequest(f"'{show(text)}' cannot be the name of a service of PAM")
    return text


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text) or text.casefold() in _RESERVED or text.casefold().startswith("gsched-"):
        raise BadRequest(f"'{show(text)}' cannot be a header that names a user")
    return text.casefold()


def _proxies(text: str) -> tuple[tuple[str, ...], str]:
    """Addresses, and the group of a socket. Raises BadRequest."""
    addresses, groups = list[str](), list[str]()
    for word in text.split():
        if word.startswith(GROUP) and _WORD.fullmatch(word.removeprefix(GROUP)):
            groups.append(word.removeprefix(GROUP))
        else:
            addresses.append(_address(word))
    if len(groups) > 1:
        raise BadRequest(f"'{show(text)}': there is one socket, for one group")
    return tuple(dict.fromkeys(addresses)), "".join(groups)


def _address(word: str) -> str:
    try:
        found = ipaddress.ip_address(word)
    except ValueError:
        raise BadRequest(f"'{show(word)}' is neither the address of a proxy nor group:NAME") from None
    if found.is_loopback or found.is_unspecified or found.is_multicast:
        raise BadRequest(
            f"'{show(word)}': every user of this host can connect from there; group:NAME is for a proxy on this host"
        )
    return str(found)
