"""What a command's script runs: takes the command to the door, or runs it in this process when there is no door.

It is started with `python -I -S` and imports nothing but C modules of the interpreter, the table of commands and what
it shares with `glaunch`, for its start-up is most of what a person waits for. It must never send anything to a door
that is not its own user's, root's, or one that root has named, and never report a request as failed that the door may
have carried out without saying just that.

The door's socket is named by the file `.door` in the configuration folder: GSCHED_ENVDIR, else LSF_ENVDIR, else
~/.gsched/conf when there is one, else /etc/gsched (as gsched.wire.address says). GSCHED_DOOR=off leaves the door alone;
GSCHED_DEBUG=1 says why it was not used.
"""

import _signal  # type: ignore[import-not-found]  # `signal` costs as much as all the rest
import _socket
import posix
import sys

from gsched import command_table
from gsched.app.launch_streams import (
    BegunSubmission,
    OutputFault,
    end_of_pipe,
    say,
    surroundings,
    take_up,
    to_bytes,
    write,
)

TYPE_CHECKING = False  # as typing says it, which is not imported here
if TYPE_CHECKING:
    from gsched.app.signal_wait import SignalWait

# The values of gsched.door.protocol, which is not imported here; a test compares them.
# launcher/launcher.c has them from here.
GREETING = b"gsched-door 1"
REQUEST, GO, DATA, END, FAILED, CANCEL = b"R", b"G", b"D", b"Z", b"F", b"C"
HELLO, OUT, ERR, READ_FILE, READ_STDIN, EXIT, REFUSED = b"H", b"o", b"e", b"f", b"i", b"x", b"r"
MAX_FRAME = 1 << 20
MAX_REQUEST = 4 << 20
INPUT_LIMIT = 16 << 20
EIO, EINVAL, EFBIG = 5, 22, 27

HELLO_TIMEOUT_S = 3.0
PIECE = 1 << 16
SOON_S = 0.1  # most answers are there by then
FAILURE = 255

STEPS = "--srun"
# The words behind it, of glaunch, are those of srun: jobs that srun has submitted begin that way.

NICENESS = 10  # of what lays out a large answer in this process

OFF = "off"
"""The door has been asked already."""


class Stop(BaseException):
    """A signal ends the command; the argument is the exit code."""


class NoDoor(Exception):
    """The door did not take the request, nothing was carried out; the argument says why."""


class DoorBrokenOff(Exception):
    """The door ended in the middle of a command that may be asked again; the argument is the Relay."""


def frame(kind: bytes, payload: bytes) -> bytes:
    """A frame as it travels."""
    return kind + len(payload).to_bytes(4, "big") + payload


