"""The program that makes an executor's calls: they save themselves when asked, and nothing too large goes anywhere."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gsched.api.executor import run_calls
from gsched.api.executor.call_folder import CallFolder, pickled
from gsched.api.executor.run_calls import (
    ASKS_AGAIN,
    RAISED,
    REFUSED,
    RETURNED,
    CallOutcome,
    CallsOfPart,
    CountedBytes,
    MasterRelay,
    RelayFailed,
    SharedFolder,
)
from gsched.cli.commands.job_views import gread
from gsched.model.views.message_boxes import CHECKPOINT_BOX, OWN_BOXES, RESULT_BOX

pytest.importorskip("cloudpickle")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program changes where modules are found, and what a signal does; and a call that has saved itself is not to
    end the process of the tests.
    """
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(run_calls, "_leave", int)
    monkeypatch.setattr(run_calls, "LEAVE_S", 0.0)
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


class Memory:
    """A place that keeps what is saved and what calls have returned."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.state: bytes | None = None
        self.result: bytes | None = None

    def search_path(self, program: list[str]) -> list[str]:
        return program

    def saved(self) -> bytes | None:
        return self.state

    def save(self, content: bytes) -> None:
        self.state = content

    def finish(self, content: bytes) -> None:
        self.result = content

    @property
    def outcomes(self) -> list[CallOutcome]:
        assert self.result is not None
        found: list[CallOutcome] = pickle.loads(self.result)
        return found

    @property
    def values(self) -> list[Any]:
        assert {kind for kind, _, _ in self.outcomes} == {RETURNED}
        return [pickle.loads(dumped) for _, dumped, _ in self.outcomes]


def make(folder: Path, place: Memory, function: Callable[..., Any], *calls: Any) -> int:
    """One attempt of the job that makes these calls, each with one argument."""
    own = CallFolder(str(folder))
    arguments = [pickled("an argument", ((each,), {})) for each in calls]
    batch = own.add(pickled("the function", function), arguments, 0, signal.SIGUSR2)
    with open(own.path_of(batch), "rb") as file:
        return CallsOfPart(file, 0, place).make()  # type: ignore[arg-type]


class Counting:
    """Counts to what it is asked for, in steps; it is asked to save itself at each of `stops`."""

    def __init__(self, stops: tuple[int, ...], done: int = 0, *, log: str) -> None:
        self.stops, self.done, self.log = stops, done, log

    def __call__(self, most: int) -> tuple[int, int]:
        began = self.done
        with open(self.log, "a") as file:
            file.write(f"{most} from {began}\n")
        while self.done < most:
            self.done += 1
            if self.done in self.stops:
                os.kill(os.getpid(), signal.SIGUSR2)
        return most, began

    def checkpoint(self, most: int) -> Any:
        rest = tuple(stop for stop in self.stops if stop > self.done)
        return partial(Counting(rest, self.done, log=self.log), most)


def test_a_call_goes_on_where_it_was_and_those_before_it_are_not_made_again(tmp_path: Path) -> None:
    place, log = Memory(), tmp_path / "log"
    counting = Counting((20, 40), log=str(log))
    assert make(tmp_path / "calls", place, counting, 5, 50, 7) == ASKS_AGAIN
    assert place.result is None
    assert make(tmp_path / "calls", place, counting, 5, 50, 7) == ASKS_AGAIN
    assert make(tmp_path / "calls", place, counting, 5, 50, 7) == 0
    assert place.values == [(5, 0), (50, 40), (7, 0)]
    # The function's own object goes on within an attempt; each attempt has it anew.
    assert log.read_text().splitlines() == ["5 from 0", "50 from 5", "50 from 20", "50 from 40", "7 from 0"]


class Stubborn:
    """Is asked to save itself, does with `answer` what a test wants, and takes no notice of being ended."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def __call__(self, number: int) -> int:
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        except SystemExit:
            pass
        return number

    def checkpoint(self, number: int) -> Any:
        return self.answer()


