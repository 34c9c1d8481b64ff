"""Judging hosts: three-valued logic, reasons with numbers, names."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resreq_readings import order_keys, rusage_amounts

from gsched.base.errors import RequirementError
from gsched.resreq.judging.evaluate import Value, Verdict, compile_select
from gsched.resreq.parsing.names import check_names, names_in
from gsched.resreq.parsing.syntax import BAD_NAME, BAD_SYNTAX, parse


def judge(text: str, **values: Value) -> Verdict:
    return compile_select(parse(text).select, local_type="LINUX")(values)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("1", True),
        ("0", False),
        ("mem", True),
        ("mem>100", False),
        ("mem>=100", True),
        ("mem<=100&&mem<101", True),
        ("mem=100", True),
        ("mem!=100", False),
        ("mem>0.09G", True),
        ("mem==swp/2", True),
        ("mem+swp*2==500", True),
        ("(mem+swp)*2==600", True),
        ("-mem==0-100", True),
        ("--mem==mem", True),
        ("big", True),
        ("!big", False),
        ("big==1", True),
        ("(mem>1)+(swp>1)==2", True),
        ("small||big", True),
        ("small&&big", False),
        ("defined(mem)", True),
        ("defined(nothing)", False),
        ("!defined(nothing)", True),
        ("defined(silent)", False),
        ("type==LINUX", True),
        ("type=='LINUX'", True),
        ("type!=LINUX", False),
        ("type==local", True),
        ("type!=local", False),
        ("type==any", True),
        ("type!=any", False),
        ("model==any", True),
        ("hname==gpu-01", True),
        ("hname>gpu-00", True),
        ("fab==ib0", True),
        ("fab==ib1", False),
        ("fab=='ib0'", True),
        ("slotno==10", True),
        ("cpu<1", True),
        ("idle>0", None),
        ("r1m<1", True),
    ],
)
def test_values(text: str, holds: bool | None) -> None:
    host: dict[str, Value] = {"mem": 100.0, "swp": 200.0, "big": True, "small": False, "silent": None, "r1m": 0.5}
    host |= {"type": "LINUX", "model": "K80", "hname": "gpu-01", "fab": "ib0", "ib0": 7.0, "slotno": "10"}
    assert judge(text, **host).holds is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x>0", None),
        ("x==0", None),
        ("!x", None),
        ("x<0||x>=0", None),
        ("x>0&&zero", False),
        ("zero&&x>0", False),
        ("x>0&&one", None),
        ("x>0||one", True),
        ("one||x>0", True),
        ("x>0||zero", None),
        ("!(x>0&&one)", None),
        ("x*0==0", None),
        ("type==X86", None),
        ("one/zero>1", None),
        ("word", None),
        ("word>1", None),
        ("word!=1", True),
        ("one>'b'", None),
        ("word+1>0", None),
        ("nan>0", None),
        ("nan<=0", None),
    ],
)
def test_unknown_is_not_zero(text: str, holds: bool | None) -> None:
    values: dict[str, Value] = {"x": None, "zero": 0.0, "one": 1, "word": "a", "nan": float("nan")}
    assert judge(text, **values).holds is holds
    del values["x"]
    assert judge(text, **values).holds is holds


@pytest.mark.parametrize(
    ("text", "reason", "unknown"),
    [
        ("ngpus>0", "ngpus>0: ngpus is 0", ()),
        ("mem>1&&(ngpus>0||lost)", "lost: lost is unknown", ("lost",)),
        ("mem>=16G", "mem>=16G: mem is 1000.50", ()),
        ("mem>swp*2 && ngpus>0", "mem>swp*2: mem is 1000.50, swp is 3000", ()),
        ("lost>0 && mem>5", "lost>0: lost is unknown", ("lost",)),
        ("lost>0 && ngpus>0", "ngpus>0: ngpus is 0", ()),
        ("ngpus>0 || mem>2G", "ngpus>0: ngpus is 0; mem>2G: mem is 1000.50", ()),
        ("big", "big: big is false", ()),
        ("!(ngpus==0)", "!(ngpus==0): ngpus is 0", ()),
        ("type==local", "type==local: type is PPC, local is LINUX", ()),
        ("defined(lost)", "defined(lost): lost is unknown", ()),
        ("mem/ngpus>1", "mem/ngpus>1: mem is 1000.50, ngpus is 0, this cannot be computed", ()),
        ("1>2", "1>2: this is never true", ()),
        ("fab==ib1", "fab==ib1: fab is ib0", ()),
    ],
)
def test_reasons_quote_the_numbers(text: str, reason: str, unknown: tuple[str, ...]) -> None:
    host: dict[str, Value] = {"ngpus": 0.0, "mem": 1000.5, "swp": 3000.0, "big": False, "type": "PPC", "fab": "ib0"}
    verdict = judge(text, **host)
    assert not verdict
    assert (verdict.reason, verdict.unknown) == (reason, unknown)


def test_a_host_that_holds_needs_no_reason() -> None:
    assert judge("mem>1", mem=2.0) == Verdict(True)
    assert compile_select(None)({}) == Verdict(True)


def test_local_without_a_known_type_is_unknown() -> None:
    verdict = compile_select(parse("type==local").select)({"type": "LINUX"})
    assert verdict.holds is None
    assert verdict.unknown == ("local",)


def test_many_failed_alternatives_stay_one_short_reason() -> None:
    verdict = judge("||".join(f"r{i}>0" for i in range(100)), **dict.fromkeys((f"r{i}" for i in range(100)), 0.0))
    assert verdict.reason.endswith("; and 96 more")
    assert len(verdict.reason) < 120


calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

_terms = st.sampled_from(["x>0", "y>0", "z", "!x", "x==y", "x+y>z", "1", "0"])
_logic = st.recursive(
    _terms,
    lambda inner: (
        st.builds("({})&&({})".format, inner, inner)
        | st.builds("({})||({})".format, inner, inner)
        | st.builds("!({})".format, inner)
    ),
    max_leaves=8,
)


@calm
@given(_logic, st.tuples(*[st.sampled_from([None, 0.0, 1.0])] * 3))
def test_a_decided_verdict_never_changes_when_the_unknown_becomes_known(
    text: str, known: tuple[float | None, ...]
) -> None:
    compute = compile_select(parse(text).select)
    verdict = compute(dict(zip("xyz", known, strict=True)))
    if verdict.holds is None:
        assert verdict.unknown
    else:
        for full in product(*[(0.0, 1.0) if value is None else (value,) for value in known]):
            assert compute(dict(zip("xyz", full, strict=True))).holds is verdict.holds


@calm
@given(
    st.sampled_from(["a>b", "a==b", "a-b<b*a", "a/b>=0", "!a||b", "a=='x'", "type==a", "type==local", "-a<b", "a+b"]),
    st.dictionaries(
        st.sampled_from(["a", "b", "type"]),
        st.none() | st.floats() | st.integers() | st.booleans() | st.text("ab1", max_size=3),
    ),
)
def test_no_value_makes_a_judge_raise(text: str, values: dict[str, Value]) -> None:
    verdict = compile_select(parse(text).select, local_type="LINUX")(values)
    assert bool(verdict.reason) is (verdict.holds is not True)


def test_order_keys() -> None:
    assert order_keys(parse("")) == [("r15s", False), ("pg", False)]
    assert order_keys(parse("order[-mem:cpu]")) == [("mem", True), ("r1m", False)]


def test_rusage_amounts() -> None:
    assert rusage_amounts(parse("rusage[ngpus_excl_p=2,mem=16G:swap=1]")) == {
        "ngpus_excl_p": 2.0,
        "mem": 16384.0,
        "swp": 1.0,
    }
    assert rusage_amounts(parse("mem>5")) == {}


def test_names_in() -> None:
    text = "select[a>1 && type==X86 && defined(b) && cpu<c*a && fab==ib0 && s=='q'] order[d] rusage[a=1,e=2] same[f]"
    names = names_in(parse(text), is_text=lambda name: name == "fab")
    assert list(names) == ["a", "type", "b", "r1m", "c", "fab", "s", "d", "e", "f"]
    assert names["a"] == 7
    for name in ("type", "fab", "d", "e"):
        assert text[names[name] :].startswith(name)
    assert "ib0" in names_in(parse(text))


def test_unknown_names_are_refused_with_the_nearest() -> None:
    known = ["ngpus", "ngpus_excl_p", "ngpus_excl_t", "mem", "r1m"]
    check_names(parse("select[ngpus>0 && cpu<1] rusage[ngpus_excl_p=1]"), known.__contains__, known)
    with pytest.raises(RequirementError) as caught:
        check_names(parse("rusage[ngpus_exclp=1] order[zzz]"), known.__contains__, known)
    assert caught.value.kind == BAD_NAME
    assert caught.value.text == (
        "Bad resource name: ngpus_exclp (did you mean ngpus_excl_p?) at position 8 of "
        "<rusage[ngpus_exclp=1] order[zzz]>"
    )
    with pytest.raises(RequirementError, match=r"^Bad resource name: zzz at position 7 of <order\[zzz\]>$"):
        check_names(parse("order[zzz]"), known.__contains__, known)


def test_a_number_is_not_compared_with_text() -> None:
    check_names(parse("fab=='x' && fab==10core"), lambda _: True, [], is_text=lambda name: name == "fab")
    with pytest.raises(RequirementError, match="mem is a number and 'x' is text at position 6") as caught:
        check_names(parse("a && mem=='x'"), lambda _: True, [], is_text=lambda name: name == "fab")
    assert caught.value.kind == BAD_SYNTAX
