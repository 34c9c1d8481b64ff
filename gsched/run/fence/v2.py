"""A job's group in the unified hierarchy: a device program is the fence, cgroup.freeze and cgroup.kill do the rest.

The program is put together here, a few instructions, and attached with bpf(2); it stays with the group when its maker
ends, and goes with it. Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst, bpf(2), and
Documentation/bpf/standardization/instruction-set.rst for the encoding.

Standard library only. Never attaches to a group that it has not made.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable, Sequence

from gsched.run.fence import cgroup_files

_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
"""Number of bpf(2), which the C library has no function for."""
_CLONE3 = 435
"""Number of clone3(2), the same on all of them."""
_CLONE_INTO_CGROUP = 0x2_0000_0000
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE = 15
_ATTACH_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
_CHARACTER_DEVICE = 2
_LICENSE = b"Apache-2.0\0"

_LOAD_WORD, _AND, _JUMP, _JUMP_EQUAL, _JUMP_UNEQUAL, _MOVE, _EXIT = 0x61, 0x54, 0x05, 0x15, 0x55, 0xB7, 0x95
_RESULT, _CONTEXT, _KIND, _MAJOR, _MINOR = 0, 1, 2, 3, 4

# Looked up once, before the fork server's supervisors have a copy each: to do it in each of them costs a millisecond.
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall_with_lock = ctypes.PyDLL(None, use_errno=True).syscall
"""As the other; that lets the interpreter's lock go meanwhile, which a fork must not."""
_programs: dict[tuple[tuple[int, ...], tuple[tuple[int, int], ...]], bytes] = {}
"""The rules that were wanted last -> their instructions."""
_loaded: dict[bytes, int] = {}
"""The program that was attached last -> its descriptor: a supervisor's next job mostly has the same rules."""
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent


