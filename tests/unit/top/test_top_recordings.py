"""Recordings: what is written is bounded and private, what is read is checked line by line, keys step through it."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
from piloted_screens import Screen, on_screen

from gsched.base.errors import BadRequest, Conflict
from gsched.top.watching import recording
from gsched.top.watching.look import ClusterLook, JobLook
from gsched.top.watching.recording import Recorder, Recording
from gsched.top.watching.replay_source import ReplaySource


def look(at: float, name: str = "job") -> ClusterLook:
    job = JobLook(job_id=1, name=name, user="me", queue="q", state="RUN", submitted_at=1.0, started_at=1.0)
    return ClusterLook(at=at, me="me", cluster="c", jobs=(job,))


def recorded(path: Path, *looks: ClusterLook) -> str:
    recorder = Recorder(str(path))
    for each in looks:
        recorder.write(each)
    recorder.close()
    return str(path)


def test_one_look_a_second_in_a_file_of_ones_own(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", look(1.0), look(1.5), look(2.0, "[b]x\x1b"))
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    found = Recording(path)
    assert len(found) == 2 and found.look(1) == look(2.0, "[b]x\x1b")
    found.close()
    with pytest.raises(Conflict, match="it is there already"):
        Recorder(path)
    with pytest.raises(Conflict, match="No such file"):
        Recorder(str(tmp_path / "no" / "r"))


def test_a_recording_ends_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_LOOKS", 2)
    recorder = Recorder(str(tmp_path / "r"))
    for at in (1.0, 2.0, 3.0):
        recorder.write(look(at))
    recorder.close()
    assert recorder.ended_because == "the recording is full"
    assert (tmp_path / "r").read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("bad", [b"no\n", b"{}\n", b"\n", b'{"at": 3}\n', b"\xff\n", b"[" * 5_000 + b"\n"])
def test_a_bad_line_is_named(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(msgspec.json.encode(look(1.0)) + b"\n" + bad)
    with pytest.raises(BadRequest) as caught:
        Recording(str(path))
    assert caught.value.text.startswith(f"{path}:2: this is no look of gsched top (") and "\n" not in caught.value.text


def test_other_bad_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, why in (("empty", "nothing is recorded"), ("gone", "No such file"), (".", "directory")):
        with pytest.raises(BadRequest, match=why):
            Recording(str(tmp_path / name))
    path = recorded(tmp_path / "r", look(5.0), look(1.0))
    with pytest.raises(BadRequest, match=r"r:2: this look is earlier"):
        Recording(path)


def test_keys_step_through_it(tmp_path: Path) -> None:
    source = ReplaySource(Recording(recorded(tmp_path / "r", *(look(float(at), f"job{at}") for at in range(1, 9)))))

    async def test(screen: Screen) -> None:
        await screen.press("space")
        source.step(-9)
        await screen.press("right", "right")
        await screen.until("recording 3/8 (paused)", "job3", "00:00:02", "Space pause")
        await screen.press("left", "k")
        await screen.until("job2", "nothing is killed")
        await screen.press("enter")
        await screen.until("Job 1 RUN", "Output is not recorded")
        await screen.press("escape", "space")
        await screen.until("recording 8/8", "job8")

    on_screen(source, test)
