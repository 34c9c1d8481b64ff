"""What a command gets of its Call when it runs in its caller's own process, and how its ending becomes an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gsched import command_table
from gsched.base.errors import Conflict, GschedError
from gsched.cli import registry
from gsched.cli.session.call import PIECE, Call, Cancelled, LocalCall, run_main

ROOT = Path(__file__).parents[3]


class Recorded(Call):
    """A call whose output is kept in order."""

    def __init__(self, **more: object) -> None:
        super().__init__(["cmd"], cwd="/", env={}, uid=0, gid=0, **more)  # type: ignore[arg-type]
        self.sent: list[tuple[int, bytes]] = []
        self.faults: list[BaseException] = []

    def _put(self, stream: int, data: bytes) -> None:
        self.sent.append((stream, data))

    def report_fault(self, problem: BaseException) -> None:
        self.faults.append(problem)


def run(monkeypatch: pytest.MonkeyPatch, main: Callable[[Call], int], call: Call) -> int:
    monkeypatch.setattr(registry, "load", lambda name: main)
    return run_main("cmd", call)


def raising(problem: BaseException) -> Callable[[Call], int]:
    def main(call: Call) -> int:
        call.write("so far\n")
        raise problem

    return main


class Odd(GschedError):
    exit_code = 13


@pytest.mark.parametrize(
    ("problem", "code", "error"),
    [
        (Conflict("Job <7>: Job has already finished"), 255, b"Job <7>: Job has already finished\n"),
        (Odd("two\nlines"), 13, b"two\nlines\n"),
        (Cancelled(), 130, b""),
        (KeyboardInterrupt(), 130, b""),
        (BrokenPipeError(), 141, None),
        (SystemExit(4), 4, b""),
        (SystemExit(), 0, b""),
        (ValueError("not\n  one line"), 255, b"cmd: internal error: ValueError: not one line\n"),
    ],
)
def test_every_ending_becomes_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int, error: bytes | None
) -> None:
    call = Recorded()
    assert run(monkeypatch, raising(problem), call) == code
    expected = [] if error is None else [(1, b"so far\n"), (2, error)]
    assert call.sent == [one for one in expected if one[1]]
    assert call.faults == ([problem] if isinstance(problem, ValueError) else [])


def test_an_argument_that_is_no_text_is_named_where_a_message_cannot_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Recorded()
    call.argv = ["cmd", "ok", "g\udcffpu"]
    problem = UnicodeEncodeError("utf-8", "g\udcffpu", 1, 2, "surrogates not allowed")
    assert run(monkeypatch, raising(problem), call) == 255
    assert call.sent[-1] == (2, b"cmd: 'g\\xffpu' is not UTF-8 text\n") and call.faults == []
    call.argv = ["cmd", "ok"]
    assert run(monkeypatch, raising(problem), call) == 255
    assert b"internal error" in call.sent[-1][1] and call.faults == [problem]


@pytest.mark.parametrize("name", ["gadmin", "gsched"])
def test_an_argument_that_is_no_text_is_named_by_commands_for_administrators_too(name: str) -> None:
    code = f"""if True:
        import click, sys
        from gsched.app.entry import run
        @click.command()
        @click.argument("x")
        def odd(x): x.encode()
        sys.argv[1:] = ["g\\udcffpu"]
        run(odd, "{name}")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (255, f"{name}: 'g\\xffpu' is not UTF-8 text\n".encode())


def test_output_is_kept_back_up_to_a_piece_and_never_behind_an_error() -> None:
    call = Recorded()
    call.write("a")
    call.write("b")
    assert call.sent == []
    call.error("c")
    assert call.sent == [(1, b"ab"), (2, b"c")]
    call.write("x" * PIECE)
    assert call.sent[2:] == [(1, b"x" * PIECE)]
    call.flush()
    assert len(call.sent) == 3


def test_output_to_a_terminal_is_not_kept_back() -> None:
    call = Recorded(terminals=(False, True, False))
    call.write("a")
    assert call.sent == [(1, b"a")]


