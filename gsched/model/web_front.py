"""Where `gsched web` of a shared cluster listens, and who its users are proven by: GSCHED_WEB_* of lsf.conf."""

from __future__ import annotations

import msgspec

WEB_USER = "gsched-web"
"""Whom that part of it runs as that speaks with browsers: it owns nothing, and may nothing."""


class WebFront(msgspec.Struct, frozen=True, kw_only=True):
    """Where `gsched web` of a shared cluster listens, and how it finds out who asks. Read when it starts."""

    port: int | None = None
    """GSCHED_WEB_PORT, of all addresses of its host; None: it does not listen on the network."""
    hosts: tuple[str, ...] = ()
    """GSCHED_WEB_HOSTS: where it runs; empty: on the master's host."""
    certificate: str = ""
    """GSCHED_WEB_CERT: the file that browsers are shown, with the chain."""
    key: str = ""
    """GSCHED_WEB_KEY: its key, for root alone."""
    names: tuple[str, ...] = ()
    """GSCHED_WEB_NAMES: what browsers call it; empty: its host."""
    service_domains: tuple[str, ...] = ()
    """`*.NAME` in GSCHED_WEB_NAMES: below these names jobs' services have theirs; empty: they are not reached."""
    pam_service: str = "login"
    """GSCHED_WEB_PAM: the service of PAM by which a password is checked."""
    proxies: tuple[str, ...] = ()
    """GSCHED_WEB_PROXIES: addresses of the reverse proxies whose word on the user counts; nobody else is served."""
    proxy_group: str = ""
    """`group:NAME` in GSCHED_WEB_PROXIES: who may reach the unix socket for a proxy on the same host."""
    user_header: str = "remote-user"
    """GSCHED_WEB_USER_HEADER: the header in which a proxy names the user, in lower case."""

    @property
    def is_on(self) -> bool:
        return self.port is not None or bool(self.proxy_group)

    @property
    def is_behind_proxy(self) -> bool:
        """Whether users are proven by a proxy, and not by a password."""
        return bool(self.proxies or self.proxy_group)
