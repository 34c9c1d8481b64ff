"""What the launcher and `glaunch` have in common: bytes of arguments, standard streams, what surrounds a request.

Also what is left of a submission that another launcher has begun.

It imports nothing but C modules of the interpreter, and never reads or writes what is not its caller's.
"""

import _signal  # type: ignore[import-not-found]  # `signal` costs as much as all the rest
import posix
import sys

TOKEN_VARIABLE = b"GSCHED_SUBMISSION="
TOKEN_DIGITS = 32
HEADER = 5  # bytes of a frame before its payload


class OutputFault(Exception):
    """Standard output or error cannot be written; the arguments are the OSError, and what was not shown."""


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


class BegunSubmission:
    """A submission that the native launcher (launcher/launcher.c) has begun through the door, and that goes on here.

    `shown`, `typed` and `has_read` are those of gsched.app.launch.DoorConnection.
    """

    def __init__(self, blob: bytes, kinds: bytes) -> None:
        """`kinds`: of the frames for standard output, for standard error, and with what was read."""
        self.token = blob[:TOKEN_DIGITS]
        self.shown: tuple[list[bytes], list[bytes]] = ([], [])
        self.typed: list[bytes] = []
        self.has_read = False
        start = TOKEN_DIGITS
        while start < len(blob):
            end = start + HEADER + int.from_bytes(blob[start + 1 : start + HEADER], "big")
            payload, stream = blob[start + HEADER : end], kinds.index(blob[start])
            if stream < 2:
                self.shown[stream].append(payload)
            else:
                self.typed.append(payload)
                self.has_read = True
            start = end


def take_up(descriptor: int, kinds: bytes) -> BegunSubmission:
    """What the native launcher has left in a file without a name, which nobody else can have written; the descriptor is
    closed. Raises OSError.
    """
    pieces = []
    while data := posix.read(descriptor, 1 << 16):
        pieces.append(data)
    posix.close(descriptor)
    return BegunSubmission(b"".join(pieces), kinds)
