"""`glaunch` (blaunch): start a command on hosts of the job that this process belongs to, and be its terminal.

Like the launcher (gsched.app.launch) it imports nothing but C modules of the interpreter: mpirun waits for it on each
host. It asks the agent of this host, which proves by the kernel whose process this is; so it sends no proof of its own.
When the agent goes away it comes back to the next one with what it has, and nothing is lost or doubled. It must never
start anything by itself, and never cut or change what a task prints.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import select
import time

from gsched.app.launch_streams import OutputFault, end_of_pipe, say, surroundings, to_bytes, write

# The values of gsched.wire.messages.launch_protocol, which is not imported here; a test compares them.
GREETING = b"gsched-tasks 1"
REQUEST, GO, DATA, END, SIGNAL = b"R", b"G", b"D", b"Z", b"S"
HELLO, COUNT, OUT, ERR, WANT, ENDED, REFUSED = b"H", b"n", b"o", b"e", b"i", b"x", b"r"
MAX_REQUEST = 2 << 20
MAX_PIECE = 1 << 16
SHELL, LOGIN_SHELL, NO_SHELL = b"s", b"l", b"d"
MAX_FRAME = 1 << 20

PLAIN_WORDS = ("--", "--help")
"""Any other word with two dashes that comes first is an option of a launch profile: gsched.app.launching reads it."""

FAILURE = 255
DEFAULT_WAIT_S = 60.0
"""How long an agent that does not answer is waited for, where GSCHED_COMMAND_WAIT does not say."""
SAY_S = 1.0
GREETING_S = 10.0
"""An agent that takes longer than that to greet is asked anew."""
AGAIN_S = 0.1
PLEASE_WAIT = "{}: the agent of this host is not responding, it may be restarting. Please wait ..."
_NOT_ENDING = (_signal.SIGALRM, _signal.SIGVTALRM, _signal.SIGPROF, _signal.SIGXCPU, _signal.SIGIO, _signal.SIGPWR)
PASSED_ON = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)

# Options of rsh and ssh: accepted, for programs that believe they call those, and without meaning here.
FLAGS = ("-x", "-X", "-Y", "-T", "-t", "-q", "-v", "-a", "-A", "-k", "-K", "-C", "-4", "-6", "-d", "-f")
VALUED = ("-l", "-p", "-o", "-i", "-F", "-c", "-e", "-E", "-m", "-b")


class LaunchUsageError(Exception):
    """The command line is wrong; the argument says how."""


class LaunchRefused(Exception):
    """The agent does not do it; the argument says why."""


class LaunchArguments:
    """What the command line asks for."""

    def __init__(self) -> None:
        self.shell = SHELL
        self.reads = True
        self.hosts: list[bytes] = []
        self.words: list[bytes] = []

    def take_value(self, option: str, value: bytes) -> None:
        """An option with a value. Raises Usage, OSError."""
        if option in VALUED:
            return
        if self.hosts:
            raise LaunchUsageError("-u and -z can be given once, and not together")
        self.hosts = (read_file(value) if option == "-u" else value).split()
        if not self.hosts:
            raise LaunchUsageError(f"{option} names no host")

    def take_flag(self, option: str) -> None:
        """An option without a value. Raises Usage."""
        if option == "-n":
            self.reads = False
        elif option == "-no-shell":
            self.shell = NO_SHELL
        elif option == "-use-login-shell":
            self.shell = LOGIN_SHELL
        elif option not in FLAGS:
            raise LaunchUsageError(f"unknown option {option} (-h lists the options)")


def parse(arguments: list[str]) -> LaunchArguments | None:
    """Read the options, which end at the first word. None: they ask for help. Raises Usage, OSError."""
    asked = LaunchArguments()
    left = list(arguments)
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in ("-h", "-help", "--help", "-V"):
            return None
        if option == "--":
            break
        if option in ("-u", "-z", *VALUED):
            if not left:
                raise LaunchUsageError(f"{option} needs a value")
            asked.take_value(option, to_bytes(left.pop(0)))
        else:
            asked.take_flag(option)
    if not left:
        raise LaunchUsageError("no command to run (-h lists the options)")
    asked.words = [to_bytes(word) for word in left]
    return asked


def read_file(path: bytes) -> bytes:
    """All of it. Raises OSError."""
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        pieces = []
        while piece := posix.read(descriptor, MAX_PIECE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        posix.close(descriptor)


class FrameReader:
    """What comes over the connection, cut into frames."""

    def __init__(self, connection: _socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def fill(self) -> None:
        """Take what has come, waiting for it. Raises EOFError at the end of the connection, OSError."""
        data = self._connection.recv(MAX_PIECE)
        if not data:
            raise EOFError
        self._buffer += data

    def pop(self) -> tuple[bytes, bytes] | None:
        """The next frame; None when it is not complete."""
        buffer = self._buffer
        end = 5 + int.from_bytes(buffer[1:5], "big")
        if len(buffer) < 5 or len(buffer) < end:
            return None
        frame = bytes(buffer[:1]), bytes(buffer[5:end])
        del buffer[:end]
        return frame


class AgentPatience:
    """With an agent that does not answer: for how long, and that it is said once each time."""

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place
        self._since: float | None = None
        self._most_s: float | None = None
        self._has_said = False

    def is_there(self) -> None:
        """Note that the agent answers."""
        self._since, self._has_said = None, False

    def next_s(self) -> float:
        """How long the next attempt may take, in seconds. Raises Refused."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            return SAY_S
        if self._most_s is None:
            self._most_s = patience_s()
        left_s = self._since + self._most_s - now
        if left_s <= 0:
            self._say_once()
            raise LaunchRefused(f"the agent of this host has not answered for {self._most_s:g} s ({self._place})")
        return max(min(GREETING_S if self._has_said else SAY_S, left_s), AGAIN_S)

    def is_away(self) -> None:
        """The attempt failed."""
        if self._since is not None and time.monotonic() - self._since >= SAY_S:
            self._say_once()

    def _say_once(self) -> None:
        if not self._has_said:
            say(PLEASE_WAIT.format(self._name))
        self._has_said = True


