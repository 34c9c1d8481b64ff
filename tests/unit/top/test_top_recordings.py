"""Recordings: what is written is bounded and private, what is read is checked line by line, keys step through it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from piloted_screens import Screen, on_screen

from gsched.base.errors import BadRequest, Conflict
from gsched.top.watching import recording
from gsched.top.watching.look import ClusterLook, GpuLook, HostLook, JobLook, QueueLook, Whose
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


JOBS = st.dictionaries(st.integers(1, 9), st.sampled_from(["PEND", "RUN", "DONE"]), max_size=6)
LOOKS = st.lists(st.tuples(JOBS, st.integers(0, 2), st.booleans(), st.integers(1, 2)), min_size=1, max_size=12)


def many(states: dict[int, str], use: int, is_cut: bool, hosts: int, at: float) -> ClusterLook:
    jobs = [
        JobLook(job_id=number, name="x", user="me", queue="q", state=states[number], submitted_at=1.0)
        for number in sorted(states)
    ]
    gpu = GpuLook(uuid="GPU-1", index=0, whose=Whose.FREE, use=use)
    machines = tuple(HostLook(name=f"h{n}", status="ok", gpus=(gpu,) if n else ()) for n in range(hosts))
    queues = (QueueLook(name="q", priority=1, status="Open", njobs=len(jobs)),)
    return ClusterLook(at=at, me="me", hosts=machines, jobs=tuple(jobs), queues=queues, is_cut=is_cut)


@given(told=LOOKS, order=st.permutations(range(12)))
def test_what_is_kept_as_changes_is_what_was_seen(
    tmp_path_factory: pytest.TempPathFactory, told: list[Any], order: list[int]
) -> None:
    looks = [many(*each, float(at)) for at, each in enumerate(told, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "WHOLE_EVERY", 4)
        found = Recording(recorded(tmp_path_factory.mktemp("r") / "r", *looks))
    assert len(found) == len(looks)
    for number in order:
        if number < len(looks):
            assert found.look(number) == looks[number]
    found.close()


def test_an_hour_of_a_large_cluster_has_room(tmp_path: Path) -> None:
    states = dict.fromkeys(range(1, 20001), "PEND")
    recorder = Recorder(str(tmp_path / "r"))
    for second in range(recording.WHOLE_EVERY + 2):
        states[second + 1] = "RUN"
        recorder.write(many(states, second % 2, False, 2, float(second)))
    recorder.close()
    size = (tmp_path / "r").stat().st_size
    assert size / (recording.WHOLE_EVERY + 2) * recording.MOST_LOOKS < recording.MOST_BYTES, size


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gone": [7]}, "a job is gone that was not there"),
        ({"hosts": [{"name": "x", "status": "ok"}]}, "something changes that was not there"),
        ({"jobs": 3}, "Expected `array`"),
    ],
)
def test_changes_of_another_look_are_named(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = tmp_path / "r"
    line = msgspec.json.encode({"kind": "changes", "at": 2.0, **changes}) + b"\n"
    path.write_bytes(msgspec.json.encode(look(1.0)) + b"\n" + line)
    with pytest.raises(BadRequest, match=why):
        Recording(str(path))
    path.write_bytes(line)
    with pytest.raises(BadRequest, match=r"r:1: this is no look of gsched top \(it begins with changes\)"):
        Recording(str(path))


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
        await screen.press("plus", "plus")
        await screen.until("recording 8/8 (5 a second)")
        await screen.press("minus", "minus", "minus")
        await screen.until("recording 8/8 ")

    on_screen(source, test)