def _breaks() -> Any:
    raise ValueError("no disk")


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (lambda: None, REFUSED, "its job was to end, and it does not go on: checkpoint() returned None"),
        (lambda: 7, RAISED, "TypeError: checkpoint() returned what cannot be called: an object of type int"),
        (_breaks, RAISED, "ValueError: no disk"),
        (lambda: lambda gone=(each for each in ""): 1, RAISED, "cannot pickle 'generator' object"),
    ],
)
def test_a_call_that_does_not_save_itself_ends_by_that(
    answer: Callable[[], Any], kind: str, told: str, tmp_path: Path
) -> None:
    place = Memory()
    assert make(tmp_path / "calls", place, Stubborn(answer), 1) == 0
    ((found, _, text),) = place.outcomes
    assert found == kind and told in text
    # Of several the others are made in the next attempt.
    place = Memory()
    assert make(tmp_path / "calls", place, Stubborn(answer), 1, 2) == ASKS_AGAIN
    assert place.state is not None and len(pickle.loads(place.state)[0]) == 1


def test_what_submitit_calls_a_delayed_submission_is_taken(tmp_path: Path) -> None:
    place = Memory()
    delayed = SimpleNamespace(function=divmod, args=(17, 5), kwargs={})
    assert make(tmp_path / "calls", place, Stubborn(lambda: delayed), 1) == ASKS_AGAIN
    assert make(tmp_path / "calls", place, Stubborn(lambda: delayed), 1) == 0
    assert place.values == [(3, 2)]


def test_a_job_that_was_asked_before_it_began_saves_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline, place = tmp_path / "deadline", Memory()
    deadline.write_text("1790000000\n")
    monkeypatch.setenv("GSCHED_DEADLINE", str(deadline))
    place.state = pickle.dumps(([(RETURNED, pickle.dumps(1), "")], pickled("a call", (divmod, (9, 4), {}))))
    assert make(tmp_path / "calls", place, Stubborn(lambda: None), 1, 2) == ASKS_AGAIN
    deadline.write_text("")
    assert make(tmp_path / "calls", place, Stubborn(lambda: None), 1, 2) == 0
    assert place.values == [1, (2, 1)]


class Forking:
    """A process that it forks is asked, too, and has nothing to save."""

    def __call__(self, number: int) -> int:
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGUSR2)
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def checkpoint(self, number: int) -> Any:
        os._exit(1)


def test_processes_that_a_call_forks_save_nothing(tmp_path: Path) -> None:
    place = Memory()
    assert make(tmp_path / "calls", place, Forking(), 1) == 0
    assert place.values == [7]


def test_a_result_that_is_too_large_is_counted_and_not_kept(tmp_path: Path) -> None:
    place = Memory(limit=1 << 20)
    results = {1: b"x" * 1000, 2: b"x" * (5 << 20), 3: "y" * 2000}
    assert make(tmp_path / "calls", place, results.__getitem__, 1, 2, 3) == 0
    kinds = [kind for kind, _, _ in place.outcomes]
    assert kinds == [RETURNED, REFUSED, RETURNED]
    told = place.outcomes[1][2]
    assert told.startswith("its result holds 5.0 MiB, those of calls before hold 10")
    assert "1.0 MiB are the most that go through the master; a folder= that all hosts share has no such limit" in told


def test_a_result_that_is_a_little_too_large_is_told_in_bytes(tmp_path: Path) -> None:
    results = {1: b"x" * (1 << 19), 2: b"x" * (1 << 19)}
    place = Memory(limit=1 << 20)
    assert make(tmp_path / "calls", place, results.__getitem__, 1, 2) == 0
    told = place.outcomes[1][2]
    holds = re.match(r"its result holds (\d+) bytes, those of calls before hold (\d+) bytes: 1048576 bytes are", told)
    assert holds and 1 << 20 < int(holds[1]) + int(holds[2]) < (1 << 20) + 1000, told


def test_an_exception_that_is_too_large_is_told_all_the_same(tmp_path: Path) -> None:
    def breaks(number: int) -> None:
        raise ValueError("x" * (3 << 20))

    place = Memory(limit=1 << 20)
    assert make(tmp_path / "calls", place, breaks, 1) == 0
    ((kind, dumped, told),) = place.outcomes
    assert (kind, dumped) == (RAISED, b"") and len(told) == 1 << 17


