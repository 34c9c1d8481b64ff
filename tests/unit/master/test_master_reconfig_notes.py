"""Which notes about its files a reconfig tells: the new ones, once."""

from __future__ import annotations

from gsched.base.errors import Problem
from gsched.master.reconfig_notes import KnownNotes


def note(line: int, text: str) -> Problem:
    return Problem("lsf.shared", line, text, "note")


def test_a_note_is_told_once_and_again_after_it_was_gone() -> None:
    notes = KnownNotes([note(31, "ngpus: CONSUMABLE says N")])
    moved = [note(34, "ngpus: CONSUMABLE says N"), note(3, "AAA has no effect")]
    assert notes.news(moved) == ("lsf.shared:3: note: AAA has no effect",)
    assert notes.news(moved) == ("lsf.shared:3: note: AAA has no effect",), "the files are not in force yet"
    notes.replace(moved)
    assert notes.news(moved) == ()
    notes.replace([])
    assert len(notes.news(moved)) == 2


def test_errors_are_no_notes() -> None:
    notes = KnownNotes()
    assert notes.news([Problem("lsf.conf", 1, "wrong")]) == ()
