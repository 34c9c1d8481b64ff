"""Which elims are called silent, and when."""

from __future__ import annotations

from gsched.base.coded_text import sentence
from gsched.probe.elims.elim_format import ElimParser
from gsched.probe.elims.elim_silence import Silence
from gsched.probe.elims.elim_table import ElimResource

WANTED = {"lic": ElimResource(10.0), "disk": ElimResource(60.0), "rack": ElimResource(0.0, is_string=True)}


def test_one_that_has_never_spoken_is_named_after_two_intervals() -> None:
    silence = Silence(WANTED)
    silence.started("elim.a", 100.0)
    assert silence.notes(119.9, {}) == () and silence.next_change(100.0) == 120.0
    assert tuple(map(sentence, silence.notes(120.0, {}))) == (
        "elim.a: has said nothing since it was started for more than 20 s",
    )
    assert silence.next_change(120.0) is None
    assert sentence(silence.notes(120.0, {"elim.a": "2 lic"})[0]).endswith(
        "20 s; its last report is incomplete: '2 lic'"
    )


def test_one_that_has_spoken_is_measured_by_what_it_reports() -> None:
    silence = Silence(WANTED)
    silence.started("elim.a", 100.0)
    silence.reported("elim.a", [(("disk", "3"), ("nosuch", "1"))], 110.0)
    assert silence.notes(229.9, {}) == ()
    assert tuple(map(sentence, silence.notes(230.0, {}))) == (
        "elim.a: has said nothing for more than 120 s, so disk may be unknown",
    )
    silence.reported("elim.a", [(("lic", "3"),)], 240.0)
    assert silence.notes(259.0, {}) == ()
    (line,) = silence.notes(260.0, {})
    assert sentence(line) == "elim.a: has said nothing for more than 20 s, so disk and lic may be unknown"
    silence.ended("elim.a")
    assert silence.notes(1e9, {}) == () and silence.next_change(0.0) is None


def test_a_start_begins_anew() -> None:
    silence = Silence(WANTED)
    silence.started("elim.a", 0.0)
    silence.reported("elim.a", [(("lic", "3"),)], 1.0)
    silence.started("elim.a", 1000.0)
    assert silence.notes(1000.0, {}) == () and silence.next_change(1000.0) == 1020.0


def test_what_has_been_begun_of_a_report() -> None:
    parser = ElimParser()
    assert parser.pending == ""
    parser.feed(b"2 lic 3 di")
    assert parser.pending == "2 lic 3 di"
    parser.feed(b"sk ")
    assert parser.pending == "2 lic 3 disk"
    parser.feed(b"4\n")
    assert parser.pending == ""
    parser.feed(b"1")
    assert parser.pending == "1"
