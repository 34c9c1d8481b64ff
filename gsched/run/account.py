"""The account of a job's user on its execution host, and how a root agent acts and becomes under it.

Two ways, for two kinds of work. `acting_as` lends this thread the user's rights over files, for as long as a block
lasts: a name that a user has chosen is opened with that user's rights or not at all. `become` gives root up for good,
in a freshly forked process that has nothing left to do but to execute what the user wants.

In Linux the rights over files, supplementary groups and capabilities belong to a thread (credentials(7), setfsuid(2));
the C library's setgroups() would change those of all threads, so the kernel is called directly.

Runs in the fork server's bare interpreter too: standard library only. Never goes on when rights could not be given
back, or given up, as they should be.
"""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import sys

FIRST_PERSON = 1000
"""User numbers below are root's and those of services. Source: login.defs(5), UID_MIN."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

_GENERIC = {"setgroups": 159, "setfsuid": 151, "setfsgid": 152, "capget": 90, "capset": 91, "keyctl": 219}
_NUMBERS = {
    "x86_64": {"setgroups": 116, "setfsuid": 122, "setfsgid": 123, "capget": 125, "capset": 126, "keyctl": 250},
    "ppc64le": {"setgroups": 81, "setfsuid": 138, "setfsgid": 139, "capget": 183, "capset": 184, "keyctl": 271},
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
}
"""Numbers of system calls by machine (asm/unistd.h)."""
_CAPABILITY_VERSION = 0x20080522
"""_LINUX_CAPABILITY_VERSION_3 (capget(2)): two words of 32 bits for each set."""
_JOIN_SESSION_KEYRING = 1
_NO_CHANGE = 0xFFFFFFFF
"""What setfsuid(2) and setfsgid(2) take for no user: they then only tell which it is."""


class UnixAccount:
    """A user as the execution host knows it. `groups` are all that the user is in, the first one among them."""

    __slots__ = ("gid", "group", "groups", "home", "name", "shell", "uid")

    def __init__(
        self,
        *,
        name: str,
        uid: int,
        gid: int,
        group: str = "",
        groups: tuple[int, ...] = (),
        home: str = "/",
        shell: str = "/bin/sh",
    ) -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.group = group
        """Name of the first group; its number where it has none."""
        self.groups = tuple(groups) or (gid,)
        self.home = home
        self.shell = shell

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> UnixAccount:
        """From what `fields` gave. Raises TypeError and LookupError for anything else."""
        return cls(**{**fields, "groups": tuple(fields["groups"])})

    def fields(self) -> dict[str, object]:
        """As it is written down in an order."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnixAccount) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((self.name, self.uid))

    def __repr__(self) -> str:
        return f"Account({', '.join(f'{name}={value!r}' for name, value in self.fields().items())})"


def look_up(name: str) -> UnixAccount:
    """The account of that name on this host. Raises LookupError when there is none.

    Asks the host's directory of users, which may be far away: it may block.
    """
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError) as error:  # ValueError: a name with a NUL byte
        raise LookupError(f"there is no user {name}") from error
    try:
        group = grp.getgrgid(found.pw_gid).gr_name
    except KeyError:
        group = str(found.pw_gid)
    return UnixAccount(
        name=found.pw_name,
        uid=found.pw_uid,
        gid=found.pw_gid,
        group=group,
        groups=tuple(os.getgrouplist(found.pw_name, found.pw_gid)),
        home=found.pw_dir or "/",
        shell=found.pw_shell or "/bin/sh",
    )


