"""A submission is anything that the wire can carry: it is refused with a line, or it is a job; nothing breaks."""

from __future__ import annotations

import typing
from enum import Enum
from typing import Any

import pytest
from core_world import World, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.coded_text import AnyText, CodedText
from gsched.base.errors import BadRequest, Conflict, GschedError, Internal
from gsched.core.command import ModifyJobs
from gsched.core.submission.modify import FIXED
from gsched.core.submission.spec_sizes import MOST_WORDS, SHORT
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.job_plot import JobPlot
from gsched.model.jobs.notice import NoticeWish
from tests.support.property_examples import examples

HINTS = typing.get_type_hints(JobSpec)
SET_BY_MASTER = {"user", "combined_req", "combined_gpu_req", "conditions", "environment", "script", "spooled_input"} | {
    "aging_per_s", "auto_gpu", "notice_targets",
}  # fmt: skip
NAMES = sorted(HINTS.keys() - SET_BY_MASTER)
TEXTS = [
    "", "x", "a", "b", "normal", "1-3", "1-3%2", "[1-3]", "%J", "%%I", "../../etc/passwd", "/dev/null", "/tmp/x", "-1",
    "done(1)", "done(", "select[mem>0]", "rusage[mem=1]", "num=1", "num=1:mode=shared", "EXCLUDE(3)", "3 4", "Is", "9",
    "KILL", "\n", "\x1b[2J", "\u2028", "é", "a b", "a > b", "/g/h", "no such thing", "<", "!", "all", "others",
]  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 53])


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint == AnyText:
        return values_of(str) | st.builds(CodedText, st.text(max_size=9), st.lists(st.text(max_size=9)).map(tuple))
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(typing.get_args(hint)[0]), max_size=3).map(tuple)
    if typing.get_origin(hint) is dict:
        names = st.sampled_from(["MEMLIMIT", "CPULIMIT", "CORELIMIT", "NONSENSE", ""])
        return st.dictionaries(names, st.sampled_from([0.0, 1.0, -1.0, 1e300, 0.5]), max_size=2)
    if hint is NoticeWish:
        words = st.sampled_from(["mail", "webhook", "end", "fail", "", "x"])
        return st.builds(NoticeWish, way=words, events=st.lists(words, max_size=2).map(tuple))
    if hint is JobPlot:
        patterns = st.sampled_from(["loss = ([0-9.]+)", "(", "x", "([0-9]+)([0-9]+)", "(a+)+$"])
        return st.builds(JobPlot, name=st.sampled_from(TEXTS), pattern=patterns)
    kinds = typing.get_args(hint) or (hint,)
    kind = kinds[0]
    some: st.SearchStrategy[Any] = st.just(None)
    if kind is str:
        some = st.sampled_from(TEXTS)
    elif kind is bool:
        some = st.booleans()
    elif kind is int:
        some = NUMBERS
    elif kind is float:
        some = st.sampled_from([0.0, 1.0, -1.0, 1e6 + 5, 2e6, 1e15])
    elif isinstance(kind, type) and issubclass(kind, Enum):
        some = st.sampled_from(list(kind))
    return some | st.none() if type(None) in kinds else some


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    return {name: draw(values_of(HINTS[name])) for name in chosen}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(specs(), min_size=1, max_size=4), st.sampled_from(["submit", "modify"]))
def test_any_submission_is_a_job_or_refused_with_a_line(fields: list[dict[str, Any]], how: str) -> None:
    world = World(make_config("ab"))
    (mine,) = world.submit(spec(hold=True))
    for each in fields:
        named = tuple(name for name in each if name not in FIXED)
        try:
            if how == "submit":
                world.submit(spec(**each))
            elif named:
                world.do(ModifyJobs("ann", False, (mine,), spec(**each), named))
        except Internal as error:
            raise AssertionError(f"{each} is a fault of the master") from error
        except GschedError as error:
            assert error.text and len(error.text) < 3000
    world.settle()
    world.wait(1.0)
    world.check_replay()


@pytest.mark.parametrize("name", [name for name in NAMES if HINTS[name] is str])
def test_no_text_of_a_job_is_without_end(name: str) -> None:
    world = World()
    with pytest.raises(BadRequest):
        world.submit(spec(**{name: "x" * ((1 << 20) + 1)}))
    assert not world.engine.state.jobs


def test_no_null_character_and_no_list_without_end() -> None:
    world = World()
    for name in ("command", "name", "output_file", "specified_cwd", "pre_exec"):
        with pytest.raises(BadRequest, match="a null character in"):
            world.submit(spec(**{name: "/tmp/a\0b"}))
    with pytest.raises(BadRequest, match="a null character in file copies"):
        world.submit(spec(file_copies=("a > b\0",)))
    with pytest.raises(BadRequest, match=f"at most {MOST_WORDS}"):
        world.submit(spec(hosts=("a",) * (MOST_WORDS + 1)))
    with pytest.raises(BadRequest, match=f"name too long .4097 characters, at most {SHORT}"):
        world.submit(spec(name="x" * 4097))
    for fields in (
        {"begin_at": 1e15},
        {"begin_at": -1.0},
        {"terminate_at": -9e9},
        {"run_limit_s": 10**12},
        {"limits": {"MEMLIMIT": 1e300}},
    ):
        with pytest.raises(BadRequest, match="Bad argument: "):
            world.submit(spec(**fields))
    (job_id,) = world.submit(spec(name="x" * 4096, hold=True))
    assert world.modify(job_id, begin_at=1e15) == ["Bad argument: begin at of 1e+15"]
    assert world.modify(job_id, output_file="/a\0b") == ["Bad argument: a null character in output file"]


def test_a_token_has_an_end_and_is_its_users_own() -> None:
    world = World()
    with pytest.raises(BadRequest, match="a token of 1000 characters"):
        world.submit(spec(), token="x" * 1000)
    (job_id,) = world.submit(spec(), token="mine", user="ann")
    assert world.submit(spec(), token="mine", user="ann") == [job_id]
    with pytest.raises(Conflict, match="is already known, and it is another one"):
        world.submit(spec(), token="mine", user="bob")


def test_nobody_makes_job_groups_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.core.control.administration.MOST_GROUPS", 3)
    world = World()
    assert world.groups("add", "/a", "/b", "/c", user="ann") == ["", "", ""]
    assert world.groups("add", "/d", user="ann") == ["3 job groups of ann are the most"]
    assert world.groups("add", "/d", user="bob") == [""]
    with pytest.raises(BadRequest, match="4 job groups at once"):
        world.groups("remove", "/a", "/b", "/c", "/d", user="root")
