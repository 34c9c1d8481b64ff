"""What bsub's options mean for a job, one by one."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.base.indices import parse_indices
from gsched.dialect.bsub_options import BSUB, NOTED
from gsched.dialect.options import Option, Parsed
from gsched.dialect.spec_values import READERS, ValueContext, spec_values
from gsched.dialect.times import parse_time

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC).timestamp()
AROUND = ValueContext(cwd="/home/ann", now=NOW, zone=UTC)


def values(*words: str, around: ValueContext = AROUND) -> dict[str, Any]:
    return spec_values(BSUB.read(words), around)


def refusal(*words: str) -> str:
    with pytest.raises(BadRequest) as caught:
        values(*words)
    assert "\n" not in caught.value.text
    return caught.value.text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-n", "4"], {"slots": 4, "max_slots": 0}),
        (["-n", "2,8"], {"slots": 2, "max_slots": 8}),
        (["-n", "4, 4"], {"slots": 4, "max_slots": 0}),
        (["-J", "plain%5"], {"name": "plain%5", "indices": "", "array_limit": 0}),
        (["-J", "a b[1-10:2]%5"], {"name": "a b", "indices": "1-9:2", "array_limit": 5}),
        (["-J", "[3,1]"], {"name": "", "indices": "1,3", "array_limit": 0}),
        (["-J", "n[1-1000000000]"], {"name": "n", "indices": "1-1000000000", "array_limit": 0}),
        (["-Jd", "why it runs"], {"description": "why it runs"}),
        (["-w", ' done(1) && ended("a b") '], {"dependency": 'done(1) && ended("a b")'}),
        (["-sp", "20"], {"priority": 20}),
        (["-g", "/risk/night"], {"group": "/risk/night"}),
        (["-g", "/"], {"group": ""}),
        (["-G", "ml"], {"user_group": "ml"}),
        (["-U", "ann#0"], {"reservation": "ann#0"}),
        (["-x"], {"exclusive": True}),
        (["-r"], {"rerunnable": True}),
        (["-r", "-rn"], {"rerunnable": False}),
        (["-Q", "all ~0  EXCLUDE(5 6)"], {"requeue_exit_values": "all ~0 EXCLUDE(5 6)"}),
        (["-Q", "30 31"], {"requeue_exit_values": "30 31"}),
        (["-Q", "EXCLUDE(20)"], {"requeue_exit_values": "EXCLUDE(20)"}),
        (["-gpu", "num=2:mode=exclusive_process"], {"gpu_req": "num=2:mode=exclusive_process"}),
        (["-gpu", "-"], {"gpu_req": "-"}),
        (["-We", "2:30"], {"estimate_s": 9000}),
        (["-M", "4G"], {"limits": {"MEMLIMIT": 4096.0}}),
        (["-M", "512", "-v", "1GB"], {"limits": {"MEMLIMIT": 512.0, "SWAPLIMIT": 1024.0}}),
        (["-M", "100KB!"], {"limits": {"MEMLIMIT": 1.0}}),
        (["-c", "1:30", "-p", "8", "-T", "64"], {"limits": {"CPULIMIT": 5400.0, "PROCESSLIMIT": 8, "THREADLIMIT": 64}}),
        (
            ["-F", "1M", "-D", "2G", "-S", "8", "-C", "0"],
            {"limits": {"FILELIMIT": 1024.0, "DATALIMIT": 2097152.0, "STACKLIMIT": 8192.0, "CORELIMIT": 0.0}},
        ),
    ],
)
def test_what_an_option_says(words: list[str], expected: dict[str, Any]) -> None:
    assert values(*words) == expected


@pytest.mark.parametrize(
    ("text", "hosts", "levels", "first", "others"),
    [
        ("b a", ("b", "a"), (), (), False),
        ("a+2 b+ c others", ("a", "b", "c"), (2, 1, 0), (), True),
        ("a! b! rack1", ("a", "b", "rack1"), (), ("a", "b"), False),
        ("all", (), (), (), False),
        ("a+1 all", ("a",), (1,), (), True),
        ("a a", ("a",), (), (), False),
    ],
)
def test_hosts(
    text: str, hosts: tuple[str, ...], levels: tuple[int, ...], first: tuple[str, ...], others: bool
) -> None:
    found = values("-m", text)
    assert found == {"hosts": hosts, "host_levels": levels, "first_hosts": first, "other_hosts": others}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-m", "a+x"], "-m: 'a+x' is not of the form HOST, HOST+LEVEL or HOST!"),
        (["-m", "a!+2"], "-m: 'a!+2' is not of the form HOST, HOST+LEVEL or HOST!"),
        (["-m", "others"], "-m: 'others' means those that are not named: name at least one host beside it"),
        (["-m", "a others+1"], "-m: 'others+1': 'others' takes neither + nor !"),
        (["-m", "all!"], "-m: 'all!': 'all' takes neither + nor !"),
        (["-m", "a+1 a+2"], "-m: 'a' is named twice and differently"),
        (["-m", "a! a"], "-m: 'a' is named twice and differently"),
        (["-m", " "], "option -m needs the name of a host or host group"),
        (["-m", "all ~a"], "-m: leaving out hosts ('~a') is not supported yet; use -R \"select[hname!=...]\""),
        (["-J", "a[1-3"], "Job array index error: 'a[1-3' is not of the form NAME[INDICES] or NAME[INDICES]%LIMIT"),
        (["-J", "a[0-3]"], "Job array index error: '0-3' counts no indices upwards from 1"),
        (["-J", "a[]"], "Job array index error: '' is not of the form START[-END[:STEP]]"),
        (["-J", "a[1,3,1]"], "Job array index error: index 1 is named twice"),
        (
            ["-J", "a[1-2000000000:4,2-2000000000:6]"],
            "Job array index error: ranges that overlap may hold 50000 indices together, where they do not take turns",
        ),
        (
            ["-J", "a[1-9999999999]"],
            "Job array index too large: 9999999999; the largest allowed is 2147483646 (MAX_JOB_ARRAY_SIZE)",
        ),
        (["-J", "a[1-3]%0"], "-J 'a[1-3]%0': a limit of started elements is at least 1"),
        (["-J", "a[1]b"], "Job array index error: 'a[1]b' is not of the form NAME[INDICES] or NAME[INDICES]%LIMIT"),
        (["-w", " "], "Dependency condition syntax error: -w needs a condition that is not empty"),
        (["-sp", "0"], "Bad user priority: -sp '0' is not a number of at least 1"),
        (["-g", "risk"], "Bad job group name: -g 'risk' does not begin with /"),
        (["-g", "/a//b"], "Bad job group name: -g '/a//b' has an empty part"),
        (["-g", "/" + "a" * 512], "Bad job group name: it is longer than 512 characters"),
        (["-G", "a b"], "option -G needs the name of a user group, not 'a b'"),
        (["-Q", "256"], "-Q: '256' is not an exit code from 0 to 255"),
        (["-Q", "all 5"], "-Q: '5': after all only ~CODE may stand"),
        (["-Q", "~5"], "-Q: '~5' is not an exit code from 0 to 255"),
        (["-Q", ""], "-Q '' names no exit code"),
        (
            ["-Q", "1 EXCLUDE(2) EXCLUDE(3)"],
            "-Q '1 EXCLUDE(2) EXCLUDE(3)': EXCLUDE() may stand once; it takes several codes",
        ),
        (["-We", "soon"], "-We: 'soon' is not an estimate of the form [hours:]minutes"),
        (["-M", "lots"], "-M: 'lots' is not a size such as 500, 500MB or 16G"),
        (["-M", "0"], "-M: '0': a limit is more than 0"),
        (["-M", "-5"], "-M: '-5' is not a size such as 500, 500MB or 16G"),
        (["-p", "0"], "-p: '0' is not a number of at least 1"),
        (["-c", "fast"], "Bad CPU limit specification: -c 'fast' is not of the form [hours:]minutes"),
        (["-b", "25:00"], "Bad time specification: '25:00' holds no time from 0:00 to 23:59"),
        (["-b", "noon"], "Bad time specification: 'noon' is not of the form [[[year:]month:]day:]hour:minute"),
        (["-b", "2:30:8:00"], "Bad time specification: '2:30:8:00' holds no date that there is"),
        (["-t", "2025:1:1:8:00"], "Bad time specification: -t '2025:1:1:8:00' is over already"),
        (["-b", "20:00", "-t", "19:00"], "Start time is later than termination time"),
    ],
)
def test_what_is_refused(words: list[str], reason: str) -> None:
    assert refusal(*words) == reason


def test_a_gpu_requirement_is_checked_and_the_place_is_told() -> None:
    assert refusal("-gpu", "num=2:mod=shared").startswith(
        "Bad GPU requirement: 'mod' is not an option (did you mean mode?)"
    )


def test_sizes_are_in_the_clusters_unit() -> None:
    around = ValueContext(cwd="/", now=NOW, zone=UTC, unit="GB")
    assert values("-M", "4", around=around) == {"limits": {"MEMLIMIT": 4096.0}}
    # As LSF does it, a limit is rounded up to a whole unit.
    assert values("-M", "4MB", around=around) == {"limits": {"MEMLIMIT": 1024.0}}
    assert values("-S", "4MB", around=around) == {"limits": {"STACKLIMIT": 4096.0}}
    asked = values("-R", "mem>2", "-R", "rusage[mem=0.5]", "-gpu", "num=1:gmem=16", around=around)
    assert asked == {"res_req": "select[mem>2GB] rusage[mem=0.5GB]", "gpu_req": "num=1:gmem=16GB"}
    with pytest.raises(BadRequest, match="LSF_UNIT_FOR_LIMITS=PAGES: this is none of KB, MB"):
        values("-M", "4", around=ValueContext(cwd="/", now=NOW, zone=UTC, unit="PAGES"))


def at(*parts: int, zone: tzinfo = UTC) -> float:
    return datetime(*parts, tzinfo=zone).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20:00", at(2026, 11, 21, 20, 0)),
        ("12:00", at(2026, 11, 22, 12, 0)),
        ("12:01", at(2026, 11, 21, 12, 1)),
        ("21:13:00", at(2026, 11, 21, 13, 0)),
        ("21:11:00", at(2026, 12, 21, 11, 0)),
        ("31:0:00", at(2026, 12, 31, 0, 0)),
        ("3:5:08:30", at(2027, 3, 5, 8, 30)),
        ("2:29:00:00", at(2028, 2, 29, 0, 0)),
        ("2020:1:2:3:04", at(2020, 1, 2, 3, 4)),
        ("2027:12:31:23:59", at(2027, 12, 31, 23, 59)),
    ],
)
def test_times(text: str, expected: float) -> None:
    assert parse_time(text, NOW, UTC) == expected


def test_times_are_the_callers() -> None:
    seoul = ZoneInfo("Asia/Seoul")  # where it is 21:00:30
    assert parse_time("21:00", NOW, seoul) == at(2026, 11, 22, 21, 0, zone=seoul)
    assert parse_time("22:00", NOW, seoul) == at(2026, 11, 21, 22, 0, zone=seoul)


@given(
    st.integers(1, 31),
    st.integers(0, 23),
    st.integers(0, 59),
    st.floats(0, 4e9),
    st.sampled_from([UTC, ZoneInfo("America/New_York")]),
)
def test_the_next_such_time_is_later_and_looks_as_asked(
    day: int, hour: int, minute: int, now: float, zone: tzinfo
) -> None:
    found = parse_time(f"{day}:{hour}:{minute:02}", now, zone)
    shown = datetime.fromtimestamp(found, zone)
    assert now < found < now + 64 * 86400
    assert shown.day == day and shown.minute == minute
    assert shown.hour == hour or zone is not UTC  # an hour that a change of clocks leaves out


OPTIONS = sorted([*READERS, "R", "c", "M", "v", "p", "T", "F", "D", "S", "C"])


@given(st.lists(st.tuples(st.sampled_from(OPTIONS), st.text(max_size=20)), max_size=4))
def test_any_value_is_taken_or_refused_with_one_line(given_options: list[tuple[str, str]]) -> None:
    try:
        spec_values(Parsed(tuple(given_options)), AROUND)
    except BadRequest as error:
        assert error.text


@given(st.text(alphabet="a[]1-9:,%0 ", min_size=1, max_size=20))
def test_an_array_is_read_or_refused(name: str) -> None:
    try:
        found = values("-J", name)
    except BadRequest:
        return
    if found["indices"]:
        assert str(parse_indices(found["indices"], 10**10)) == found["indices"]
    else:
        assert found["name"] == name


def test_options_of_arrays_and_ranges_may_stand_in_a_script() -> None:
    from gsched.dialect.bsub import read_submission

    script = b'#BSUB -J "a[1-4]%2" -n 2,4\n#BSUB -M 1G -c 60\n#BSUB -rn\nhostname\n'
    words = ["-r", "-M", "2G"]
    asked = read_submission(words, read_stdin=lambda: script, read_file=lambda path: b"", env={}, around=AROUND)
    assert (asked.spec.indices, asked.spec.array_limit, asked.spec.slots, asked.spec.max_slots) == ("1-4", 2, 2, 4)
    assert asked.spec.limits == {"MEMLIMIT": 2048.0, "CPULIMIT": 3600.0}
    assert asked.spec.rerunnable is True


@pytest.mark.parametrize("option", NOTED, ids=lambda option: option.name)
def test_an_option_without_effect_is_taken_with_a_warning(option: Option) -> None:
    found = values(*([f"-{option.name}", "1"] if option.value else [f"-{option.name}"]), "true")
    (warning,) = found["warnings"]
    assert sentence(warning) == f"-{option.name} has no effect: {option.noted}"
    assert list(found) == ["warnings"]