class LaunchClient:
    """One launch, over as many connections as it takes."""

    def __init__(self, name: str, asked: LaunchArguments) -> None:
        """Raises Refused."""
        self.name = name
        self.code = 0
        self.key = posix.urandom(12).hex().encode()
        self._before, self._after = describe(asked, self.key)
        self._had: list[list[int] | None] | None = None
        """Of each task how much of its output and errors has been written; None when it has ended."""
        self._connection: _socket.socket | None = None
        self._is_sending = False
        self._is_heard = True
        """The agent takes what is said over this connection; else what it has said before is still to be read."""
        self._signals: list[int] = []
        self._piece = b""
        self._piece_start = 0
        """The piece of standard input that was read last, and where in it that begins."""
        self._is_at_end = False
        self._wants = False
        """The agent waits for a piece of standard input."""

    def run(self) -> int:
        """Serve it to its end; the exit code. Raises Refused, OutputFault, OSError."""
        path = posix.environ.get(b"GSCHED_AGENT_SOCKET", b"")
        patience = AgentPatience(self.name, path.decode("utf8", "replace"))
        while True:
            most_s = patience.next_s()
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                connection = self._connected(connection, path, most_s)
                self._is_heard = True
                frames = FrameReader(connection)
                self._greet(connection, frames)
                if self._is_heard:
                    patience.is_there()
                self._converse(connection, frames)
                return self.code
            except (ConnectionError, FileNotFoundError, BlockingIOError, TimeoutError, EOFError):
                patience.is_away()
            finally:
                self._connection = None
                connection.close()
            time.sleep(AGAIN_S)

    def _connected(self, connection: _socket.socket, path: bytes, most_s: float) -> _socket.socket:
        """The connection to the agent. Raises OSError, Refused."""
        if not path:
            raise LaunchRefused("it works only inside a job, on the hosts that the job has")
        connection.settimeout(most_s)
        connection.connect(path)
        return connection

    def on_signal(self, number: int, _frame: object) -> None:
        """For the tasks: they are told as soon as nothing else is being said."""
        self._signals.append(number)
        if self._connection is not None and not self._is_sending:
            self._tell_signals(self._connection)

    def _greet(self, connection: _socket.socket, frames: FrameReader) -> None:
        """Say what is to be launched, or what has been had of it. Raises TimeoutError when nobody greets."""
        while (frame := frames.pop()) is None:
            frames.fill()
        connection.settimeout(None)
        kind, payload = frame
        if kind == REFUSED:
            raise LaunchRefused(payload.decode("utf8", "replace"))
        if kind != HELLO or payload != GREETING:
            raise LaunchRefused("the agent of this host is of another version")
        told = (b"x" if had is None else b"%d,%d" % (had[0], had[1]) for had in self._had or ())
        request = b"\0".join([*self._before, b";".join(told), *self._after])
        if len(request) > MAX_REQUEST:
            raise LaunchRefused(f"arguments and environment have more than {MAX_REQUEST >> 20} MiB")
        for start in range(0, len(request), MAX_FRAME):
            self._say(connection, REQUEST, request[start : start + MAX_FRAME])
        self._say_more(connection)
        self._say(connection, GO, b"")

    def _say_more(self, connection: _socket.socket) -> None:
        """What the request has beside."""

    def _wait(self, connection: _socket.socket, frames: FrameReader) -> None:
        """Wait for the agent, and for standard input where the agent wants it."""
        if self._wants:
            self._wait_for_either(connection, frames)
        else:
            frames.fill()

    def _converse(self, connection: _socket.socket, frames: FrameReader) -> None:
        """Returns when all tasks have ended. Raises EOFError, OSError when the connection breaks, Refused."""
        self._wants = False
        self._connection = connection
        self._tell_signals(connection)
        while self._had is None or any(self._had):
            frame = frames.pop()
            if frame is not None:
                self._take(connection, *frame)
            else:
                self._wait(connection, frames)

    def _take(self, connection: _socket.socket, kind: bytes, payload: bytes) -> None:
        """What the agent says."""
        if kind == REFUSED:
            raise LaunchRefused(payload.decode("utf8", "replace"))
        if kind == COUNT:
            self._had = self._had or [[0, 0] for _ in range(int(payload))]
            return
        if kind == WANT:
            self._wanted(connection, int(payload))
            return
        if self._had is None or kind not in (OUT, ERR, ENDED):
            raise LaunchRefused("the agent of this host says what makes no sense")
        number = int.from_bytes(payload[:4], "big")
        had = self._had[number]
        if kind == ENDED:
            self._had[number] = None
            self._note_end(number, payload[4:])
        elif had is not None:
            self._show(number, 1 if kind == OUT else 2, payload[4:])
            had[0 if kind == OUT else 1] += len(payload) - 4

    def _show(self, number: int, stream: int, data: bytes) -> None:
        """A task has printed this. Raises OutputFault."""
        del number
        show(stream, data)

    def _note_end(self, number: int, text: bytes) -> None:
        del number
        status, _, problem = text.decode("utf8", "replace").partition(" ")
        if problem:
            say(f"{self.name}: {problem}")
        self.code = self.code or (FAILURE if problem else exit_code(int(status)))

    # -- to the agent ---------------------------------------------------------------------------------------------

    def _say(self, connection: _socket.socket, kind: bytes, payload: bytes) -> bool:
        """False when the agent has closed the connection: what it said before that counts, its last word above all."""
        try:
            connection.sendall(framed(kind, payload))
        except ConnectionError:
            self._is_heard = False
        return self._is_heard

    def _send(self, connection: _socket.socket, kind: bytes, payload: bytes) -> None:
        self._is_sending = True
        self._say(connection, kind, payload)
        self._is_sending = False
        self._tell_signals(connection)

    def _tell_signals(self, connection: _socket.socket) -> None:
        while self._signals and self._is_heard:
            number = self._signals.pop(0)
            if not self._say(connection, SIGNAL, b"%d" % number):
                self._signals.insert(0, number)  # for the next agent

    def _wanted(self, connection: _socket.socket, taken: int) -> None:
        """So much has been taken: what is left of the last piece is sent again, else there is room for another."""
        rest = self._piece[max(taken - self._piece_start, 0) :]
        if rest:
            self._send(connection, DATA, rest)
        elif self._is_at_end:
            self._send(connection, END, b"")
        else:
            self._piece, self._piece_start = b"", taken
            self._wants = True

    def _wait_for_either(self, connection: _socket.socket, frames: FrameReader) -> None:
        """Wait for the agent, and for standard input; of that send a piece."""
        waiting = select.poll()
        waiting.register(connection, select.POLLIN)
        waiting.register(0, select.POLLIN)
        ready = [descriptor for descriptor, _ in waiting.poll()]
        if 0 in ready:
            self._read_piece(connection)
        else:
            frames.fill()

    def _read_piece(self, connection: _socket.socket) -> None:
        """Send what can be read of standard input."""
        try:
            self._piece = posix.read(0, MAX_PIECE)
        except BlockingIOError:
            return
        except OSError:
            self._piece = b""
        self._wants = False
        self._is_at_end = not self._piece
        self._send(connection, DATA if self._piece else END, self._piece)