class DoorConnection:
    """One connection to the door, and the signals of this process while it lasts."""

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self.has_spoken = False
        self.shown: tuple[list[bytes], list[bytes]] = ([], [])
        # What was written to standard output and standard error.
        self.typed: list[bytes] = []
        # What was read of standard input.
        self.has_read = False
        self._buffer = bytearray()
        self._is_started = False
        self._is_sending = False
        self._is_reading = False
        self._is_cancelled = False
        self._wait: SignalWait | None = None

    def start(self, request: bytes) -> None:
        """Wait for the door's greeting, then hand it the request. Raises NoDoor, OSError."""
        self.connection.settimeout(HELLO_TIMEOUT_S)
        kind, payload = self.next_frame()
        if kind == REFUSED:
            raise NoDoor(payload.decode("utf-8", "replace"))
        if kind != HELLO or payload != GREETING:
            raise NoDoor("it is of another version")
        self.connection.settimeout(None)
        pieces = [request[start : start + MAX_FRAME] for start in range(0, len(request), MAX_FRAME)]
        # In one piece with the word to go: the door is woken once.
        self._send_all(b"".join(frame(REQUEST, piece) for piece in pieces) + frame(GO, b""))
        self._is_started = True

    def next_frame(self) -> tuple[bytes, bytes]:
        """The door's next frame. Raises EOFError when it has closed the connection or cannot mean this, OSError."""
        buffer = self._buffer
        while len(buffer) < 5 or len(buffer) < 5 + int.from_bytes(buffer[1:5], "big"):
            if len(buffer) >= 5 and int.from_bytes(buffer[1:5], "big") > MAX_FRAME:
                raise EOFError
            data = self._receive()
            if not data:
                raise EOFError
            buffer += data
        end = 5 + int.from_bytes(buffer[1:5], "big")
        frame = bytes(buffer[:1]), bytes(buffer[5:end])
        del buffer[:end]
        return frame

    def _receive(self) -> bytes:
        """What comes next. Who waits for long, waits such that no signal is missed."""
        if not self._is_started:
            return self.connection.recv(PIECE)
        if self._wait is None:
            self.connection.settimeout(SOON_S)
            try:
                return self.connection.recv(PIECE)
            except TimeoutError:
                from gsched.app.signal_wait import SignalWait  # costs what most commands need not pay

                self._wait = SignalWait(self.connection.fileno())
            finally:
                self.connection.settimeout(None)
        self._wait.until_readable()
        return self.connection.recv(PIECE)

    def run(self) -> int:
        """Do what the door asks until it gives the exit code. Raises EOFError, OSError, NoDoor, OutputFault, Stop."""
        while True:
            kind, payload = self.next_frame()
            if kind == REFUSED:
                raise NoDoor(payload.decode("utf-8", "replace"))
            self.has_spoken = True
            if kind == OUT:
                self._show(1, payload)
            elif kind == ERR:
                self._show(2, payload)
            elif kind == EXIT:
                return exit_code(payload)
            elif kind == READ_FILE:
                self._send_file(payload)
            elif kind == READ_STDIN:
                self._send_input(0)

    def on_signal(self, number: int, _frame: object) -> None:
        """Pass the first Ctrl-C on to the door; end this process on anything more."""
        if number != _signal.SIGINT or self._is_cancelled or not self._is_started:
            raise Stop(128 + number)
        self._is_cancelled = True
        if not self._is_sending:
            self._send_cancel()
        if self._is_reading:
            raise Stop(128 + number)

    @property
    def may_go_on(self) -> bool:
        """Nobody has pressed Ctrl-C."""
        return not self._is_cancelled

    def _show(self, stream: int, data: bytes) -> None:
        self.shown[stream - 1].append(data)
        try:
            write(stream, data)
        except OSError as problem:
            raise OutputFault(problem, data if stream == 1 else b"") from None

    def _send(self, kind: bytes, payload: bytes) -> None:
        self._send_all(frame(kind, payload))

    def _send_all(self, frames: bytes) -> None:
        self._is_sending = True
        self.connection.sendall(frames)
        self._is_sending = False
        if self._is_cancelled:  # Ctrl-C came in the middle of this frame
            self._send_cancel()

    def _send_cancel(self) -> None:
        try:
            self.connection.send(CANCEL + bytes(4), _socket.MSG_DONTWAIT)
        except OSError:
            pass

    def _send_file(self, path: bytes) -> None:
        self._is_reading = True
        try:
            descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOCTTY)
        except (OSError, ValueError) as problem:  # ValueError: NUL in the path
            self._is_reading = False
            self._send(FAILED, b"%d" % (getattr(problem, "errno", 0) or EINVAL))
            return
        mode = b"%o" % (posix.fstat(descriptor).st_mode & 0o7777)
        self._send_input(descriptor, mode)
        posix.close(descriptor)

    def _send_input(self, descriptor: int, mode: bytes = b"") -> None:
        left = INPUT_LIMIT
        while True:
            # Reading may wait for a person or a pipe: there, Ctrl-C ends this process at once.
            self._is_reading = True
            if self._is_cancelled:  # it came after the last read had returned: nothing would end the next one
                raise Stop(128 + _signal.SIGINT)
            try:
                data, error = posix.read(descriptor, PIECE), 0
            except OSError as problem:
                data, error = b"", problem.errno or EIO
            self._is_reading = False
            if descriptor == 0:
                self.has_read = True
                self.typed.append(data)
            left -= len(data)
            if left < 0:
                error = EFBIG
            if error:
                self._send(FAILED, b"%d" % error)
                return
            if not data:
                self._send(END, mode)
                return
            self._send(DATA, data)


def exit_code(payload: bytes) -> int:
    """The exit code that the door gives. Raises EOFError when it is none: the door is of no more use."""
    try:
        return int(payload) & 0xFF
    except ValueError:
        raise EOFError from None


