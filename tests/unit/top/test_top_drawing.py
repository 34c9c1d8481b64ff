"""Lines of `gsched top`: bars, sparklines, curves that do not grow, the plain listing."""

from __future__ import annotations

import pytest

from gsched.base.ids import element_id
from gsched.top.drawing.array_rows import ArrayRow, array_line
from gsched.top.drawing.bars import bar, sparkline
from gsched.top.drawing.job_list import Choice, SortBy, Which, chosen
from gsched.top.drawing.plain_listing import plain_listing
from gsched.top.drawing.styled_lines import text_of
from gsched.top.watching.gpu_curves import MOST_POINTS, GpuCurves
from gsched.top.watching.look import ClusterLook, GpuLook, HostLook, JobLook, Whose


def look(at: float = 10.0, use: int | None = 50) -> ClusterLook:
    gpu = GpuLook(
        uuid="GPU-0", index=0, whose=Whose.MINE, use=use, used_mib=1, memory_mib=4, users=("me",), jobs=("1",)
    )
    jobs = tuple(
        JobLook(job_id=job_id, name="job", user=user, queue="q", state=state, submitted_at=1.0, started_at=began)
        for job_id, user, state, began in ((1, "me", "RUN", 5.0), (2, "ann", "RUN", 2.0), (3, "ann", "PEND", None))
    )
    return ClusterLook(
        at=at, me="me", cluster="c", hosts=(HostLook(name="h\x1b", status="ok", gpus=(gpu,)),), jobs=jobs
    )


@pytest.mark.parametrize(
    ("percent", "wanted"),
    [(None, "····"), (0, "░░░░"), (100, "████"), (50, "██  "), (3, "▏   "), (170, "████"), (-3, "░░░░")],
)
def test_bars(percent: int | None, wanted: str) -> None:
    assert bar(percent, 4) == wanted


def test_sparklines_keep_the_highest() -> None:
    assert sparkline([0, 50, 100, None], 10) == "▁▅█·"
    assert sparkline([0, 100, 0, 0, None, None], 3) == "█▁·"
    assert sparkline([], 3) == sparkline([1], 0) == ""


def test_curves_are_bounded() -> None:
    curves = GpuCurves()
    for at in range(2 * MOST_POINTS):
        curves.add(look(float(at), at % 100), ["GPU-0", "GPU-gone"])
        curves.add(look(float(at), at % 100), ["GPU-0", "GPU-gone"])
    assert len(curves.use("GPU-0")) == MOST_POINTS == len(curves.memory("GPU-gone"))
    assert curves.use("GPU-0")[-1] == (2 * MOST_POINTS - 1) % 100 and curves.memory("GPU-0")[-1] == 25
    curves.add(look(1e6), [])
    assert curves.use("GPU-0") == []


def test_curves_of_a_recording_that_goes_back_begin_anew() -> None:
    curves = GpuCurves()
    for at in (1.0, 2.0, 1.0):
        curves.add(look(at), ["GPU-0"])
    assert len(curves.use("GPU-0")) == 1


def test_chosen_jobs() -> None:
    def ids(**choice: object) -> list[int]:
        return [job.job_id for job in chosen(look(), Choice(**choice), 10.0)]  # type: ignore[arg-type]

    assert ids() == [1, 2, 3] and ids(is_mine=True) == [1] and ids(text="ANN") == [2, 3]
    assert ids(sort_by=SortBy.RUN_TIME) == [2, 1, 3] and ids(sort_by=SortBy.USER) == [2, 3, 1]
    assert ids(which=Which.PENDING) == [3] and ids(which=Which.FINISHED) == []


def test_the_plain_listing() -> None:
    lines = list(plain_listing(look()))
    assert lines[0] == "c: GPUs: 1 mine"
    assert lines[2].split() == ["h?", "ok", "0", "50%", "25%", "mine", "1"]
    assert [line.split()[0] for line in lines[-3:]] == ["1", "2", "3"]


def element(array: int, index: int, state: str, **times: float) -> JobLook:
    job_id, name = element_id(array, index), "sweep\x1b"
    return JobLook(job_id=job_id, name=name, user="ann", queue="q", state=state, submitted_at=0.0, **times)


def arrays() -> ClusterLook:
    jobs = [
        JobLook(job_id=4, name="alone", user="me", queue="q", state="PEND", submitted_at=0.0),
        element(5, 1, "DONE", started_at=0.0, finished_at=100.0),
        element(5, 2, "RUN", started_at=100.0),
        element(5, 3, "PEND"),
        element(5, 4, "EXIT", started_at=0.0, finished_at=100.0),
        element(6, 1, "DONE", started_at=0.0, finished_at=100.0),
    ]
    return ClusterLook(at=140.0, me="ann", jobs=tuple(jobs))


def test_an_array_is_one_line_with_a_bar() -> None:
    alone, row = chosen(arrays(), Choice(), 140.0)
    assert alone.job_id == 4 and isinstance(row, ArrayRow) and (row.state, row.job_id) == ("RUN", 5)
    begin = "5          ann       ████████         2/4, 1 failed, 1 running, about 3 min"
    assert text_of(array_line(row, 120, 140.0)) == f"{begin} sweep?"
    assert text_of(array_line(row, 80, 140.0)).startswith(begin)
    assert row.run_s(140.0) == 100.0


def test_all_elements_count_wherever_one_is_meant_and_open_it_has_those_that_are() -> None:
    def shown(**choice: object) -> list[tuple[int, int]]:
        rows = chosen(arrays(), Choice(**choice), 140.0)  # type: ignore[arg-type]
        return [(row.job_id, len(row.elements) if isinstance(row, ArrayRow) else 1) for row in rows]

    assert shown(which=Which.FINISHED) == [(5, 4), (6, 1)] and shown(text="5[3]") == [(5, 4)]
    assert shown(is_mine=True) == [(5, 4)] and shown(sort_by=SortBy.STATE) == [(4, 1), (5, 4)]
    assert shown(array=5) == [(element_id(5, 2), 1), (element_id(5, 3), 1)] and shown(array=4) == []
    assert len(shown(array=5, which=Which.ANY)) == 4


def test_the_plain_listing_folds_arrays() -> None:
    assert [line.split()[0] for line in list(plain_listing(arrays()))[-2:]] == ["4", "5"]
