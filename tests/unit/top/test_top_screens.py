"""The screens of `gsched top` by its keys, before a fake master."""

from __future__ import annotations

import time

import pytest
from fake_master import FakeMaster, record, spec
from piloted_screens import ME, Screen, gpu, host, job, on_screen

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import OutputChunk, QueueView
from gsched.top.watching.live_source import LiveSource

EVIL = "[red]x[/red]\x1b[31m\x07\u202e[@click=app.quit]"


@pytest.fixture
def source(folder: object, master: FakeMaster) -> LiveSource:
    master.views = [
        job(1, gpus=(0, 1)),
        job(2, "PEND", user="ann", pending_reasons=(PendingReason("No GPU is free", hosts=1),)),
        job(3, gpus=(2,), user="ann"),
        job(4, "DONE", finished_at=9.0),
    ]
    master.host_views = [
        host(
            gpu(0, holders=("1.1",), utilization_percent=87, used_mib=512, memory_mib=1024),
            gpu(1, holders=("1.1",)),
            gpu(2, holders=("3.1",), utilization_percent=3),
            gpu(3),
            gpu(4, problem=coded("gpu.closed", "ann")),
            gpu(5, foreign_pids=(77,)),
        )
    ]
    master.queue_views = [QueueView(name="normal", priority=30, njobs=3, pend=1, run=2)]
    return LiveSource(str(folder), ME)


def test_what_is_seen_fits_80_by_24(source: LiveSource) -> None:
    async def test(screen: Screen) -> None:
        text = await screen.until("gpu01", "job1", "job2: No GPU is free", "QUEUE")
        assert "GPUs: 1 free, 2 mine, 1 others', 1 closed, 1 foreign" in text
        assert " 87% ████     50% mine" in text and "  3%" in text
        assert "ann" in text and "closed" in text and "foreign" in text
        assert "job4" not in text
        assert "q end" in screen.lines[-1] and len(screen.lines) == 24
        assert all(len(each) == 80 for each in screen.lines)

    on_screen(source, test)


def test_keys_choose_and_sort(source: LiveSource) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job2")
        await screen.press("a")
        await screen.until("mine, unfinished", "job1", gone="job2")
        await screen.press("a", "slash", *"job3")
        await screen.until("with 'job3'", gone="job1")
        await screen.press("enter", "s")
        await screen.until("by user", gone="job1")
        await screen.press("slash", "escape")
        await screen.until("job1", "job2")
        await screen.press("s", "s", "s")
        text = await screen.until("by GPUs")
        assert text.index("job1") < text.index("job3") < text.index("job2")
        await screen.press("t", "t", "t")
        await screen.until("finished", "job4", gone="job1")

    on_screen(source, test)


def test_events_change_what_is_seen(source: LiveSource, master: FakeMaster) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job1")
        master.views = [job(1, "EXIT", finished_at=9.0), *master.views[1:], job(5)]
        ended = events.JobFinished(at=9.0, job_id=1, attempt=1, result=AttemptResult(exit_code=1, ended_at=9.0))
        master.live.put(record(1, ended))
        master.live.put(record(2, events.JobSubmitted(at=9.0, job_id=5, spec=spec(name="job5"))))
        await screen.until("job5", gone="job1")

    on_screen(source, test)


def test_a_job_is_killed_when_yes_is_said(source: LiveSource, master: FakeMaster) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job1")
        await screen.press("k")
        await screen.until("Kill job 1 of test?")
        await screen.press("n")
        await screen.until("job1", gone="Kill job")
        assert master.controls == []
        await screen.press("down", "down", "k")
        await screen.until("Kill job 3 of ann?")
        master.control_errors[3] = "Job <3>: User permission denied"
        await screen.press("y")
        await screen.until("User permission denied", gone="Kill job")
        assert [(each[0], each[1]) for each in master.controls] == [("kill", (3,))]

    on_screen(source, test)


