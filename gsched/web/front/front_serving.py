"""Starts `gsched web` of a shared cluster: as root it reads the key and listens, then parts into keeper and front.

The front gives root up before it says a word to the network, and for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import pwd
import signal
import socket
import ssl
import stat
import sys
from asyncio import sslproto
from collections.abc import Iterable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from gsched.base.errors import BadRequest, Conflict, PermissionDenied, Unavailable
from gsched.base.machine.open_files import raise_limit
from gsched.base.machine.service import ServiceManager, keep_fed
from gsched.model.config import ClusterConfig
from gsched.model.web_front import WEB_USER
from gsched.web.access.sessions import WebSessions
from gsched.web.access.tls_files import TlsFiles, new_context, use_pair
from gsched.web.access.web_place import WebPlace
from gsched.web.front.careful_protocol import CarefulProtocol
from gsched.web.front.connection_shares import ConnectionShares, CountedListener
from gsched.web.front.keeper import Keeper, KeeperSettings
from gsched.web.front.keeper_link import KeeperLink
from gsched.web.front.keeper_messages import KeeperTask
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.front.socket_carrier import SocketProtocol
from gsched.web.services.service_names import ServicePlace

if TYPE_CHECKING:
    from gsched.web.front.front_application import FrontApplication
from gsched.wire.identity.certificates import key_file

log = logging.getLogger(__name__)

PROXY_SOCKET = "proxy.sock"
USERS_FOLDER = "users"
SCHEME = "https"
BACKLOG = 512
TLS_BUFFER = 32 * 1024
"""Bytes that asyncio reads of a connection at a time, and keeps for each; its own 256 KiB would be a gigabyte for four
thousand silent ones. A record of TLS has 16 KiB.
"""
CERTIFICATE_S = 15.0
"""So often it is asked whether there is a new certificate."""
END_S = 3.0
FAILED = 1


def run(config: ClusterConfig, host: str, manager: ServiceManager, *, is_read_only: bool) -> int:
    """Serve until SIGTERM or SIGINT, or until one of the two processes ends; returns the exit code.

    Raises BadRequest, Conflict, PermissionDenied, BadCertificate.
    """
    account = _check(config, host)
    names = tuple(name.lower() for name in config.web.names or (host, socket.getfqdn(host)))
    domains = tuple(name.lower() for name in config.web.service_domains)
    raise_limit()
    with contextlib.ExitStack() as stack:
        files, context = _tls_files(config), None
        if files is not None:
            context = new_context()
            files.load(context)
        sockets = list(_listen(config, stack))
        folder = users_folder(config.folder_of("web"), account.pw_gid)
        front_side, keeper_side = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        front = os.fork()
        if front == 0:
            keeper_side.close()
            os._exit(_be_front(config, account, names, domains, front_side, sockets, context))
        front_side.close()
        for each in sockets:
            each.close()
        settings = KeeperSettings(
            conf_dir=config.locations.conf_dir,
            folder=folder,
            front_uid=account.pw_uid,
            system_users=config.system_users,
            keys=tuple(str(key_file(config.network.tls_dir, each)) for each in config.hosts),
            pam_service="" if config.web.is_behind_proxy else config.web.pam_service,
            names=names,
            scheme=SCHEME,
            is_read_only=is_read_only,
            may_leave=not config.web.is_behind_proxy,
            service_domains=domains,
        )
        where = f"open on port {config.web.port}" if config.web.port is not None else f"open for {_proxy_path(config)}"
        return asyncio.run(_keep(settings, keeper_side, front, manager, where, files))


def _check(config: ClusterConfig, host: str) -> pwd.struct_passwd:
    """Whom the front runs as. Raises BadRequest, PermissionDenied."""
    if os.geteuid() != 0:
        raise PermissionDenied(
            "gsched web of a shared cluster is a service that root starts (gsched-web.service): "
            "it has a process of each user's own"
        )
    if not config.web.is_on:
        raise BadRequest(
            "GSCHED_WEB_PORT of lsf.conf is not set: in a shared cluster it says where gsched web listens (docs/web.md)"
        )
    if host not in config.web_hosts:
        hosts = " ".join(config.web_hosts)
        raise BadRequest(f"this host is {host}, and gsched web runs on {hosts} (GSCHED_WEB_HOSTS)")
    try:
        account = pwd.getpwnam(WEB_USER)
    except KeyError:
        raise BadRequest(f"there is no user {WEB_USER}: gadmin install-units makes it") from None
    if account.pw_uid == 0:
        raise BadRequest(f"the user {WEB_USER} must not be root")
    check_proxies(config.web.proxies)
    return account


def check_proxies(addresses: Iterable[str]) -> None:
    """Raise BadRequest for one of this host's: every user here can connect from it."""
    for address in addresses:
        if _is_here(address):
            raise BadRequest(
                f"GSCHED_WEB_PROXIES: {address} is an address of this host, from which each of its users can connect; "
                "group:NAME is for a proxy on this host"
            )


def _is_here(address: str) -> bool:
    """Whether a socket of this host can have that address."""
    family = socket.AF_INET
    places: list[tuple[str, int] | tuple[str, int, int, int]] = [(address, 0)]
    if ":" in address:
        # An address of the link's alone is one of an interface.
        interfaces = (0, *(number for number, _ in socket.if_nameindex()))
        family, places = socket.AF_INET6, [(address.partition("%")[0], 0, 0, number) for number in interfaces]
    for place in places:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind(place)
            return True
    return False


def _tls_files(config: ClusterConfig) -> TlsFiles | None:
    """Of the port."""
    web = config.web
    return None if web.port is None else TlsFiles(web.certificate, web.key)


