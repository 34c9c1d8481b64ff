"""The keeper: root, and it hears the front alone. It has passwords checked and keeps a process for each user.

It believes the front as little as it can: a user has a process only after PAM has taken the user's password here, and
as long as PAM says that the account may log in, or, behind a proxy, when it is an ordinary account; root and accounts
of the system never have one. It reads nothing from the network, and nothing that a user's process says but one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import msgspec

from gsched.base.errors import GschedError, PermissionDenied, Unavailable
from gsched.web.access.tls_files import TlsFiles
from gsched.web.front.keeper_messages import (
    MOST_BYTES,
    PAM_IS_UNSURE,
    PAM_SAYS_NO,
    PAM_SAYS_YES,
    READY,
    KeeperAnswer,
    KeeperQuestion,
    KeeperTask,
    UserProcessWords,
    line_of,
)
from gsched.web.front.web_accounts import NOT_HERE, WebAccount, find_account
from gsched.wire.identity.certificates import BadCertificate

log = logging.getLogger(__name__)

PAM_S = 30.0
"""How long PAM may take; a module that asks a far directory may need some seconds."""
MOST_AT_PAM = 4
MOST_WAITING = 32
"""For PAM, to log in."""
SILENT_S = 60.0
"""A front that has said nothing for so long hangs: it asks for a new certificate much oftener."""
CHECKED_S = 300.0
"""For so long what PAM has said of an account counts, while its process runs."""
START_S = 30.0
END_S = 5.0
MOST_USERS = 256
"""With a process at a time."""
MOST_SAID = 2_000
PATH = "/usr/local/bin:/usr/bin:/bin"
REFUSED = "user or password is wrong"
BUSY = "so many people log in that this must be tried again"
NOT_IN = "log in first"
UNKNOWN = "the host cannot tell now whether this account may log in: try again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSettings:
    """`folder`: where users' sockets are, the front's alone (`front_uid`)."""

    conf_dir: str
    folder: str
    front_uid: int
    system_users: tuple[str, ...]
    keys: tuple[str, ...]
    """Files that no account with pages may read."""
    pam_service: str
    """Empty: a proxy proves users."""
    names: tuple[str, ...]
    scheme: str
    is_read_only: bool
    may_leave: bool
    service_domains: tuple[str, ...] = ()


@dataclass(slots=True)
class _Kept:
    """A user's process. `account`: what it was started with; `line`: what it says when it is ready, and what ends it
    when it is closed.
    """

    account: WebAccount
    process: asyncio.subprocess.Process
    path: str
    line: socket.socket
    reaped: asyncio.Task[None] | None = None


class Keeper:
    """Serves the front until its channel is closed. `on_ready` is called when the front listens; `monotonic` is a clock
    in seconds.
    """

    def __init__(
        self,
        settings: KeeperSettings,
        on_ready: Callable[[], object],
        files: TlsFiles | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._files = files
        self._monotonic = monotonic
        self._let_in: dict[str, float] = {}
        """Who has shown a password -> when PAM has last said that the account may log in."""
        self._checking: dict[str, asyncio.Task[None]] = {}
        self._starting: dict[str, asyncio.Task[_Kept]] = {}
        self._kept: dict[str, _Kept] = {}
        self._pam = asyncio.Semaphore(MOST_AT_PAM)
        self._waiting = 0
        self._checks = asyncio.Semaphore(MOST_AT_PAM)
        """Of their own: whoever guesses passwords makes nobody wait who is in."""
        self._heard_at = monotonic()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, channel: socket.socket) -> None:
        """Answer the front. Ends when it is gone, or says what it should not; users' processes end then as well."""
        reader, writer = await asyncio.open_unix_connection(sock=channel, limit=MOST_BYTES)
        try:
            self._heard_at = self._monotonic()
            while line := await reader.readline():
                self._heard_at = self._monotonic()
                question = msgspec.json.decode(line, type=KeeperQuestion)
                task = asyncio.create_task(self._answer(question, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, ValueError):
            log.error("the front says what it should not: it is ended")
        finally:
            writer.close()
            await self.close()

    @property
    def hears_front(self) -> bool:
        """Whether the front has said something lately."""
        return self._monotonic() - self._heard_at <= SILENT_S

    async def close(self) -> None:
        """End all users' processes."""
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*(self._end(user) for user in list(self._kept)), return_exceptions=True)

    async def _answer(self, question: KeeperQuestion, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answered(question)
        except GschedError as error:
            for_now = isinstance(error, Unavailable)
            answer = KeeperAnswer(number=question.number, why=error.text, is_for_now=for_now)
        except OSError as error:
            log.error("%s of %s: %s", question.task, question.user, error)
            why = "the host cannot do it now: the service's log says why"
            answer = KeeperAnswer(number=question.number, why=why, is_for_now=True)
        with contextlib.suppress(OSError):
            writer.write(line_of(answer))
            await writer.drain()

    async def _answered(self, question: KeeperQuestion) -> KeeperAnswer:
        number = question.number
        match question.task:
            case KeeperTask.READY:
                self._on_ready()
                return KeeperAnswer(number=number)
            case KeeperTask.PROVE:
                return KeeperAnswer(number=number, user=await self._prove(question))
            case KeeperTask.PROCESS:
                try:
                    account = await self._account(question)
                except PermissionDenied:
                    await self._put_out(question.user)
                    raise
                return KeeperAnswer(number=number, user=account.name, path=(await self._process_of(account)).path)
            case KeeperTask.END:
                await self._put_out(question.user)
                return KeeperAnswer(number=number)
            case KeeperTask.CERTIFICATE:
                certificate, key = await self._new_pair()
                return KeeperAnswer(number=number, certificate=certificate, key=key)

    async def _new_pair(self) -> tuple[str, str]:
        """Certificate and key where there are new ones; what does not fit is said once."""
        if self._files is None:
            return "", ""
        try:
            return await asyncio.to_thread(self._files.changed) or ("", "")
        except BadCertificate as error:
            log.error("the certificate stays as it was: %s", error.text)
            return "", ""

    # -- who --------------------------------------------------------------------------------------------------------

    async def _account(self, question: KeeperQuestion) -> WebAccount:
        """Of a user who may have a process. Raises PermissionDenied, Unavailable."""
        account = await self._found(question.user)
        if self._settings.pam_service:
            if account.name not in self._let_in:
                raise PermissionDenied(NOT_IN)
            await self._check_again(account.name, question.address)
            if account.name not in self._let_in:  # it has left meanwhile
                raise PermissionDenied(NOT_IN)
        return account

    async def _check_again(self, user: str, address: str) -> None:
        """That the account may still log in, once for all who wait. Raises PermissionDenied, Unavailable."""
        is_running = user in self._kept or user in self._starting
        if is_running and self._monotonic() - self._let_in[user] <= CHECKED_S:
            return
        checking = self._checking.get(user)
        if checking is None:
            checking = self._checking[user] = asyncio.create_task(self._check(user, address))
            checking.add_done_callback(lambda _: self._checking.pop(user, None))
        await asyncio.shield(checking)

    async def _check(self, user: str, address: str) -> None:
        async with self._checks:
            said = await _ask_pam(self._settings.pam_service, user, _address(address))
        if said == PAM_SAYS_NO:
            raise PermissionDenied(NOT_HERE)
        if said != PAM_SAYS_YES:
            raise Unavailable(UNKNOWN)
        if user in self._let_in:
            self._let_in[user] = self._monotonic()

    async def _put_out(self, user: str) -> None:
        self._let_in.pop(user, None)
        await self._end(user)

    async def _found(self, user: str) -> WebAccount:
        try:
            return await asyncio.to_thread(find_account, user, self._settings.system_users, self._settings.keys)
        except PermissionDenied as error:
            log.warning("no pages for %s: %s", json.dumps(user), error.text)
            raise PermissionDenied(NOT_HERE) from None

    async def _prove(self, question: KeeperQuestion) -> str:
        """The user's name as the host writes it. Raises PermissionDenied, with the same words whatever is wrong."""
        service, user, password = self._settings.pam_service, question.user, question.password
        if not service or not password or "\0" in user or "\0" in password:
            raise PermissionDenied(REFUSED)
        account = None
        async with self._turn():
            with contextlib.suppress(PermissionDenied):
                account = await self._found(user)
            # Also for who has no pages, so that it takes as long; under a name that is nobody's.
            name = account.name if account is not None else NOBODYS_NAME
            said = await _ask_pam(service, name, _address(question.address), password)
        if account is None or said != PAM_SAYS_YES:
            raise PermissionDenied(REFUSED)
        self._let_in[account.name] = self._monotonic()
        return account.name

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Of who would log in. Raises Unavailable when many wait."""
        if self._waiting >= MOST_WAITING:
            raise Unavailable(BUSY)
        self._waiting += 1  # with nothing awaited between
        try:
            async with self._pam:
                yield
        finally:
            self._waiting -= 1

    # -- processes --------------------------------------------------------------------------------------------------

    async def _process_of(self, account: WebAccount) -> _Kept:
        """The user's process, which listens, with the rights that the account has now. Raises GschedError."""
        starting = self._starting.get(account.name)
        kept = await asyncio.shield(starting) if starting is not None else self._kept.get(account.name)
        if kept is not None and kept.process.returncode is None:
            if kept.account.rights == account.rights:
                return kept
            log.info("the account %s has changed: its process is started anew", account.name)
            await self._end(account.name)
        starting = self._starting.get(account.name)
        if starting is None:
            if len(self._kept) + len(self._starting) >= MOST_USERS:
                raise Unavailable(f"{MOST_USERS} people have pages open: try again later")
            starting = self._starting[account.name] = asyncio.create_task(self._start(account))
            starting.add_done_callback(lambda _: self._starting.pop(account.name, None))
        return await asyncio.shield(starting)

    async def _start(self, account: WebAccount) -> _Kept:
        path = f"{self._settings.folder}/{account.uid}.sock"
        line, its_line = socket.socketpair()
        with its_line, _listening(path, self._settings.front_uid) as listening:
            process = await _spawn(self._settings, account, listening, its_line)
        kept = self._kept[account.name] = _Kept(account, process, path, line)
        kept.reaped = asyncio.create_task(self._reap(account.name, kept))
        said = await _first_words(line)
        if said != READY:
            log.error("the process of %s has not begun: %s", account.name, json.dumps(said))
            await self._end(account.name)
            raise Unavailable(said or "the pages did not begin: the service's log says why")
        log.info("pages of %s: process %d", account.name, process.pid)
        return kept

    async def _reap(self, user: str, kept: _Kept) -> None:
        code = await kept.process.wait()
        kept.line.close()
        if self._kept.get(user) is kept:
            del self._kept[user]
            with contextlib.suppress(OSError):
                os.unlink(kept.path)
        if code:
            log.warning("the process of %s has ended with %d", user, code)

    async def _end(self, user: str) -> None:
        kept = self._kept.get(user)
        if kept is None or kept.reaped is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                kept.process.send_signal(number)
            if (await asyncio.wait([kept.reaped], timeout=END_S))[0]:
                return


NOBODYS_NAME = "gsched-nobody"


@contextlib.contextmanager
def _listening(path: str, uid: int) -> Iterator[socket.socket]:
    """A socket there that the front alone can reach; closed here in the end, whoever has it by then."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        before = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(before)
        os.chown(path, uid, -1, follow_symlinks=False)
        listening.listen(128)
        yield listening


async def _spawn(
    settings: KeeperSettings, account: WebAccount, listening: socket.socket, line: socket.socket
) -> asyncio.subprocess.Process:
    """Start the process as the user, with nothing of root's but these two descriptors."""
    words = UserProcessWords(
        conf_dir=settings.conf_dir,
        listening=listening.fileno(),
        line=line.fileno(),
        names=settings.names,
        scheme=settings.scheme,
        is_read_only=settings.is_read_only,
        may_leave=settings.may_leave,
        service_domains=settings.service_domains,
    )
    command = [sys.executable, "-I", "-X", "utf8", "-m", "gsched.web.front.user_process"]
    return await asyncio.create_subprocess_exec(
        *command,
        msgspec.json.encode(words).decode(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        cwd="/",
        env=account.environment(settings.conf_dir, f"{os.path.dirname(sys.executable)}:{PATH}"),
        pass_fds=(words.listening, words.line),
        start_new_session=True,
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        umask=0o022,
    )


async def _first_words(line: socket.socket) -> str:
    """What the process says once it listens, or cannot; empty when it says nothing in time."""
    line.setblocking(False)
    said = b""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(START_S):
            while not said.endswith(b"\n") and len(said) < MOST_SAID:
                piece = await asyncio.get_running_loop().sock_recv(line, MOST_SAID)
                if not piece:
                    break
                said += piece
    return said.decode("utf8", "replace").strip()


def _address(text: str) -> str:
    """An address that the front has named, as PAM is told it; empty for anything else."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


async def _ask_pam(service: str, user: str, address: str, password: str = "") -> int:
    """Whether PAM takes the password, or without one whether the account may log in, in a process of its own.

    Returns what a process of pam_check does.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-X", "utf8", "-m", "gsched.web.front.pam_check"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env={"PATH": PATH},
    )
    try:
        async with asyncio.timeout(PAM_S):
            _, said = await process.communicate(f"{service}\0{user}\0{address}\0{password}\0".encode())
    except TimeoutError:
        said = f"no answer within {PAM_S:g} s".encode()
        process.kill()
        await process.wait()
    if process.returncode:
        text = said.decode("utf8", "replace").strip()[-MOST_SAID:]
        log.warning("PAM (service %s) has not let in %s: %s", service, json.dumps(user), json.dumps(text))
    return PAM_IS_UNSURE if process.returncode is None else process.returncode