def home() -> bytes:
    """What the host knows of this user's home, for an environment that does not say."""
    import pwd  # only here: nearly everybody has HOME

    try:
        return pwd.getpwuid(posix.getuid()).pw_dir.encode(sys.getfilesystemencoding(), "surrogateescape")
    except KeyError:
        return b"/"


def socket_path() -> tuple[bytes, bool]:
    """Path of the door's socket as the configuration folder names it, and whether it was root that named it.

    Raises OSError when the folder names none.
    """
    folder = posix.environ.get(b"GSCHED_ENVDIR") or posix.environ.get(b"LSF_ENVDIR")
    if not folder:
        folder = (posix.environ.get(b"HOME") or home()) + b"/.gsched/conf"
        try:
            posix.stat(folder)
        except OSError:
            folder = b"/etc/gsched"
    # Non-blocking, or a FIFO of this name would be waited for.
    descriptor = posix.open(folder + b"/.door", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        status = posix.fstat(descriptor)
        is_roots = status.st_uid == 0 and not status.st_mode & 0o022
        return posix.read(descriptor, 4096).rstrip(b"\n"), is_roots
    finally:
        posix.close(descriptor)


def connect() -> _socket.socket:
    """A connection to the door. Raises NoDoor when it is not to be trusted, OSError when there is none."""
    path, is_roots = socket_path()
    if not path or len(path) > 107 or b"\0" in path:  # an empty one would be taken for an unnamed socket
        raise NoDoor("its socket's path is unusable")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    # Non-blocking, so that a door that is full up is seen at once.
    connection.settimeout(HELLO_TIMEOUT_S)
    connection.connect(path)
    owner = int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
    if owner not in (0, posix.getuid()) and not is_roots:
        raise NoDoor(f"it belongs to uid {owner}")
    return connection


def describe(arguments: list[bytes], token: bytes = b"") -> bytes:
    """The request: see gsched.door.protocol.Request. Raises NoDoor when it is too large for the door."""
    folder, umask, variables = surroundings(token)
    terminals = bytes(48 + posix.isatty(stream) for stream in (0, 1, 2))
    fixed = [folder, umask, terminals, b"%d" % columns(terminals), b"%d" % len(arguments)]
    request = b"\0".join([*fixed, *arguments, *variables])
    if len(request) > MAX_REQUEST:
        raise NoDoor("arguments and environment are too large for it")
    return request


def columns(terminals: bytes) -> int:
    """Width of the terminal; 0 without one."""
    for stream in (1, 2, 0):
        if terminals[stream : stream + 1] == b"1":
            try:
                return posix.get_terminal_size(stream).columns
            except OSError:
                pass
    return 0


def through_door(name: str, arguments: list[bytes], token: bytes = b"") -> int:
    """Have the door run the command and return its exit code. `token`: that of a submission.

    Raises NoDoor or OSError when it was not carried out, BrokenOff when it may be asked again, Stop after a signal.
    """
    relay = DoorConnection(connect())
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        # What nohup or a plain shell's background ignores stays ignored.
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, relay.on_signal)
    try:
        relay.start(describe(arguments, token))
    except EOFError:
        raise NoDoor("it closed the connection") from None
    try:
        return relay.run()
    except OutputFault as fault:
        problem = fault.args[0]
        if isinstance(problem, BrokenPipeError):
            return end_of_pipe()
        # Who submits must hear of the job all the same, or submits it again.
        unsaid = fault.args[1].decode("utf-8", "replace").partition("\n")[0] if token else ""
        say(f"{name}: cannot write to standard output: {problem.strerror}{unsaid and ': '}{unsaid}")
        return FAILURE
    except (EOFError, OSError):
        mode = command_table.run_mode(name)
        reads = mode in (command_table.READS, command_table.READS_HISTORY)
        if mode == command_table.WAITS or (reads and not relay.has_spoken):
            if not relay.may_go_on:
                raise Stop(128 + _signal.SIGINT) from None
            raise NoDoor("it closed the connection") from None
        if token and relay.may_go_on:
            raise DoorBrokenOff(relay) from None
        say("gsched: the door closed the connection; the request may or may not have been carried out")
        return FAILURE


