"""What the door and a command's launcher say to each other over their socket.

Every piece is one frame: a byte that says what it is, the length of the rest as 4 bytes (big-endian), the rest.
The launcher (gsched.app.launch) knows the same values by heart, as it imports nothing; a test holds the two together.

    door:     HELLO                                     or REFUSED, and that was all
    launcher: REQUEST ... REQUEST GO                    nothing is carried out before GO
    door:     OUT | ERR | READ_FILE | READ_STDIN ...    in any order; REFUSED instead of all of it
    launcher: DATA ... DATA END, or FAILED              the answer to READ_*; CANCEL at any time
    door:     EXIT

Nothing here reads or writes a socket, and nothing that comes in makes it hold more than the stated limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.wire.messages.frames import MAX_FRAME, Decoder, ProtocolError, frame

__all__ = ["MAX_FRAME", "Decoder", "ProtocolError", "Request", "frame"]

GREETING = b"gsched-door 1"
"""Payload of HELLO: name and version of this protocol."""

# From the launcher
REQUEST = b"R"  # a part of the request, see Request
GO = b"G"  # the request is complete: carry it out
DATA = b"D"  # a part of the file or the standard input that was asked for
END = b"Z"  # and that was all of it
FAILED = b"F"  # it cannot be read: errno in decimal digits
CANCEL = b"C"  # Ctrl-C

# From the door
HELLO = b"H"
OUT = b"o"  # bytes for standard output
ERR = b"e"  # bytes for standard error
READ_FILE = b"f"  # path, as the caller wrote it
READ_STDIN = b"i"
EXIT = b"x"  # exit code in decimal digits
REFUSED = b"r"  # one line for a person: nothing was carried out

MAX_REQUEST = 4 << 20
"""Most bytes of a whole request: arguments and environment together."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks for. Bytes that are no UTF-8 are kept as surrogates.

    On the wire: cwd, umask (octal), three digits 0/1 for standard input, output and error being terminals, columns
    of the terminal (0: unknown), number of arguments, the arguments, the environment as NAME=VALUE; separated by NUL,
    which none of them can contain.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    terminals: tuple[bool, bool, bool]
    columns: int

    @classmethod
    def decode(cls, blob: bytes) -> Request:
        """Raises ProtocolError when the bytes are not a request."""
        fields = [field.decode("utf-8", "surrogateescape") for field in blob.split(b"\0")]
        try:
            cwd, umask, terminals, columns, count = fields[:5]
            arguments = int(count)
            stdin, stdout, stderr = (digit == "1" for digit in terminals)
            end = 5 + arguments
            if not 1 <= arguments <= len(fields) - 5:
                raise ValueError("number of arguments")
            env = dict(entry.split("=", 1) for entry in fields[end:])
            return cls(fields[5:end], cwd, env, int(umask, 8) & 0o777, (stdin, stdout, stderr), int(columns))
        except ValueError as problem:
            raise ProtocolError(f"a request that cannot be read ({problem})") from None

    def encode(self) -> bytes:
        """The bytes that `decode` reads."""
        terminals = "".join("01"[is_terminal] for is_terminal in self.terminals)
        fixed = [self.cwd, f"{self.umask:o}", terminals, str(self.columns), str(len(self.argv))]
        variables = [f"{name}={value}" for name, value in self.env.items()]
        return "\0".join([*fixed, *self.argv, *variables]).encode("utf-8", "surrogateescape")