def test_waiting_sends_what_was_kept_back_and_ends_with_the_call() -> None:
    call = Recorded()
    call.write("waiting\n")
    call.wait(0)
    assert call.sent == [(1, b"waiting\n")]
    threading.Timer(0.01, call.cancel).start()
    with pytest.raises(Cancelled):
        call.wait(60)
    with pytest.raises(Cancelled):
        call.raise_if_cancelled()


def test_cancelling_breaks_off_what_the_command_waits_in_once() -> None:
    call = Recorded()
    broken_off: list[str] = []
    call.raise_if_cancelled()
    call.on_cancel(lambda: broken_off.append("first"))
    call.on_cancel(lambda: 1 // 0)
    call.cancel()
    call.cancel()
    assert broken_off == ["first"]
    assert [type(fault) for fault in call.faults] == [ZeroDivisionError]
    call.on_cancel(lambda: broken_off.append("late"))
    assert broken_off == ["first", "late"]


def test_bytes_from_outside_come_out_as_they_were_and_half_characters_do_no_harm() -> None:
    call = Recorded(terminals=(False, True, False))
    call.write("\udce9é")
    call.write("\ud800")
    assert call.sent == [(1, b"\xe9\xc3\xa9"), (1, b"?")]


@pytest.mark.parametrize(
    ("wanted", "columns", "width"),
    [("", 0, 80), ("", 99, 99), ("132", 99, 132), ("0", 99, 99), ("-5", 0, 80), ("wide", 0, 80), ("9" * 5000, 7, 7)],
)
def test_the_width_is_the_callers_wish_then_the_terminals(wanted: str, columns: int, width: int) -> None:
    env = {"COLUMNS": wanted} if wanted else {}
    assert Call(["x"], cwd="/", env=env, uid=0, gid=0, columns=columns).width == width


def test_a_user_without_a_name_is_a_number() -> None:
    assert Call(["x"], cwd="/", env={}, uid=4_000_123, gid=0).user == "4000123"


def test_a_local_call_is_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODD", "\udcff")
    (tmp_path / "f").write_bytes(b"\0data")
    call = LocalCall(["gsub", "x"])
    assert (call.argv, call.cwd, call.uid, call.gid) == (["gsub", "x"], str(tmp_path), os.getuid(), os.getgid())
    assert call.env["ODD"] == "\udcff"
    assert call.read_file("f") == b"\0data"
    with pytest.raises(FileNotFoundError) as caught:
        call.read_file("g")
    assert caught.value.filename == "g"


READS = """
import sys
from gsched.cli import registry
from gsched.cli.session.call import run_local
def main(call):
    call.write("reading\\n")
    call.read_stdin()
registry.load = lambda name: main
sys.exit(run_local(["gsub"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_local_call_that_reads_what_nobody_types_ends_when_it_is_cancelled(number: int, code: int) -> None:
    with subprocess.Popen([sys.executable, "-c", READS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        process.send_signal(number)
        try:
            assert process.wait(60) == code
        finally:
            process.kill()


BEGINS_TO_WAIT = """
import signal, sys
from gsched.cli import registry
from gsched.cli.session.call import run_local
def main(call):
    with call.cancelled._cond:  # as Event.wait has it for a moment
        signal.raise_signal(int(sys.argv[1]))
    call.wait(60)
registry.load = lambda name: main
sys.exit(run_local(["gsub"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_that_comes_as_a_call_begins_to_wait_ends_it(number: int, code: int) -> None:
    words = [sys.executable, "-c", BEGINS_TO_WAIT, str(int(number))]
    assert subprocess.run(words, timeout=60, check=False).returncode == code


def test_each_row_of_the_command_table_names_a_command_that_there_is() -> None:
    names = [name for ours, theirs, *_ in command_table.COMMANDS for name in (ours, theirs) if name]
    assert len(set(names)) == len(names)
    found = (ROOT / "gsched" / "cli" / "commands").glob("*/*.py")
    modules = {(path.stem, path.parent.name) for path in found if path.stem != "__init__"}
    assert {(name, topic) for name, _, _, topic in command_table.COMMANDS} == modules | {("elim.gpu", "")}
    assert all(callable(registry.load(name)) for name in names)
    assert {"elim.gpu"} == registry.LOCAL_ONLY
