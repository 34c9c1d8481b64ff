"""`gsched web` of one user: makes the application, listens, says where, and serves until it is told to end.

Whoever reaches it with the printed token is the user of this process. That of a shared cluster is `gsched.web.front`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from gsched.base.errors import BadRequest, Conflict
from gsched.cli.session.call import own_umask
from gsched.cli.session.time_zone import zone_of
from gsched.web.access.sessions import WebSessions
from gsched.web.application import new_application
from gsched.web.mirror.change_hub import ChangeHub
from gsched.web.mirror.cluster_mirror import ClusterMirror
from gsched.web.pages.asset_files import AssetFiles
from gsched.web.pages.page_context import WebContext, new_templates
from gsched.wire.address import MAX_SOCKET_PATH, is_shared
from gsched.wire.calls.client import Client
from gsched.wire.calls.door_relay import WEB
from gsched.wire.calls.transports import way_to_master
from gsched.wire.identity.caller_identity import user_name
from gsched.wire.web_address import published_web

LOOPBACK = "127.0.0.1"
MASTER_WAIT_S = 5.0
"""How long a page waits for a master that does not answer."""
MOST_CONNECTIONS = 512
MOST_MESSAGE = 32 << 20
"""Bytes of a websocket's message from a browser, for a job's service."""
NICENESS = 5
"""It gets a third of what others get of a processor that both want."""
END_S = 3.0
"""How long answers may take when the server ends."""

TellUser = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """What was asked for. `port` 0: any that is free; None: none, where `socket` names one."""

    conf_dir: str
    port: int | None = 0
    socket: str = ""
    print_url: bool = False
    is_read_only: bool = False


def run(options: WebOptions, say: TellUser) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code. Raises GschedError."""
    step_back()
    with contextlib.ExitStack() as stack:
        sockets = list(_listen(options, stack))
        context = stack.enter_context(
            open_pages(options, may_leave=not options.is_read_only, has_services=not options.is_read_only)
        )
        sessions = WebSessions()
        told = _Told(options, sessions, sockets, say, stack)
        if told.place and not options.is_read_only and not is_shared(options.conf_dir):
            stack.enter_context(published_web(options.conf_dir, told.place))
        application = new_application(context, sessions, f"gsched_{secrets.token_hex(4)}", told.again)
        WebServer(application, context.hub, told.first).run(sockets)
    return 0