def test_an_array_is_opened_into_its_elements(source: LiveSource, master: FakeMaster) -> None:
    elements = [
        job(element_id(7, 1), "DONE", spec=spec(name="sweep", user=ME), dispatched_at=1.0, finished_at=9.0),
        job(element_id(7, 2), gpus=(3,), spec=spec(name="sweep", user=ME)),
        job(element_id(7, 3), "PEND", spec=spec(name="sweep", user=ME)),
    ]
    master.views = [*master.views, *elements]

    async def test(screen: Screen) -> None:
        text = await screen.until("sweep")
        assert "Jobs: 6 of 7" in text and text.count("sweep") == 1
        (row,) = [each for each in screen.lines if "sweep" in each]
        assert row.split()[:2] == ["7", ME] and "1/3, 1 running" in row and "█████" in row
        await screen.press("end", "enter")
        text = await screen.until("7[2]", "7[3]", "elements of array 7, all, unfinished", gone="job1")
        assert "7[1]" not in text
        await screen.press("down", "enter")
        await screen.until("Job 7[3] PEND", "Why it waits")
        await screen.press("escape")
        await screen.until("7[2]", "7[3]")
        await screen.press("slash", *"7[2]")
        await screen.until("7[2]", gone="7[3]")
        await screen.press("escape")
        await screen.until("elements of array 7", "7[3]")
        await screen.press("escape")
        await screen.until("job1", "1/3, 1 running", gone="7[2]")
        await screen.press("k")  # the cursor is on the array that it came from
        await screen.until(f"Kill 2 elements of array 7 of {ME}?")
        await screen.press("y")
        await screen.until("job 7 is being killed", gone="Kill 2")
        assert [(each[0], each[1]) for each in master.controls] == [("kill", (7,))]

    on_screen(source, test)


def test_a_job_is_looked_into(source: LiveSource, master: FakeMaster) -> None:
    master.outputs = [[OutputChunk(stream="stdout", data=b"epoch 1\n10%\r20%\n\x1b[2J[b]end[/b]\n")]]

    async def test(screen: Screen) -> None:
        await screen.until("job1")
        await screen.press("enter")
        text = await screen.until("Job 1 RUN", "epoch 1", "Command <")
        assert "20%" in text and "10%" not in text and "?[2J[b]end[/b]" in text
        assert "use  87% ▇" in text and "mem  50% ▅" in text
        await screen.press("escape", "down", "enter")
        await screen.until("Job 2 PEND", "Why it waits", "No GPU is free: 1 host")
        await screen.press("q")

    on_screen(source, test)


def test_names_are_never_markup_and_harmless(source: LiveSource, master: FakeMaster) -> None:
    master.views = [job(1, "PEND", spec=spec(name=EVIL, user=EVIL, queue=EVIL, command=EVIL))]
    master.host_views = [host(gpu(0), name=EVIL)]
    master.queue_views = [QueueView(name=EVIL, priority=1, status=EVIL)]
    master.outputs = [[OutputChunk(stream="stdout", data=EVIL.encode())]]

    async def test(screen: Screen) -> None:
        text = await screen.until("[red]x[/red]?[31m??[@click=app.quit]")
        assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
        await screen.press("enter")
        text = await screen.until("Command <[red]x[/red]?[31m??[@click=app.quit]>")
        assert "\x1b" not in text and "\u202e" not in text
        await screen.press("k")
        await screen.until("Kill job 1")

    on_screen(source, test, (140, 40))


def test_a_look_that_comes_while_a_job_is_left_harms_nothing(source: LiveSource) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job1")
        await screen.press("enter")
        await screen.until("Command <")
        await screen.app.screen.remove_children()  # as when it is left, or not all of it is there yet
        screen.app.draw()

    on_screen(source, test)


def test_a_look_that_comes_while_all_is_left_harms_nothing(source: LiveSource) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job1")
        await screen.app.screen.remove_children()  # as at the end, or when not all of it is there yet
        screen.app.draw()

    on_screen(source, test)


def test_it_goes_on_when_the_master_is_back(source: LiveSource, master: FakeMaster) -> None:
    async def test(screen: Screen) -> None:
        await screen.until("job1")
        source.away_since = time.time()
        screen.app.draw()
        await screen.until("the master has not answered for 00:00:0", "job1")
        await screen.until("job1", gone="has not answered")

    on_screen(source, test)


@pytest.mark.parametrize("is_set", [True, False])
def test_colour_unless_no_color(source: LiveSource, monkeypatch: pytest.MonkeyPatch, is_set: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if is_set:
        monkeypatch.setenv("NO_COLOR", "1")

    async def test(screen: Screen) -> None:
        await screen.until("job1")
        filters = [type(each).__name__ for each in screen.app._filters]
        assert ("NoColor" in filters) is is_set and "Monochrome" not in filters

    on_screen(source, test)
