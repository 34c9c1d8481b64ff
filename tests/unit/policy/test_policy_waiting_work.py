"""The first guess of a wait: by the work that waits before a job and how fast work gets done."""

from __future__ import annotations

import random

import pytest

from gsched.policy.future.waiting_work import SOONEST_S, WaitingShape, WaitingWork

ONE, EIGHT = WaitingShape("normal", 1.0, 1, 100.0), WaitingShape("normal", 8.0, 1, 100.0)


def busy(*, held: WaitingShape = EIGHT, runs_s: float = 100.0) -> WaitingWork:
    """Eight GPUs are held since 1000, and jobs have run as long as they said, hundreds of them."""
    found = WaitingWork()
    for number in range(1_000):
        found.begin(number, held, 0.0)
        found.end(number, runs_s)
    found.begin(-1, held, 1_000.0)
    return found


def test_who_has_more_work_before_it_waits_longer() -> None:
    work = busy()
    alone = work.guess_s(ONE, 1_000.0)
    assert alone == pytest.approx(SOONEST_S + 100.0 / 8, rel=0.01)
    for number in range(2_000, 2_008):
        work.wait(number, ONE)
    assert work.guess_s(ONE, 1_000.0) == pytest.approx(SOONEST_S + 9 * 100.0 / 8, rel=0.01)
    assert work.guess_s(EIGHT, 1_000.0) == pytest.approx(SOONEST_S + 16 * 100.0 / 8, rel=0.01)


def test_smaller_jobs_do_not_wait_for_larger_ones_nor_gpus_for_slots() -> None:
    work = busy()
    alone = work.guess_s(ONE, 1_000.0)
    work.wait(1, EIGHT, 1_000)
    work.wait(2, WaitingShape("normal", 0.0, 64, 100.0), 1_000)
    assert work.guess_s(ONE, 1_000.0) == alone


def test_queues_of_a_lower_priority_are_not_waited_for() -> None:
    work = busy()
    work.configure({"short": 40, "normal": 30, "night": 1})
    waiting = work.guess_s(ONE, 1_000.0)
    work.wait(1, ONE._replace(queue="night"), 100)
    assert work.guess_s(ONE, 1_000.0) == waiting
    work.wait(2, ONE._replace(queue="short"), 100)
    assert work.guess_s(ONE, 1_000.0) > 2 * waiting


def test_what_is_stated_counts_by_what_such_words_were_worth() -> None:
    """Jobs that ran a tenth of their limits: the next are expected to do so too."""
    work = busy(runs_s=10.0)
    assert work.guess_s(ONE, 1_000.0) == pytest.approx(SOONEST_S + 10.0 / 8, rel=0.02)
    assert work.guess_s(ONE._replace(stated_s=None), 1_000.0) == pytest.approx(SOONEST_S + 10.0 / 8, rel=0.02)


def test_an_array_is_as_much_work_as_its_elements() -> None:
    work = busy()
    work.wait(7, ONE, 10)
    first = work.guess_s(ONE, 1_000.0)
    work.leave(7, 4)
    assert SOONEST_S < work.guess_s(ONE, 1_000.0) < first
    assert work.guess_s(ONE, 1_000.0, 7) == first


@pytest.mark.parametrize("seed", range(30))
def test_what_is_kept_is_what_waits_and_runs(seed: int) -> None:
    """After whatever has happened it says what one says that was told of the rest alone."""
    rng = random.Random(seed)
    work, waiting, running = WaitingWork(), {}, {}
    shapes = [
        WaitingShape(queue, gpus, slots, stated)
        for queue in ("a", "b")
        for gpus in (0.0, 0.25, 1.0, 4.0)
        for slots in (1, 8)
        for stated in (None, 60.0, 3_600.0)
    ]
    for step in range(400):
        number, shape = rng.randrange(40), rng.choice(shapes)
        match rng.randrange(4):
            case 0:
                waiting[number] = shape, rng.randint(1, 5)
                work.wait(number, *waiting[number])
            case 1:
                left = rng.randint(0, 2)
                work.leave(number, left)
                if number in waiting and left < waiting[number][1]:
                    waiting[number] = waiting[number][0], left
                    if not left:
                        del waiting[number]
            case 2:
                running[number] = shape
                work.begin(number, shape, float(step))
            case 3:
                running.pop(number, None)
                work.end(number, float(step))
    for number in list(running):
        work.end(number, 400.0)
    anew = WaitingWork()
    anew._run_s, anew._share = work._run_s, work._share
    for number, (shape, count) in waiting.items():
        anew.wait(number, shape, count)
    for shape in shapes:
        assert work.guess_s(shape, 400.0) == pytest.approx(anew.guess_s(shape, 400.0))
        assert work.guess_s(shape, 400.0) >= SOONEST_S
    assert len(work._kinds) <= len(shapes) and (work._held_gpus, work._held_slots) == (0.0, 0.0)