def patience_s() -> float:
    """How long to wait for an agent that does not answer, in seconds (GSCHED_COMMAND_WAIT). Raises Refused."""
    import os  # here and below: for those alone who have to wait

    # See above.
    from gsched.base.envdir import setting
    from gsched.base.errors import BadRequest

    try:
        text = setting(os.environ, "GSCHED_COMMAND_WAIT")
    except BadRequest:  # as with any command, a file that cannot be read says nothing
        text = ""
    try:
        seconds = float(text or DEFAULT_WAIT_S)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise LaunchRefused(f"GSCHED_COMMAND_WAIT={text}: not a number of seconds")
    return seconds


def describe(asked: LaunchArguments, key: bytes) -> tuple[list[bytes], list[bytes]]:
    """The fields of the request (launch_protocol.LaunchRequest) before what has been had, and behind it."""
    folder, umask, variables = surroundings()
    hosts = [b"%d" % len(asked.hosts), *asked.hosts]
    words = [b"%d" % len(asked.words), *asked.words]
    return [key, asked.shell, b"1" if asked.reads else b"0"], [folder, umask, *hosts, *words, *variables]


def framed(kind: bytes, payload: bytes) -> bytes:
    """One frame."""
    return kind + len(payload).to_bytes(4, "big") + payload


