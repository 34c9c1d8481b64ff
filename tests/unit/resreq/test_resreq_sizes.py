"""Sizes without a unit get the cluster's, and nothing else in a requirement changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import RequirementError
from gsched.resreq.ast import Comparison, Name, Number, Requirement
from gsched.resreq.parsing.gpu import with_unit as gpu_with_unit
from gsched.resreq.parsing.syntax import in_unit, parse, parse_any, with_unit


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("select[mem>=2000]", "select[mem>=2000KB]"),
        ("  mem>500 && ut<0.5 ", "  mem>500KB && ut<0.5 "),
        ("select[mem>2G || swap>1.5]", "select[mem>2G || swap>1.5KB]"),
        ("select[1000<tmp]", "select[1000KB<tmp]"),
        ("select[mem-100>maxmem/2 + 50]", "select[mem-100KB>maxmem/2 + 50KB]"),
        ("select[mem>2*1000]", "select[mem>2KB*1000]"),
        ("select[mem>2*(swp + 7)]", "select[mem>2*(swp + 7KB)]"),
        ("select[mem/maxmem>0.5 && (mem-8)/maxmem>0.25]", "select[mem/maxmem>0.5 && (mem-8KB)/maxmem>0.25]"),
        ("select[1/mem<3]", "select[1/mem<3]"),
        ("select[mem>0 && r1m<5 && ncpus>4]", "select[mem>0 && r1m<5 && ncpus>4]"),
        ("select[!(mem>5) && defined(mem)]", "select[!(mem>5KB) && defined(mem)]"),
        ("select[mem>-5]", "select[mem>-5KB]"),
        ("mem=20:ut=5:swp=10", "mem=20KB:ut=5:swp=10KB"),
        ("order[mem-100*ncpus:ut]", "order[mem-100KB*ncpus:ut]"),
        ("rusage[mem=200/host:duration=20:decay=1,lic=2]", "rusage[mem=200KB/host:duration=20:decay=1,lic=2]"),
        ("rusage[mem=(50 2G 20):duration=(5 6)]", "rusage[mem=(50KB 2G 20KB):duration=(5 6)]"),
        ("rusage[mem=5 || mem=5]", "rusage[mem=5KB || mem=5KB]"),
        ("rusage[mem=5:threshold=7,lic=1:threshold=2]", "rusage[mem=5KB:threshold=7KB,lic=1:threshold=2]"),
        ("rusage[ngpus_physical=2:gmem=500]", "rusage[ngpus_physical=2:gmem=500KB]"),
        ("rusage[ngpus_physical=2:gmem='500']", "rusage[ngpus_physical=2:gmem='500KB']"),
        (
            "2*{mem>1 rusage[mem=0.5]} + {tmp>3}",
            "2*{mem>1KB rusage[mem=0.5KB]} + {tmp>3KB}",
        ),
        ("{rusage[mem=5]} || {rusage[mem=4]}@60", "{rusage[mem=5KB]} || {rusage[mem=4KB]}@60"),
        ("span[ptile=2] same[model]", "span[ptile=2] same[model]"),
    ],
)
def test_sizes_get_their_unit(text: str, meant: str) -> None:
    assert with_unit(text, "K") == meant
    assert with_unit(meant, "K") == meant
    assert with_unit(text, "M") == text
    parse_any(meant)


def test_a_size_of_another_unit_is_read_as_one() -> None:
    read = parse(with_unit("mem>=2048", "K"))
    assert read == Requirement(select=Comparison(">=", Name("mem"), Number(2.0, "2048KB", True)))
    assert parse(with_unit("rusage[mem=0.5]", "G")).rusage[0].amount == 512.0


def test_what_is_wrong_stays_wrong() -> None:
    with pytest.raises(RequirementError):
        with_unit("rusage[mem=]", "K")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "select[(mem>2.00) && (swp>1)] rusage[mem=1.953125]",
            "select[(mem>2048.00) && (swp>1024.00)] rusage[mem=2000.00]",
        ),
        ("rusage[mem=(2.00 1.00):duration=8h,lic=1.00]", "rusage[mem=(2048.00 1024.00):duration=8h,lic=1.00]"),
    ],
)
def test_combined_texts_are_shown_in_the_unit(text: str, shown: str) -> None:
    assert in_unit(text, "K") == shown
    assert in_unit(text, "M") == text


@given(st.integers(1, 10**11), st.sampled_from("KMGT"))
def test_a_whole_amount_is_shown_as_it_was_asked_for(amount: int, unit: str) -> None:
    mib = parse(with_unit(f"rusage[mem={amount}]", unit)).rusage[0].amount
    assert parse(f"rusage[mem={amount}{unit}]").rusage[0].amount == mib


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("num=2:gmem=500", "num=2:gmem=500KB"),
        ("gmem = 1.5 : num=1", "gmem = 1.5KB : num=1"),
        ("gmem=2G:gmodel=K80-12G", "gmem=2G:gmodel=K80-12G"),
        ("-", "-"),
    ],
)
def test_memory_of_gpus_gets_the_unit(text: str, meant: str) -> None:
    assert gpu_with_unit(text, "K") == meant
    assert gpu_with_unit(text, "M") == text