class _Calls:
    """The system calls that the C library has no function for, or one that does too much."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._numbers = _NUMBERS.get(os.uname().machine)

    def __call__(self, name: str, *arguments: object) -> int:
        """Raises OSError."""
        if self._numbers is None:
            raise OSError(f"how {name} is called on {os.uname().machine} is not known")
        result = self._libc.syscall(self._numbers[name], *arguments)
        if result == -1:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
        return int(result)

    def set_groups(self, groups: tuple[int, ...]) -> None:
        self("setgroups", ctypes.c_size_t(len(groups)), (ctypes.c_uint32 * len(groups))(*groups))

    def set_files_user(self, uid: int) -> int:
        """The one before. No error is ever told: look whether it took."""
        return self("setfsuid", ctypes.c_uint32(uid)) & _NO_CHANGE

    def set_files_group(self, gid: int) -> int:
        return self("setfsgid", ctypes.c_uint32(gid)) & _NO_CHANGE

    def capabilities(self) -> list[int]:
        """(effective, permitted, inheritable), low words, then high ones."""
        sets = (ctypes.c_uint32 * 6)()
        self("capget", (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), sets)
        return list(sets)

    def leave_keyring(self) -> None:
        """Have a session keyring of its own, in place of one that the agent shares with who started it (keyctl(2))."""
        try:
            self("keyctl", ctypes.c_int(_JOIN_SESSION_KEYRING), None)
        except OSError:  # a kernel, or a container, without keyrings
            pass

    def set_capabilities(self, sets: list[int]) -> None:
        self("capset", (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)(*sets))


_calls = _Calls()


class _Acting:
    """See `acting_as`."""

    __slots__ = ("_account", "_capabilities", "_gid", "_groups", "_uid")

    def __init__(self, account: UnixAccount | None) -> None:
        self._account = account

    def __enter__(self) -> None:
        account = self._account
        if account is None:
            return
        self._capabilities = _calls.capabilities()
        self._groups = tuple(os.getgroups())
        self._uid, self._gid = _calls.set_files_user(_NO_CHANGE), _calls.set_files_group(_NO_CHANGE)
        try:
            _calls.set_groups(account.groups)
            _calls.set_files_group(account.gid)
            _calls.set_files_user(account.uid)
            if account.uid:
                # Those over files are gone with the user; the others reach files as well, by way of /proc and quotas.
                low_effective, high_effective = 0, 3
                held = list(self._capabilities)
                held[low_effective] = held[high_effective] = 0
                _calls.set_capabilities(held)
            if not self._is(account.uid, account.gid):
                raise PermissionError(f"this process may not act as user {account.name}")
        except BaseException:
            self._restore()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._account is not None:
            self._restore()

    def _is(self, uid: int, gid: int) -> bool:
        return (_calls.set_files_user(_NO_CHANGE), _calls.set_files_group(_NO_CHANGE)) == (uid, gid)

    def _restore(self) -> None:
        try:
            _calls.set_capabilities(self._capabilities)
            _calls.set_files_user(self._uid)
            _calls.set_files_group(self._gid)
            _calls.set_groups(self._groups)
            if not self._is(self._uid, self._gid):
                raise PermissionError("the rights over files have not come back")
        except BaseException as error:  # in whose name would it go on?
            sys.stderr.write(f"gsched: process {os.getpid()} has another user's rights and ends: {error}\n")
            os._exit(70)


def acting_as(account: UnixAccount | None) -> _Acting:
    """In the block this thread has the user's rights over files, and no capabilities; of None it does nothing.

    Of one thread alone: no coroutine may wait in it. Signals and limits stay those of the process. Raises OSError.
    """
    return _Acting(account)


def give_capabilities_up() -> None:
    """For good: root's files and processes are left to this thread, and to those that it makes. Raises OSError.

    Who has none does not ask: below systemd's filter of system calls it would be refused.
    """
    if any(_calls.capabilities()):
        _calls.set_capabilities([0] * 6)


def become(account: UnixAccount) -> None:
    """Be this user, for good. Raises OSError when that was not wholly so: then nothing must be executed.

    Only for a process that was just forked and has one thread. Whatever limits only root may raise must be set before.
    """
    _calls.leave_keyring()
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    users, groups = {*os.getresuid()}, {*os.getresgid()}
    if users != {account.uid} or groups != {account.gid} or {*os.getgroups()} != {*account.groups}:
        raise PermissionError(f"this process has not become user {account.name}")
    if account.uid == 0:
        return
    effective_and_permitted = (0, 1, 3, 4)
    held = _calls.capabilities()
    if any(held[place] for place in effective_and_permitted):
        raise PermissionError(f"this process keeps rights of root as user {account.name}")
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return
    os._exit(70)
