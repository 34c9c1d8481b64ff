"""ghist -t in order of time, and the spans of -S, -D, -C and -T."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster
from test_cli_history import job_220, job_221, job_1270

from gsched.base.ids import element_id

NewCall = Callable[..., FakeCall]
HISTORIES = {each.job_id: each.events for each in (job_220(), job_221(), job_1270())}
NOTHING = "No matching job found\n"


def test_events_of_all_jobs_in_order_of_time(master: FakeMaster, call: NewCall) -> None:
    master.histories = dict(HISTORIES)
    told = call("bhist", "-UF", "-t", "-T", "2017/7/5/11:34,2017/7/5/11:35", TZ="UTC")
    assert told.run() == 0
    lines = told.out.splitlines()
    assert lines[0].startswith("Wed Jul  5 11:34:11: Job <220>, User <test>, Project <default>, Command <sudo ")
    assert "Submitted from host <ubuntu02>, to Queue <normal>, CWD </opt/DL/caffe-nv>;" in lines[0]
    assert lines[2] == "Wed Jul  5 11:34:12: Job <220> Starting (Pid 7824);"
    stamps = [line[:19] for line in lines]
    assert stamps == sorted(stamps) and stamps[-1] == "Wed Jul  5 11:35:45"
    assert any(line.startswith("Wed Jul  5 11:35:18: Job <221> Exited with exit code 134.") for line in lines)
    assert "1270" not in told.out
    assert master.filters[-1].finished


def test_the_last_week_may_be_empty(master: FakeMaster, call: NewCall) -> None:
    master.histories = dict(HISTORIES)
    told = call("ghist", "-t")
    assert (told.run(), told.out) == (255, "No matching job/event found\n")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("-S", "2017/7/5"), ["220", "221"]),
        (("-C", "2017/7/5/11:35,2017/7/5/11:35"), ["220", "221"]),
        (("-D", "2017/7/7/18:02"), ["1270"]),
        (("-S", "2017/7/5", "-D", "2017/7/7"), []),
        (("-C", "2017/7/7,"), ["1270"]),
    ],
)
def test_jobs_of_a_time(master: FakeMaster, call: NewCall, options: tuple[str, ...], found: list[str]) -> None:
    master.histories = dict(HISTORIES)
    told = call("bhist", *options, TZ="UTC")
    assert told.run() == (0 if found else 255)
    rows = told.out.splitlines()[2:] if found else []
    assert [row.split()[0] for row in rows] == found
    assert found or told.out == NOTHING


def test_elements_stand_with_their_array(master: FakeMaster, call: NewCall) -> None:
    master.histories = {element_id(7, 2): job_220().events, 7: job_220().events, 220: job_220().events}
    told = call("bhist", "-a")
    assert told.run() == 0
    assert [row.split()[0] for row in told.out.splitlines()[2:]] == ["7", "7[2]", "220"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("ghist", "-T", "1/1"), "ghist: -T is given together with -t\n"),
        (("ghist", "-C", "x"), "Bad time specification: 'x' is not of the form"),
    ],
)
def test_what_cannot_be_asked(master: FakeMaster, call: NewCall, argv: tuple[str, ...], text: str) -> None:
    told = call(*argv)
    assert told.run() == 255 and told.err.startswith(text)
