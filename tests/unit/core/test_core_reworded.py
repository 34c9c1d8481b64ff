"""No sentence is data: every sentence that the cluster says is changed, and nothing else happens."""

from __future__ import annotations

import re

import pytest
from core_histories import Histories
from core_long_history import live
from core_world import World, spec
from msgspec import structs
from test_core_overuse import accusing, world_with_job

from gsched.base.coded_text import sentence
from gsched.base.sentences import SENTENCES
from gsched.model.config import GmemAction
from gsched.model.event import AnyEvent, JobMessagePosted, encode_event
from gsched.model.views.message_boxes import IDLE_BOX

_BLANK = re.compile(r"(\{[^}]*\})")


def reword(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another language: all words backwards, every parameter still in its place."""
    for code, words in list(SENTENCES.items()):
        pieces = [piece if _BLANK.fullmatch(piece) else piece[::-1] for piece in _BLANK.split(words)]
        monkeypatch.setitem(SENTENCES, code, f"~{''.join(pieces)}~")


def history(seed: int) -> tuple[list[bytes], dict[int, tuple[object, ...]]]:
    """What is stored of a long history with restarts, and why each job of its end waits."""
    world = Histories()
    live(world, seed, 150)
    jobs = world.engine.state.jobs
    why = {number: world.engine.pending_reasons(number) for number, job in jobs.items() if job.state == "PEND"}
    return [encode_event(without_letters(event)) for event in world.events], why


def without_letters(event: AnyEvent) -> AnyEvent:
    """What the system writes into a job's message box is a letter in the words of its day, not a note by code."""
    if isinstance(event, JobMessagePosted) and event.user == "root" and event.box == IDLE_BOX:
        return structs.replace(event, text="")
    return event


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 23])
def test_the_same_happens_in_other_words(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = history(seed)
    reword(monkeypatch)
    assert history(seed) == before


def test_a_note_of_before_the_rewording_is_the_same_note_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version that words a note otherwise does not tell it, or end the job for it, a second time."""
    world, job_id = world_with_job(GmemAction.NOTIFY)
    world.report(gpus=accusing(f"{job_id}.1"))
    (note,) = world.job(job_id).notes
    said = sentence(note)
    reword(monkeypatch)
    world.report(gpus=accusing(f"{job_id}.1"))
    assert world.job(job_id).notes == (note,) and sentence(note) != said


def test_a_reason_is_shown_in_the_words_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    (held,) = world.submit(spec(hold=True))
    assert world.reasons(held) == ("The job was suspended by the user while pending",)
    reword(monkeypatch)
    assert world.reasons(held) == ("~gnidnep elihw resu eht yb dednepsus saw boj ehT~",)