def step_back() -> None:
    """Let the master go first where there are few processors: many open pages are much work whenever something happens,
    and each job waits for the master.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


@contextlib.contextmanager
def open_pages(options: WebOptions, *, may_leave: bool, has_services: bool = False) -> Iterator[WebContext]:
    """What pages have at hand, kept up as long as the block runs. Raises GschedError when the master does not answer.

    `may_leave`: there is a session that the browser can end; `has_services`: jobs' services are reached by it.
    """
    hub = ChangeHub()
    mirror = ClusterMirror(lambda: _client(options.conf_dir), hub)
    with contextlib.ExitStack() as stack:
        stack.callback(mirror.stop)
        mirror.start()
        client = stack.enter_context(_client(options.conf_dir))
        services = _service_client(options.conf_dir, stack) if has_services else None
        yield new_context(client, mirror, hub, options, may_leave=may_leave, services=services)


def new_context(
    client: Client,
    mirror: ClusterMirror,
    hub: ChangeHub,
    options: WebOptions,
    *,
    may_leave: bool,
    services: Client | None,
) -> WebContext:
    """The context of these parts."""
    assets, zone = AssetFiles(), zone_of(os.environ)
    return WebContext(
        client=client,
        mirror=mirror,
        hub=hub,
        assets=assets,
        me=user_name(os.getuid()),
        conf_dir=options.conf_dir,
        umask=own_umask(),
        zone=zone,
        is_read_only=options.is_read_only,
        may_leave=may_leave,
        services=services,
        templates=new_templates(assets, zone),
    )


def _client(conf_dir: str) -> Client:
    way = way_to_master(conf_dir)
    # Without a channel of ours it makes one, and closes it; the relay of a shared cluster keeps none open.
    channel = way.channel(WEB) if way.make != "plain" else None
    return Client(way.address, wait_s=MASTER_WAIT_S, channel=channel)


def _service_client(conf_dir: str, stack: contextlib.ExitStack) -> Client:
    """One of its own for jobs' services: by munge the master takes so many calls on a connection, and what is open to
    services must leave pages theirs.
    """
    way = way_to_master(conf_dir)
    channel = way.channel(WEB, is_own=True)
    stack.callback(channel.close)
    return Client(way.address, wait_s=MASTER_WAIT_S, channel=channel)


def _listen(options: WebOptions, stack: contextlib.ExitStack) -> Iterator[socket.socket]:
    if options.port is not None:
        listening = stack.enter_context(new_tcp_socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, options.port))
        except OSError as error:
            raise Conflict(f"{LOOPBACK}:{options.port}: {error.strerror}") from None
        yield listening
    if options.socket:
        path = os.path.abspath(options.socket)
        listening = stack.enter_context(_on_path(path))
        stack.callback(_remove, path, os.stat(path).st_ino)
        yield listening


def new_tcp_socket() -> socket.socket:
    """A socket to listen on. With its protocol named asyncio sends what is written at once (TCP_NODELAY); else the body
    of an answer waits for 40 ms on a connection that is used again.
    """
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)


def _on_path(path: str) -> socket.socket:
    """A socket there that its owner alone can reach. Raises Conflict, BadRequest."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise BadRequest(f"--socket {path}: the path of a socket has {MAX_SOCKET_PATH} bytes at most")
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
    except OSError as error:
        listening.close()
        raise Conflict(f"--socket {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    return listening


def _clear(path: str) -> None:
    """Remove a socket at which nobody listens any more. Raises Conflict for one that is in use, or no socket."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise Conflict(f"--socket {path}: there is something that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
            return
        except OSError as error:
            raise Conflict(f"--socket {path}: {error.strerror}") from None
    raise Conflict(f"--socket {path}: somebody listens there")


def _remove(path: str, inode: int) -> None:
    with contextlib.suppress(OSError):
        if os.lstat(path).st_ino == inode:
            os.unlink(path)


class _Told:
    """Says where the pages are: an address with a new token each time, for each opens one browser."""

    def __init__(
        self,
        options: WebOptions,
        sessions: WebSessions,
        sockets: list[socket.socket],
        say: TellUser,
        stack: contextlib.ExitStack,
    ) -> None:
        self._options = options
        self._sessions = sessions
        self._say = say
        self._stack = stack
        tcp = next((each for each in sockets if each.family == socket.AF_INET), None)
        self._port = tcp.getsockname()[1] if tcp is not None else 0

    @property
    def place(self) -> str:
        """Where a browser of this machine finds the pages; empty: by a unix socket alone."""
        return f"http://{LOOPBACK}:{self._port}" if self._port else ""

    def first(self) -> None:
        """When it listens."""
        url = self._url()
        if self._options.socket:
            self._say(f"listening on {os.path.abspath(self._options.socket)}")
        if not self._options.print_url and self._port and _has_browser() and _open(url, self._stack):
            self._say(f"the pages are open in your browser (http://{LOOPBACK}:{self._port}/); ^C ends this")
            return
        self._say(url)
        self._say("open this address in a browser; it works once. ^C ends this")

    def again(self) -> None:
        """An address was used."""
        self._say(f"a browser has come in; the address for another one: {self._url()}")

    def _url(self) -> str:
        # Through a unix socket it is what a tunnel to it listens on: `ssh -L 8080:SOCKET`.
        place = f"{LOOPBACK}:{self._port}" if self._port else "localhost:8080"
        return f"http://{place}/enter?token={self._sessions.new_token()}"


def _has_browser() -> bool:
    """Whether there is one that opens a window: a browser in the terminal would hide the address."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and sys.stdout.isatty()


def _open(url: str, stack: contextlib.ExitStack) -> bool:
    """Open it in a browser, by way of a file of this user's alone: everybody sees the words that a browser is started
    with.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gsched-web-")))
    page = folder / "open.html"
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={url}"><a href="{url}">gsched</a>\n')
    return webbrowser.open(page.as_uri())


class WebServer(uvicorn.Server):
    """Ends live streams before it waits for answers to come to their end."""

    def __init__(self, application: ASGIApp, hub: ChangeHub, on_listening: Callable[[], None]) -> None:
        self._hub = hub
        self._on_listening = on_listening
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            ws="websockets-sansio",  # for jobs' services
            ws_max_size=MOST_MESSAGE,
            ws_per_message_deflate=False,  # the browser is on this machine, or behind a tunnel that does it
            lifespan="on",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(END_S),
            h11_max_incomplete_event_size=32 * 1024,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own: it sends itself the signal again in the end, and what is to be tidied up would stay.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._hub.close()
