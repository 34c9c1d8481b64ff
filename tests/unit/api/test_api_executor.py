"""An executor's calls before they are submitted: how they are cut into jobs, by which options, and what is refused."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.api.executor import run_calls
from gsched.api.executor.call_folder import CallFolder
from gsched.api.executor.call_relay import MOST_OF_ARRAY, RelayedCalls
from gsched.api.executor.call_requests import CallRequests
from gsched.api.executor.run_calls import MOST_BYTES
from gsched.base.errors import BadRequest, GschedError, NotFound, Unavailable
from gsched.wire.messages.control_action import ControlAction


class Saving:
    """Can be called, and can save itself."""

    def __call__(self) -> int:
        return 1

    def checkpoint(self) -> Any:
        return self


def requests(shared: bool = True, **options: Any) -> CallRequests:
    wanted = {"python": None, "checkpoint": "USR2@60", "max_restarts": None}
    own = {name: options.pop(name) for name in list(options) if name in wanted}
    return CallRequests("", options, shared=shared, **{**wanted, **own})  # type: ignore[arg-type]


def of(found: CallRequests, function: Any, folder: CallFolder) -> Any:
    batch = folder.add(b"f", [b"c"], 0, found.signal_of(function), found.source())
    return found.of(function, batch, folder)


@pytest.fixture
def calls(tmp_path: Path) -> CallFolder:
    return CallFolder(str(tmp_path / "calls"))


def test_calls_that_can_save_themselves_are_asked_to(calls: CallFolder) -> None:
    plain, saving = of(requests(), pow, calls), of(requests(max_restarts=3), partial(Saving(), 1), calls)
    assert plain["options"] == []
    assert saving["options"] == ["--signal", "B:USR2@60", "--restart-on", "preempt", "--max-restarts", "3"]
    own = of(requests(checkpoint="urg@5", options=["--restart-on", "host"]), Saving(), calls)
    assert own["options"] == ["--signal", "B:URG@5", "--restart-on", "preempt", "--restart-on", "host"]
    assert requests(checkpoint="URG").signal_of(Saving()) == signal.SIGURG
    with pytest.raises(BadRequest, match="options: --signal: calls that have a checkpoint"):
        requests(options=["--signal=TERM"]).signal_of(Saving())
    assert requests(options=["--signal", "TERM"]).signal_of(pow) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"checkpoint": "KILL"}, "checkpoint='KILL': not of the form SIGNAL"),
        ({"checkpoint": "USR2@0"}, "checkpoint='USR2@0'"),
        ({"checkpoint": 12}, "checkpoint=12: a text is wanted"),
        ({"max_restarts": 1.5}, "max_restarts=1.5: a whole number"),
        ({"max_restarts": -1}, "max_restarts=-1: a whole number from 0 to 9999 is wanted"),
        ({"max_restarts": 10000}, "max_restarts=10000: a whole number from 0 to 9999 is wanted"),
        ({"python": 3}, "python=3: a path is wanted"),
        ({"python": ""}, "python='': the path of an interpreter is wanted"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told.replace("(", r"\(")):
        requests(**options)


def test_calls_go_with_their_job_where_no_folder_is_shared(tmp_path: Path, calls: CallFolder) -> None:
    asked = of(requests(shared=False, python="/opt/python", options=["-x"]), pow, calls)
    (batch,) = calls.batches()
    assert asked["command"][:3] == ["/opt/python", "-P", "-c"] and asked["command"][-2:] == ["-", batch.name]
    assert str(tmp_path) not in " ".join(asked["command"])
    assert asked["options"] == ["-x", "-is", calls.path_of(batch)] and asked["cwd"] == "/tmp"
    assert of(requests(shared=False, cwd="/scratch"), pow, calls)["cwd"] == "/scratch"


def test_the_program_that_goes_with_each_job_is_small_and_whole(calls: CallFolder) -> None:
    found = requests(shared=False)
    batch = calls.add(b"f", [b"c"], 0, 0, found.source())
    content = Path(calls.path_of(batch)).read_bytes()
    assert len(found.source()) < 10_000
    start = run_calls.START.replace("exec(compile(", "print(len(").replace(",'run_calls.py','exec'", "")
    done = subprocess.run([sys.executable, "-c", start], input=content, capture_output=True, check=True)
    assert int(done.stdout) == Path(run_calls.__file__).stat().st_size


def test_nothing_is_kept_of_calls_that_no_other_program_finds_again(tmp_path: Path) -> None:
    answering = Answering({7: pickle.dumps([("returned", b"", "")]), 8: b"no pickle"})
    relayed = RelayedCalls(str(tmp_path / "calls"), lambda: answering, is_kept=False)  # type: ignore[arg-type, return-value]
    batch, other = (relayed.add(b"f", [b"c"], 0) for _ in range(2))
    relayed.note_job(batch, 7, "/c")
    assert relayed.outcomes(batch, 0, 7) == [("returned", b"", "")]
    with pytest.raises(GschedError, match="the results of job 8: cannot be read"):
        relayed.outcomes(other, 0, 8)
    assert os.listdir(relayed.path) == [f"{other.name}.calls"], "the others are with the master"
    relayed.remove([other])
    assert not os.listdir(relayed.path)


def test_calls_that_are_too_large_are_refused_by_their_size(tmp_path: Path) -> None:
    relayed = RelayedCalls(str(tmp_path / "calls"), lambda: None)  # type: ignore[arg-type, return-value]
    relayed.check_size(b"f", [b"x" * (MOST_BYTES - 1)])
    told = r"the function and the arguments of 1 call hold 20.0 MiB: 8.0 MiB are the most that go through the master"
    with pytest.raises(BadRequest, match=told):
        relayed.check_size(b"f", [b"x" * (20 << 20)])
    with pytest.raises(BadRequest, match=r"of 2 calls hold 8388609 bytes: 8388608 bytes are the most"):
        relayed.check_size(b"f", [b"x" * (MOST_BYTES - 1), b"x"])
    CallFolder(str(tmp_path / "calls")).check_size(b"f", [b"x" * (20 << 20)])


@given(
    st.lists(st.sampled_from([1, 100, MOST_OF_ARRAY // 3, MOST_OF_ARRAY, 2 * MOST_OF_ARRAY]), max_size=30),
    st.integers(1, 5),
)
def test_a_map_is_cut_between_elements_and_nothing_is_lost(sizes: list[int], chunk: int) -> None:
    content = bytes(2 * MOST_OF_ARRAY)
    arguments = [content[:size] for size in sizes]
    pieces = list(RelayedCalls.pieces(object.__new__(RelayedCalls), arguments, chunk))
    assert [each for piece in pieces for each in piece] == arguments
    assert all(pieces) and all(len(piece) % chunk == 0 for piece in pieces[:-1])
    assert all(len(piece) <= chunk or sum(map(len, piece)) <= MOST_OF_ARRAY for piece in pieces)


class Answering:
    """A cluster whose master has these attachments."""

    def __init__(self, attached: dict[int, bytes]) -> None:
        self.attached, self.asked = attached, list[tuple[int, int]]()
        self.let_go = list[tuple[int, bytes | None, list[int]]]()

    def client(self) -> Answering:
        return self

    def attachment(self, job_id: int, box: int) -> bytes:
        self.asked.append((job_id, box))
        if job_id not in self.attached:
            raise NotFound("no attachment")
        return self.attached[job_id]

    def control(self, what: ControlAction, job_ids: list[int]) -> list[Any]:
        self.let_go.append((what.box, what.attachment, job_ids))
        raise Unavailable("the master is away")


def test_outcomes_are_fetched_once_and_kept(tmp_path: Path) -> None:
    answering = Answering({7: b"\x80\x04]\x94."})
    relayed = RelayedCalls(str(tmp_path / "calls"), lambda: answering)  # type: ignore[arg-type, return-value]
    batch = relayed.add(b"f", [b"c"], 0)
    assert relayed.outcomes(batch, 0, 8, is_expected=True) is None
    assert relayed.outcomes(batch, 0, 7) == [] and relayed.outcomes(batch, 0, 7) == []
    assert answering.asked == [(8, 127), (7, 127)] and relayed.kept(batch, 0) == []
    assert not answering.let_go
    for _ in range(2):
        relayed.let_go()
    assert answering.let_go == [(127, b"", [7])]
    answering.attached[7] = b""
    assert relayed.outcomes(relayed.add(b"f", [b"c"], 0), 0, 7) is None
