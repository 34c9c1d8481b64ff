"""Texts that people type and read: sets of numbers, sizes, run limits, names of attempts, errors, time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base import errors
from gsched.base.clock import SystemClock
from gsched.base.errors import BadRequest, ConfigError, GschedError, Problem, RequirementError
from gsched.base.ids import attempt_name, new_token, parse_attempt_name
from gsched.base.idset import MAX_MEMBERS, format_idset, parse_idset
from gsched.base.units import format_scaled_mib, parse_mib, parse_run_limit
from tests.support.manual_clock import ManualClock

# -- sets of numbers --------------------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 300)))
def test_a_set_is_read_back_as_it_was_written(members: set[int]) -> None:
    text = format_idset(members)
    assert parse_idset(text) == tuple(sorted(members)) if members else text == ""


@pytest.mark.parametrize(
    ("members", "text"), [([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([5, 4, 4, 1], "1,4-5"), ([9, 11], "9,11"), ([], "")]
)
def test_the_shortest_text(members: list[int], text: str) -> None:
    assert format_idset(members) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [("", "''"), ("1,,2", "''"), ("a", "'a'"), ("1-", "'1-'"), ("-1", "'-1'"), ("1-2-3", "'1-2-3'"), ("²", "'²'"),
     ("3-1", "range '3-1' in '3-1' runs backwards"), (f"0-{MAX_MEMBERS}", "more than"),
     ("0-99999999999999", "more than")],
)  # fmt: skip
def test_what_is_no_set_is_named(text: str, named: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_idset(text)
    assert named in caught.value.text


def test_a_set_is_bounded_over_all_its_parts() -> None:
    assert parse_idset(" 1 , 2-3 ", limit=5) == (1, 2, 3)
    with pytest.raises(BadRequest, match="more than 5 numbers"):
        parse_idset("1-3,4-6,7", limit=5)


# -- sizes and durations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "mib"),
    [("500", "M", 500.0), ("500", "K", 500 / 1024), ("16G", "M", 16384.0), ("16gb", "M", 16384.0),
     ("1.5T", "M", 1572864.0), ("2048KB", "M", 2.0), ("0", "M", 0.0), (" 3M ", "G", 3.0), ("1e3", "M", 1000.0)],
)  # fmt: skip
def test_sizes(text: str, unit: str, mib: float) -> None:
    assert parse_mib(text, unit) == mib


@pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1 2", "nan", "inf", "1e30", "0x10", "MB", "1MG"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadRequest, match="is not a size such as"):
        parse_mib(text)


@pytest.mark.parametrize(
    ("mib", "text"),
    [(0, "0M"), (853.2, "853M"), (1023.4, "1023M"), (1024, "1G"), (38502, "37.6G"), (128000, "125G"), (1258291, "1.2T"),
     (1024.0**3, "1P"), (5000 * 1024.0**3, "5000P")],
)  # fmt: skip
def test_sizes_in_tables(mib: float, text: str) -> None:
    assert format_scaled_mib(mib) == text


@given(st.floats(0, 1e12))
def test_a_size_in_a_table_is_short_and_about_right(mib: float) -> None:
    text = format_scaled_mib(mib)
    assert len(text) <= 6
    assert parse_mib(text) == pytest.approx(mib, rel=0.06, abs=0.51)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", 60), ("90", 5400), ("1:30", 5400), ("0:90", 5400), ("100:00", 360000)]
)
def test_run_limits(text: str, seconds: int) -> None:
    assert parse_run_limit(text) == seconds


@pytest.mark.parametrize("text", ["", ":", "1:", ":5", "-5", "1.5", "1:2:3", "x", "٣", "999999999999"])
def test_what_is_no_run_limit(text: str) -> None:
    with pytest.raises(BadRequest, match=r"is not a run limit of the form \[hours:\]minutes"):
        parse_run_limit(text)


@pytest.mark.parametrize("text", ["0", "0:0", "00:00"])
def test_no_time_at_all_is_no_run_limit(text: str) -> None:
    with pytest.raises(BadRequest, match="at least one minute"):
        parse_run_limit(text)


# -- names ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**12), st.integers(0, 10**6))
def test_names_of_attempts(job_id: int, attempt: int) -> None:
    assert parse_attempt_name(attempt_name(job_id, attempt)) == (job_id, attempt)


@pytest.mark.parametrize("text", ["", "17", "17.", ".1", "17.1.2", "a.b", "-1.2", "١.1", "17.1 "])
def test_what_names_no_attempt(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an attempt"):
        parse_attempt_name(text)


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(100)}) == 100


# -- errors -----------------------------------------------------------------------------------------------------------

GRPC_STATUSES = {
    "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE",
    "INTERNAL", "UNKNOWN", "DATA_LOSS",
}  # fmt: skip


def test_every_error_knows_its_status_and_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GschedError)]
    assert len(kinds) > 8
    for kind in kinds:
        assert kind.status in GRPC_STATUSES and 0 < kind.exit_code < 256


def test_a_requirement_error_points_at_the_place() -> None:
    error = RequirementError("Bad resource name", "ngpu (did you mean ngpus?)", "select[ngpu>0]", 7)
    assert (
        error.text == str(error) == ("Bad resource name: ngpu (did you mean ngpus?) at position 8 of <select[ngpu>0]>")
    )


def test_a_config_error_lists_all_its_problems() -> None:
    problems = [Problem("lsb.queues", 3, "no such thing"), Problem("lsf.conf", 0, "odd", severity="note")]
    assert ConfigError(problems).text == "lsb.queues:3: no such thing\nlsf.conf: note: odd"


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(100.0)
    assert (clock.now(), clock.monotonic()) == (100.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_the_system_clock_is_this_machines() -> None:
    clock = SystemClock()
    assert clock.now() > 1_600_000_000
    assert clock.monotonic() <= clock.monotonic()