def show(stream: int, data: bytes) -> None:
    """Write what a task has printed. Raises OutputFault."""
    try:
        write(stream, data)
    except OSError as problem:
        raise OutputFault(problem) from None


def exit_code(status: int) -> int:
    """As a shell makes it of a wait status."""
    return 128 + posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status)


def hear(client: LaunchClient) -> None:
    """Pass on what is passed on. A signal that the job's tasks get by other ways must not end what they hang on: it is
    taken, not ignored, for what is executed from here is to have it as usual.
    """
    for number in _signal.valid_signals():
        # What nohup or a plain shell's background ignores stays ignored.
        if number in PASSED_ON and _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, client.on_signal)
        elif number in _NOT_ENDING or number >= _signal.SIGRTMIN:
            _signal.signal(number, lambda *heard: None)


def main(argv: list[str]) -> int | None:
    """Launch what argv asks for and return the exit code; None when it asks for help."""
    name = argv[0]
    try:
        asked = parse(argv[1:])
        if asked is None:
            return None
        launch = LaunchClient(name, asked)
        hear(launch)
        return launch.run()
    except (LaunchUsageError, LaunchRefused) as problem:
        say(f"{name}: {problem}")
    except OutputFault as fault:
        if isinstance(fault.args[0], BrokenPipeError):
            return end_of_pipe()
        say(f"{name}: cannot write what a task has printed: {fault.args[0].strerror}")
    except OSError as problem:
        place = problem.filename if problem.filename is not None else "the agent of this host"
        say(f"{name}: {place.decode('utf8', 'replace') if isinstance(place, bytes) else place}: {problem.strerror}")
    return FAILURE
