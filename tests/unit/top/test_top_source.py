"""What `gsched top` keeps of a cluster: bounded, what matters first, and brought up to date job by job."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_master import FakeMaster
from piloted_screens import ME, gpu, host, job

from gsched.model.views.view import OutputChunk
from gsched.top.watching import live_source
from gsched.top.watching.job_questions import TAIL, JobQuestions
from gsched.top.watching.live_source import LiveSource
from gsched.top.watching.look import Whose


def test_jobs_that_have_ended_make_room(folder: Path, master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_source, "MOST_JOBS", 3)
    master.views = [*(job(n, "DONE", finished_at=float(n)) for n in range(1, 20)), job(20), job(21, "PEND")]
    look = LiveSource(str(folder), ME).ask()
    assert [each.job_id for each in look.jobs] == [19, 20, 21] and look.is_cut
    master.views = master.views[-2:]
    look = LiveSource(str(folder), ME).ask()
    assert [each.job_id for each in look.jobs] == [20, 21] and not look.is_cut


def test_whose_a_gpu_is(folder: Path, master: FakeMaster) -> None:
    master.views = [job(1, gpus=(0, 1)), job(2, gpus=(1,), user="ann")]
    held = gpu(0, holders=("1.1",)), gpu(1, holders=("1.1", "2.1")), gpu(2, holders=("9.1", "?")), gpu(3, mode=None)
    master.host_views = [host(*held)]
    gpus = LiveSource(str(folder), ME).ask().hosts[0].gpus
    assert [each.whose for each in gpus] == [Whose.MINE, Whose.MINE, Whose.OTHERS, Whose.BARRED]
    assert gpus[1].users == (ME, "ann") and gpus[2].users == ()


class Printing:
    """A client of a job that prints; `read` counts the bytes that were asked for."""

    def __init__(self, text: bytes) -> None:
        self.text, self.read = text, 0

    def jobs(self, wanted: object) -> list[object]:
        return [job(1)]

    def output(self, job_id: int, *, stdout_from: int, stderr_from: int, until: float | None) -> object:
        for start in range(stdout_from, len(self.text), 1024):
            data = self.text[start : start + 1024]
            self.read += len(data)
            yield OutputChunk(stream="stdout", data=data)


def test_the_end_of_a_long_output_is_found_without_reading_it_all() -> None:
    client = Printing(b"".join(b"%09d\n" % number for number in range(2_000_000)))
    questions = JobQuestions(1)
    assert questions.ask(client).output["stdout"] == client.text[-TAIL:]  # type: ignore[arg-type]
    assert client.read < 10 * TAIL
    client.read = 0
    client.text += b"more\n"
    assert questions.ask(client).output["stdout"] == client.text[-TAIL:]  # type: ignore[arg-type]
    assert client.read <= 2 * TAIL