def _listen(config: ClusterConfig, stack: contextlib.ExitStack) -> Iterator[socket.socket]:
    """The port, with TLS, and the socket of a proxy on this host, without. Raises Conflict."""
    web = config.web
    if web.port is not None:
        # The protocol named, so that asyncio sends at once (see serving.new_tcp_socket).
        listening = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            listening.bind(("::", web.port))
        except OSError as error:
            raise Conflict(f"GSCHED_WEB_PORT {web.port}: {error.strerror}") from None
        yield listening
    if web.proxy_group:
        yield _for_proxy(config, stack)


def _for_proxy(config: ClusterConfig, stack: contextlib.ExitStack) -> socket.socket:
    path, group = _proxy_path(config), config.web.proxy_group
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise BadRequest(f"GSCHED_WEB_PROXIES: there is no group {group} on this host") from None
    if os.path.lexists(path):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise Conflict(f"{path}: there is something that is no socket")
        os.unlink(path)  # of one that has ended: this one holds the lock
    listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    before = os.umask(0o177)
    try:
        listening.bind(path)
    finally:
        os.umask(before)
    os.chown(path, 0, gid)
    os.chmod(path, 0o660)
    return listening


def _proxy_path(config: ClusterConfig) -> str:
    return f"{config.folder_of('web')}/{PROXY_SOCKET}"


def users_folder(parent: str, gid: int) -> str:
    """Where users' processes listen: the front alone may enter it, and change nothing, for root uses paths in it."""
    folder = f"{parent}/{USERS_FOLDER}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    os.chown(folder, 0, gid)
    os.chmod(folder, 0o710)
    return folder


# -- the keeper -------------------------------------------------------------------------------------------------------


async def _keep(
    settings: KeeperSettings,
    channel: socket.socket,
    front: int,
    manager: ServiceManager,
    where: str,
    files: TlsFiles | None,
) -> int:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    def ready() -> None:
        log.info(where)
        manager.ready(where)

    keeper = Keeper(settings, ready, files)
    serving = asyncio.create_task(keeper.serve(channel))
    feeding = asyncio.create_task(keep_fed(manager, lambda: not serving.done() and keeper.hears_front))
    ending = asyncio.create_task(told.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    manager.stopping()
    if not serving.done():
        os.kill(front, signal.SIGTERM)
        await asyncio.wait({serving}, timeout=END_S + 2)
        serving.cancel()
    feeding.cancel()
    await asyncio.gather(serving, feeding, ending if told.is_set() else feeding, return_exceptions=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(front, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, front, 0)
    if not told.is_set():
        log.error("the front has ended")
        return FAILED
    return 0


# -- the front --------------------------------------------------------------------------------------------------------


def _be_front(
    config: ClusterConfig,
    account: pwd.struct_passwd,
    names: tuple[str, ...],
    domains: tuple[str, ...],
    channel: socket.socket,
    sockets: list[socket.socket],
    context: ssl.SSLContext | None,
) -> int:
    """All that the other process does; returns its exit code."""
    # They bring gRPC, which must not be in the process that forks (tests/unit/run/test_run_forks.py).
    from gsched.web.front import front_application, front_pages

    try:
        give_up_root(account)
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        web = config.web
        link = KeeperLink(lambda: server.handle_exit(signal.SIGTERM, None))
        application = front_application.FrontApplication(
            link,
            WebSessions(),
            ProxiedUser(web.user_header, web.proxies, has_socket=bool(web.proxy_group)),
            WebPlace(frozenset(names), SCHEME),
            front_pages.FrontPages(config.cluster),
            LoginLimits(),
            ServicePlace(SCHEME, domains),
        )
        shares = ConnectionShares(frozenset(web.proxies))
        server = FrontServer(application, link, channel, context)
        server.run([CountedListener.of(each, shares) for each in sockets])
    except BaseException:
        log.exception("the front ends")
        return FAILED
    return 0


def give_up_root(account: pwd.struct_passwd) -> None:
    """Become that account, with no group but its own, and no way back. Raises OSError, PermissionDenied."""
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    os.chdir("/")
    with contextlib.suppress(PermissionError):
        os.setuid(0)
        raise PermissionDenied("root could not be given up")


class FrontServer(uvicorn.Server):
    """Serves each socket, that of the port by TLS."""

    def __init__(
        self, application: FrontApplication, link: KeeperLink, channel: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        self._link, self._channel, self._context = link, channel, context
        self._following: asyncio.Task[None] | None = None
        config = uvicorn.Config(
            application,
            http=CarefulProtocol,
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws=partial(SocketProtocol, application),  # type: ignore[arg-type]  # what it is called with
            lifespan="off",
            backlog=BACKLOG,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(END_S),
            h11_max_incomplete_event_size=32 * 1024,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so to the keeper."""
        await self._link.open(self._channel)
        servers = []
        for each in sockets or []:
            self.config.ssl = self._context if each.family == socket.AF_INET6 else None
            await super().startup([each])
            servers += self.servers
        self.servers = servers
        await self._link.ask(KeeperTask.READY)
        self._following = asyncio.create_task(self._follow_certificate(self._context))

    async def _follow_certificate(self, context: ssl.SSLContext | None) -> None:
        """Take a new one; connections that are open keep theirs, and sessions go on. Without a port there is none, but
        the keeper hears that the front is alive.
        """
        while True:
            await asyncio.sleep(CERTIFICATE_S)
            with contextlib.suppress(Unavailable, PermissionDenied):
                answer = await self._link.ask(KeeperTask.CERTIFICATE)
                if answer.certificate and context is not None:
                    use_pair(context, answer.certificate, answer.key)
                    log.info("the certificate is a new one")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Not uvicorn's own, which sends itself the signal again in the end."""
        self.force_exit = self.should_exit
        self.should_exit = True
