"""What the launcher and `glaunch` have in common: bytes of arguments, standard streams, what surrounds a request.

It imports nothing but C modules of the interpreter, and never reads or writes what is not its caller's.
"""

import _signal  # type: ignore[import-not-found]  # `signal` costs as much as all the rest
import posix
import sys

TOKEN_VARIABLE = b"GSCHED_SUBMISSION="


class OutputFault(Exception):
    """Standard output or error cannot be written; the argument is the OSError."""


def write(stream: int, data: bytes) -> None:
    """Write all of it. Raises OSError; BrokenPipeError when nobody reads."""
    while data:
        try:
            data = data[posix.write(stream, data) :]
        except BlockingIOError:  # a parent left it non-blocking
            import select  # hardly ever needed

            waiting = select.poll()
            waiting.register(stream, select.POLLOUT)
            waiting.poll()


def say(text: str) -> None:
    """One line on standard error, if it can be had."""
    try:
        write(2, (text + "\n").encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def to_bytes(text: str) -> bytes:
    """An argument as the kernel gave it."""
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def surroundings(token: bytes = b"") -> tuple[bytes, bytes, list[bytes]]:
    """Working directory, umask in octal digits, and variables, as they are sent with a request; the token of a
    submission is one of them, and no other command's is passed on."""
    try:
        folder = posix.getcwdb()
    except OSError:  # removed under our feet: its last name is the best there is
        folder = posix.environ.get(b"PWD", b"/")
    umask = posix.umask(0o077)
    posix.umask(umask)
    variables = [name + b"=" + value for name, value in posix.environ.items() if name + b"=" != TOKEN_VARIABLE]
    if token:
        variables.append(TOKEN_VARIABLE + token)
    return folder, b"%o" % umask, variables


def end_of_pipe() -> int:
    """Nobody reads the output any more: end as any program does then."""
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    posix.kill(posix.getpid(), _signal.SIGPIPE)
    return 141  # the signal is blocked