def test_what_is_counted() -> None:
    file = CountedBytes(10)
    assert file.write(b"12345") == 5 and file.write(memoryview(b"67890")) == 5 and not file.is_over
    assert file.content() == b"1234567890"
    file.write(b"1")
    assert file.is_over and file.size == 11 and file.content() == b""
    unlimited = CountedBytes(None)
    unlimited.write(b"1" * 100)
    assert not unlimited.is_over


def test_a_shared_folder_forgets_what_was_saved_when_all_is_done(tmp_path: Path) -> None:
    place = SharedFolder(str(tmp_path), "batch", 3)
    assert place.saved() is None
    place.save(b"one")
    place.save(b"two")
    assert place.saved() == b"two"
    place.finish(b"all")
    assert [each.name for each in tmp_path.iterdir()] == ["batch.3.result"]
    assert (tmp_path / "batch.3.result").stat().st_mode & 0o777 == 0o600


COMMAND = """#!/bin/sh
echo "$0" "$@" >> {folder}/said
while [ $# -gt 1 ]; do [ "$1" = -a ] && file=$2; shift; done
case $0 in
*gread) [ -e {folder}/posted ] || {{ echo "what it says is for a person" >&2; exit 66; }}
        [ -e {folder}/refused ] && {{ echo "No attachment available for you" >&2; exit 255; }}
        cat {folder}/posted > "$file" ;;
*) [ -e {folder}/away ] && {{ rm {folder}/away; echo "the master went away" >&2; exit 255; }}
   [ -e {folder}/full ] && {{ echo "The attachments of a job hold 16 MiB at most" >&2; exit 255; }}
   cat "$file" > {folder}/posted ;;
esac
"""


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MasterRelay:
    """With commands that keep in a file what is posted."""
    for name in ("gpost", "gread"):
        (tmp_path / name).write_text(COMMAND.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(run_calls, "_AGAIN_S", 0.0)
    monkeypatch.setenv("GSCHED_BINDIR", str(tmp_path))
    monkeypatch.setenv("GSCHED_JOB_ID", "7[2]")
    monkeypatch.setenv("GSCHED_ATTEMPT", "2")
    return MasterRelay(io.BytesIO())


def test_what_goes_through_the_master_is_posted_until_it_is_there(
    relay: MasterRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert relay.saved() is None
    (tmp_path / "away").touch()
    relay.save(b"\0half\n")
    assert relay.saved() == b"\0half\n"
    relay.finish(b"all")
    assert (tmp_path / "posted").read_bytes() == b"all"
    said = (tmp_path / "said").read_text().splitlines()
    assert [line.split()[0].rpartition("/")[2] for line in said] == ["gread", "gpost", "gpost", "gread", "gpost"]
    assert all(line.endswith(" 7[2]") for line in said)
    (tmp_path / "refused").touch()
    with pytest.raises(RelayFailed, match="gread: No attachment available for you"):
        relay.saved()
    (tmp_path / "full").touch()
    with pytest.raises(RelayFailed, match="gpost: The attachments of a job hold 16 MiB at most"):
        relay.finish(b"more")
    (tmp_path / "gpost").unlink()
    with pytest.raises(RelayFailed, match="/gpost: No such file or directory: results go through the master by it"):
        relay.finish(b"more")
    monkeypatch.setenv("GSCHED_ATTEMPT", "1")
    assert relay.saved() is None


def test_it_is_found_where_modules_are_on_the_host(relay: MasterRelay, tmp_path: Path) -> None:
    found = relay.search_path([sys.path[0], str(tmp_path), "/nowhere/at/all"])
    assert found == [*sys.path, str(tmp_path)]


def test_what_the_program_cannot_import_is_the_same_here() -> None:
    assert (run_calls.CHECKPOINT_BOX, run_calls.RESULT_BOX) == (CHECKPOINT_BOX, RESULT_BOX)
    assert {CHECKPOINT_BOX, RESULT_BOX} == OWN_BOXES
    assert run_calls.NOTHING_ATTACHED == gread.NOTHING_ATTACHED
    assert "import gsched" not in inspect.getsource(run_calls) and "from gsched" not in inspect.getsource(run_calls)