def occupy_standard_streams() -> None:
    """Put something unusable in the place of a closed stream, or the door's socket would be taken for it."""
    for stream in (0, 1, 2):
        try:
            posix.fstat(stream)
        except OSError:
            # Opened the wrong way round: using it is the same error as on a closed stream.
            posix.open("/dev/null", posix.O_RDONLY if stream else posix.O_WRONLY)


def give_input_back(typed: list[bytes]) -> None:
    """Have standard input begin again with what was read of it already. Raises OSError."""
    descriptor = posix.memfd_create("input")
    for data in typed:
        write(descriptor, data)
    while data := posix.read(0, PIECE):
        write(descriptor, data)
    posix.lseek(descriptor, 0, 0)
    posix.dup2(descriptor, 0)
    posix.close(descriptor)


def in_process(argv: list[str], token: bytes = b"", relay: DoorConnection | BegunSubmission | None = None) -> int:
    """Run the command here, with all that the interpreter leaves out under -S. `relay`: it goes on from there."""
    if relay is not None and relay.has_read:
        give_input_back(relay.typed)
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _signal.default_int_handler if number == _signal.SIGINT else _signal.SIG_DFL)
    if "site" not in sys.modules:
        import site  # left out at the start, by -S

        site.main()
    from gsched.cli.session.call import run_local  # what most commands leave to the door

    shown = (b"", b"") if relay is None else (b"".join(relay.shown[0]), b"".join(relay.shown[1]))
    return run_local(argv, token.decode(), shown)


def start_tasks(argv: list[str], mode: str) -> int | None:
    """Exit code of a command that stays with what it starts; None: in this process it is run as the others are."""
    if mode == command_table.ATTENDS or argv[1:2] == [STEPS]:
        from gsched.app.steps import srun  # few commands

        return srun.main(argv)
    from gsched.app import glaunch  # one command of all

    if len(argv) > 1 and argv[1][:2] == "--" and argv[1] not in glaunch.PLAIN_WORDS:
        from gsched.app.launching import launch_entry  # few launches

        return launch_entry.main(argv)

    return glaunch.main(argv)


def main(argv: list[str], door: str = "") -> int:
    """Run the command that argv[0] names and return its exit code. `door`: see `start`."""
    name = argv[0]
    mode = command_table.run_mode(name)
    token = posix.urandom(16).hex().encode() if mode == command_table.SUBMITS else b""
    relay: DoorConnection | BegunSubmission | None = None
    if door.isdigit():
        relay = take_up(int(door), OUT + ERR + READ_STDIN)
        token = relay.token
    elif mode in (command_table.ATTENDS, command_table.STARTS_TASKS):
        code = start_tasks(argv, mode)
        if code is not None:
            return code
    elif mode != command_table.IS_ELIM and door != OFF and posix.environ.get(b"GSCHED_DOOR") != b"off":
        try:
            return through_door(name, [to_bytes(argument) for argument in argv], token)
        except DoorBrokenOff as broken:
            relay = broken.args[0]
        except Stop as end:
            return int(end.args[0])
        except (NoDoor, OSError) as problem:
            if posix.environ.get(b"GSCHED_DEBUG") == b"1":
                say(f"{name}: without the door: {problem}")
    if mode == command_table.READS_HISTORY:
        posix.nice(NICENESS)  # before anything large is imported, which takes longer than what the command does
    try:
        return in_process(argv, token, relay)
    except KeyboardInterrupt:
        return 130


def start(path: str, arguments: list[str], locale: str, door: str = "") -> None:
    """Entry point of the command scripts: ends the process.

    `locale` is LC_CTYPE as the caller set it: the interpreter sets the variable for itself when it finds the C locale
    (PEP 538), and a job must not inherit that. `door` is what the native launcher has done already: nothing where it is
    empty; OFF when it has asked the door, which did nothing; the descriptor of a submission that the door has begun.
    """
    occupy_standard_streams()
    if not locale and posix.environ.pop(b"LC_CTYPE", None) is not None:
        posix.unsetenv(b"LC_CTYPE")
    code = main([path[path.rfind("/") + 1 :], *arguments], door)
    if "threading" not in sys.modules:
        posix._exit(code)  # nothing is left to be tidied up, and tidying takes as long as the rest
    sys.exit(code)