class V2Group:
    """A folder of the unified hierarchy. Its methods are idempotent and take a group that is gone for an empty one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.places = (cgroup_files.place_of(folder),)
        """As `cgroup_files.places_of` tells them of a process."""

    def make(self) -> None:
        """Make it, empty and without rules, also in the place of one that was left empty. Raises OSError."""
        cgroup_files.make(self.folder)

    def fence(self, minors: Sequence[int], denied: Iterable[tuple[int, int]]) -> None:
        """From now on none of its processes can open an NVIDIA GPU but those with these device minors, nor any of
        the character devices `denied`, pairs of major and minor. Raises OSError.
        """
        rules = (tuple(minors), tuple(denied))
        if rules not in _programs:
            _programs.clear()
            _programs[rules] = program(*rules)
        attach(self.folder, _programs[rules])

    def add(self, pid: int) -> None:
        """Put a process into it; what that starts from now on is in it as well. Raises OSError."""
        cgroup_files.write(f"{self.folder}/cgroup.procs", str(pid))

    def fork(self) -> int | None:
        """As os.fork, with the child in the group from its first instruction; None where the kernel cannot do that.

        Only in a process without threads. To move a child later waits for all processors of the machine, which takes
        milliseconds.
        """
        try:
            return fork_into(self.folder)
        except OSError:
            return None

    def pids(self) -> list[int]:
        """Its processes, and those of groups below it. Never raises."""
        return cgroup_files.pids(self.folder)

    def freeze(self) -> bool:
        """Begin to stop all its processes where they stand; whether that can be done. Never raises."""
        return self._tell("cgroup.freeze", "1")

    def is_frozen(self) -> bool:
        """Whether all of them stand still. Never raises."""
        return "frozen 1" in cgroup_files.read(f"{self.folder}/cgroup.events")

    def thaw(self) -> None:
        """Let them go on. Never raises."""
        self._tell("cgroup.freeze", "0")

    def kill(self) -> None:
        """SIGKILL to all of them at once, stopped or not; they are thawed. Never raises, hardly waits."""
        if not self._tell("cgroup.kill", "1"):  # a kernel before 5.14
            cgroup_files.kill_frozen(self.freeze, self.is_frozen, self.pids)
        self.thaw()

    def remove(self) -> bool:
        """Remove it; False while it holds processes. Never raises."""
        return cgroup_files.remove(self.folder)

    def cpu_s(self) -> float | None:
        """CPU time of its processes, those that have ended among them; None where it is not told. Never raises."""
        used_us = cgroup_files.figures(f"{self.folder}/cpu.stat").get("usage_usec")
        return None if used_us is None else used_us / 1e6

    def mem_mib(self) -> float | None:
        """Memory that its processes take, each page once, without what the kernel keeps of files; None where the
        memory controller is not there. Never raises.
        """
        found = cgroup_files.figures(f"{self.folder}/memory.stat")
        return (found["anon"] + found["shmem"]) / (1 << 20) if {"anon", "shmem"} <= found.keys() else None

    def _tell(self, file: str, text: str) -> bool:
        return cgroup_files.tell(f"{self.folder}/{file}", text)


def fork_into(folder: str) -> int:
    """clone3(2) with CLONE_INTO_CGROUP, and what else os.fork does around it. Raises OSError.

    Linux 5.7 or later; sandboxes may forbid it. The C library does not hear of the fork: the child is to execute a
    program soon.
    """
    group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
        argument = struct.pack("=11Q", _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group)
        _before_fork()
        pid: int = _syscall_with_lock(ctypes.c_long(_CLONE3), argument, ctypes.c_size_t(len(argument)))
        error = ctypes.get_errno()
        if pid == 0:
            _after_fork_child()
        else:
            _after_fork_parent()
    finally:
        os.close(group)
    if pid < 0:
        raise OSError(error, os.strerror(error), folder)
    return pid


def program(minors: Sequence[int], denied: Iterable[tuple[int, int]]) -> bytes:
    """Instructions that answer 0 (no) for other GPUs than these and for the devices `denied`, 1 for all else.

    The kernel's argument is three words: 16 bits of access and 16 of the device's kind, its major, its minor.
    """
    others = sorted({pair for pair in denied if pair[0] != cgroup_files.CHARACTER_MAJOR})
    may = sorted({*minors, *cgroup_files.CONTROL_MINORS})
    yes = 6 + len(may) + 1 + 2 * len(others)  # where the answers stand
    no = yes + 2
    code = [
        _instruction(_LOAD_WORD, _KIND, _CONTEXT, 0),
        _instruction(_AND, _KIND, value=0xFFFF),
        _instruction(_JUMP_UNEQUAL, _KIND, jump=yes - 3, value=_CHARACTER_DEVICE),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8),
        _instruction(_JUMP_UNEQUAL, _MAJOR, jump=len(may) + 1, value=cgroup_files.CHARACTER_MAJOR),
    ]
    for minor in may:
        code.append(_instruction(_JUMP_EQUAL, _MINOR, jump=yes - len(code) - 1, value=minor))
    code.append(_instruction(_JUMP, jump=no - len(code) - 1))
    for major, minor in others:
        code.append(_instruction(_JUMP_UNEQUAL, _MAJOR, jump=1, value=major))
        code.append(_instruction(_JUMP_EQUAL, _MINOR, jump=no - len(code) - 1, value=minor))
    for answer in (1, 0):
        code += [_instruction(_MOVE, _RESULT, value=answer), _instruction(_EXIT)]
    return b"".join(code)


def _instruction(operation: int, target: int = 0, source: int = 0, jump: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", operation, target | source << 4, jump, value)


def attach(folder: str, code: bytes) -> None:
    """Load the program and attach it to the group. Raises OSError: no right to, or a kernel without it."""
    group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        attaching = struct.pack("=IIII", group, _load(code), _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI)
        _bpf(_PROG_ATTACH, attaching, f"a device program cannot be attached to {folder}")
    finally:
        os.close(group)


def _load(code: bytes) -> int:
    """The program in the kernel, by a descriptor that no program inherits. Raises OSError."""
    if code not in _loaded:
        loading = struct.pack(
            "=IIQQIIQI",
            _PROG_TYPE_CGROUP_DEVICE,
            len(code) // 8,
            _address_of(code),
            _address_of(_LICENSE),
            *(0, 0, 0, 0),  # no log of the verifier
        )
        loaded = _bpf(_PROG_LOAD, loading, "a device program cannot be loaded")
        while _loaded:
            os.close(_loaded.popitem()[1])
        _loaded[code] = loaded
    return _loaded[code]


def _address_of(data: bytes) -> int:
    """Where they are, as long as somebody holds them; to be read only."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _bpf(command: int, argument: bytes, what: str) -> int:
    """bpf(2), which of these arguments only reads. Raises OSError saying `what`."""
    number = _BPF.get(os.uname().machine)
    if number is None:
        raise OSError(f"{what}: bpf(2) is not known on {os.uname().machine}")
    done: int = _syscall(ctypes.c_long(number), ctypes.c_int(command), argument, ctypes.c_uint(len(argument)))
    if done < 0:
        raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return done
