"""Groups whose members a program lists: GROUP_MEMBER (!) of lsb.hosts and lsb.users, EGROUP_UPDATE_INTERVAL.

The program is LSF_SERVERDIR/egroup, run as `egroup -m GROUP` for a group of hosts and `egroup -u GROUP` for one of
users; it prints names, separated by blanks or line ends. Source: lsb.hosts(5), lsb.users(5), lsb.params(5).

Only who acts on the members runs it: the master, and gadmin ckconfig. For everybody else such a group holds one
stand-in, which is the name of no host and no user. It never hands on the environment of who runs it, and never waits
without end.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Sequence

from gsched.base.errors import BadRequest
from gsched.base.machine.root_owned import who_may_change
from gsched.config.grammar.findings import Findings, SourcePlace, show

EXTERNAL = ("!",)
"""The words of a GROUP_MEMBER that has the program list the members."""
OF_HOSTS, OF_USERS = "-m", "-u"
TIME_LIMIT_S = 10.0
TIME_OF_ALL_S = 40.0
"""For all groups of a configuration: who waits for a reconfig must be answered."""
MAX_OUTPUT = 4 << 20
_KEPT_ERRORS = 4096
_HOUR, _MINUTE = 3600.0, 60.0


class GroupProgram:
    """The egroup of one LSF_SERVERDIR, run anew for each group that is asked for."""

    def __init__(self, server_dir: str, conf_dir: str, *, only_roots: bool, limit_s: float = TIME_LIMIT_S) -> None:
        """`only_roots`: a program that others than root can change is not run."""
        self._path = os.path.join(server_dir, "egroup")
        self._environment = {
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "LSF_ENVDIR": conf_dir,
            "LSF_SERVERDIR": server_dir,
        }
        self._only_roots = only_roots
        self._limit_s = limit_s
        self._left_s = TIME_OF_ALL_S
        self.users: list[tuple[SourcePlace, tuple[str, ...]]] = []
        """What it has listed for groups of users, with where each group stands."""

    def members(self, option: str, group: str, at: SourcePlace) -> tuple[str, ...]:
        """The words that it lists. Raises BadRequest, which names the program and what is wrong."""
        began = time.monotonic()
        try:
            self._check()
            output = self._run([self._path, option, group])
        except OSError as error:
            raise BadRequest(f"{self._path}: cannot be run: {os.strerror(error.errno or 0)}") from None
        except BadRequest as error:
            raise BadRequest(f"{self._path} {option} {group}: {error.text}") from None
        finally:
            self._left_s -= time.monotonic() - began
        words = self._words(output, f"{self._path} {option} {group}")
        if option == OF_USERS:
            self.users.append((at, words))
        return words

    def _check(self) -> None:
        """Raises BadRequest or OSError where the program is not to be run."""
        status = os.stat(self._path)
        if not stat.S_ISREG(status.st_mode):
            raise BadRequest("not a regular file")
        problem = who_may_change(self._path) if self._only_roots else ""
        if problem:
            raise BadRequest(f"it is not run, for others than root can change it: {problem}")
        if self._left_s <= 0:
            raise BadRequest(f"it is not run: the groups before took more than {TIME_OF_ALL_S:g} s together")

    def _run(self, words: Sequence[str]) -> bytes:
        process = subprocess.Popen(
            words,
            cwd="/",
            env=self._environment,
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with process:
            is_over = False
            try:
                output, errors = _read(process, time.monotonic() + min(self._limit_s, self._left_s))
                is_over = True
            finally:
                if not is_over:  # with what it has started; it has not been waited for, so the number is still its own
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            said = errors.decode("utf-8", "replace").strip().partition("\n")[0]
            raise BadRequest(_how_it_ended(process.returncode) + (f": {show(said)}" if said else ""))
        return output

    @staticmethod
    def _words(output: bytes, command: str) -> tuple[str, ...]:
        try:
            words = tuple(dict.fromkeys(output.decode("utf-8").split()))
        except UnicodeDecodeError:
            raise BadRequest(f"{command}: what it lists is not UTF-8 text") from None
        if not words:
            raise BadRequest(f"{command}: it lists no member")
        wrong = next((word for word in words if "!" in word), None)
        if wrong is not None:
            raise BadRequest(f"{command}: it lists '{show(wrong)}', which is no name")
        return words


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """What it writes until it has ended. Raises BadRequest for one that goes on too long or writes too much."""
    late = BadRequest("it did not end in time, and was ended")
    assert process.stdout is not None and process.stderr is not None
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise late
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                key.data.extend(data)
            del errors[_KEPT_ERRORS:]
            if len(output) > MAX_OUTPUT:
                raise BadRequest(f"it lists more than {MAX_OUTPUT >> 20} MiB")
            if time.monotonic() > deadline:
                raise late
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late from None
    return bytes(output), bytes(errors)


def _how_it_ended(code: int) -> str:
    return f"it ended with exit code {code}" if code > 0 else f"it was ended by signal {-code}"


def listed(
    words: tuple[str, ...], program: GroupProgram | None, option: str, group: str, at: SourcePlace, findings: Findings
) -> tuple[str, ...]:
    """The words of a group's members, asked for where the file has but (!). Where that fails (which is reported), or
    there is no program to ask, it is the stand-in.
    """
    if words == EXTERNAL:
        try:
            return (stand_in(group),) if program is None else program.members(option, group, at)
        except BadRequest as error:
            findings.error(at, f"group {group}: {error.text}")
            return (stand_in(group),)
    if any("!" in word for word in words):
        findings.error(at, f"group {group}: '!' stands alone: (!) has the program egroup list the members")
        return (stand_in(group),)
    return words


def stand_in(group: str) -> str:
    """The one member of a group whose members are not known."""
    return f"!{group}"


def is_stand_in(word: str) -> bool:
    return word.startswith("!")


def update_interval(text: str) -> float:
    """EGROUP_UPDATE_INTERVAL in seconds: hours, or minutes with an `m`. Raises BadRequest."""
    found = re.fullmatch(r"([0-9]{1,5})\s*([hm]?)", text.strip().casefold(), re.ASCII)
    if found is None or not int(found[1]):
        raise BadRequest(f"'{show(text)}' is neither a number of hours nor of minutes (as 90m), at least 1")
    return int(found[1]) * (_MINUTE if found[2] == "m" else _HOUR)
