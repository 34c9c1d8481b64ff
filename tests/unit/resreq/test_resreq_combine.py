"""Combined and Effective, byte for byte as LSF prints them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resreq_readings import combine_texts, order_keys, rusage_amounts

from gsched.base.errors import RequirementError
from gsched.resreq.ast import Alternatives, Compound
from gsched.resreq.judging.evaluate import compile_select
from gsched.resreq.parsing.printer import format_amount
from gsched.resreq.parsing.syntax import parse, parse_combined_any


@pytest.mark.parametrize(
    ("job", "queue", "text"),
    [
        # What LSF 10.1 printed for these requests.
        ("", "", "select[type == local] order[r15s:pg]"),
        (
            "select[ngpus>0] rusage[ngpus_excl_p=1]",
            "",
            "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=1.00]",
        ),
        (
            "select[ngpus>0] rusage[ngpus_excl_p=2]",
            "",
            "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=2.00]",
        ),
        (
            "select[mem>512] rusage[mem=512]",
            "",
            "select[(mem>512) && (type == local)] order[r15s:pg] rusage[mem=512.00]",
        ),
        ("select[(mem>4000)]", "", "select[((mem>4000)) && (type == local)] order[r15s:pg]"),
        ("azurehost", "", "select[(azurehost) && (type == any)] order[r15s:pg]"),
        ("defined(docker)", "", "select[(defined(docker)) && (type == any)] order[r15s:pg]"),
        ("type=any", "", "select[(type = any ) && (type == any)] order[r15s:pg]"),
        (
            "type=any && mem>15G",
            "order[-slots:-maxslots:-mem]",
            "select[(type = any &&mem>15360.00) && (type == any)] order[-slots:-maxslots:-mem]",
        ),
        (
            "rusage[mem=5120]",
            "type==any same[type:model]",
            "select[type == any ] order[r15s:pg] rusage[mem=5120.00] same[type:model]",
        ),
        (
            "rusage[mem=1000,swp=100,ansys=2,mechhpc=4]",
            "",
            "select[type == local] order[r15s:pg] rusage[swp=100.00,mem=1000.00,ansys=2.00,mechhpc=4.00]",
        ),
        (
            "rusage[mem=123] span[hosts=1]",
            "",
            "select[type == local] order[r15s:pg] rusage[mem=123.00] span[hosts=1]",
        ),
        # The documented rules of merging.
        (
            "rusage[mem=100]",
            "rusage[mem=200:lic=1]",
            "select[type == local] order[r15s:pg] rusage[mem=100.00,lic=1.00]",
        ),
        ("a==b - c && d>e - f", "", "select[(a==b - c&&d>e - f) && (type == local)] order[r15s:pg]"),
        ("a>1", "b>1 || c>1", "select[(a>1) && (b>1||c>1) && (type == local)] order[r15s:pg]"),
        ("", "mem>100", "select[(mem>100) && (type == local)] order[r15s:pg]"),
        ("a>1", "type==any", "select[(a>1) && (type == any )] order[r15s:pg]"),
        ("model==K80", "mem>1", "select[(model == K80 ) && (mem>1) && (type == any)] order[r15s:pg]"),
        ("order[ut]", "order[mem] span[ptile=2]", "select[type == local] order[ut] span[ptile=2]"),
        ("span[hosts=-1]", "span[ptile=2]", "select[type == local] order[r15s:pg] span[hosts=-1]"),
        ("same[model]", "same[type:model]", "select[type == local] order[r15s:pg] same[model:type]"),
        ("rusage[mem=2G/task]", "", "select[type == local] order[r15s:pg] rusage[mem=2048.00/task]"),
        ("order[cpu] rusage[swap=1]", "rusage[swp=2]", "select[type == local] order[r1m] rusage[swp=1.00]"),
    ],
)
def test_combined_text(job: str, queue: str, text: str) -> None:
    combined = combine_texts(job, queue, is_boolean=lambda name: name in ("azurehost", "docker"))
    assert combined.text == text
    assert combined.whole == parse_combined_any(text)


def test_what_is_shown_is_what_is_judged() -> None:
    combined = combine_texts("select[ngpus>0] rusage[ngpus_excl_p=0.125]", "mem>1G")
    judge = compile_select(combined.whole.select, local_type="LINUX")
    assert judge({"ngpus": 1.0, "mem": 2000.0, "type": "LINUX"})
    assert judge({"ngpus": 1.0, "mem": 2000.0, "type": "PPC"}).reason == "type==local: type is PPC, local is LINUX"
    assert judge({"ngpus": 1.0, "mem": 1000.0, "type": "LINUX"}).reason == "mem>1024.00: mem is 1000"
    assert rusage_amounts(combined.whole) == {"ngpus_excl_p": 0.125}
    assert order_keys(combined.whole) == [("r15s", False), ("pg", False)]


def test_a_boolean_is_one_only_where_the_caller_says_so() -> None:
    assert combine_texts("big").text == "select[(big) && (type == local)] order[r15s:pg]"
    assert combine_texts("big", is_boolean=lambda _: True).text == "select[(big) && (type == any)] order[r15s:pg]"


def test_an_error_names_the_text_that_holds_it() -> None:
    with pytest.raises(RequirementError, match="of <span\\[hosts=7\\]>"):
        combine_texts("mem>1", "span[hosts=7]")


def test_the_largest_requirements_still_combine() -> None:
    longest = "&&".join(["a>1K"] * 682)
    deepest = "(" * 63 + "a" + ")" * 63
    for job, queue in ((longest, longest), (deepest, deepest)):
        combined = combine_texts(job, queue)
        assert parse_combined_any(combined.text) == combined.whole


_amounts = st.builds(
    "{}{}".format,
    st.decimals(0, 10**9, places=4).map("{:f}".format),
    st.sampled_from(["", "K", "M", "GB"]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_amounts)
def test_amounts_and_sizes_keep_their_value(amount: str) -> None:
    try:
        asked = rusage_amounts(parse(f"rusage[mem={amount}]"))
    except RequirementError:
        assert 0 < float(amount.rstrip("KMGB")) < 1e-5  # below what is told apart from nothing
        return
    combined = combine_texts(f"select[mem>{amount}] rusage[mem={amount}]")
    assert rusage_amounts(combined.whole) == asked
    judge = compile_select(combined.whole.select, local_type="L")
    assert judge({"mem": asked["mem"], "type": "L"}).holds is False
    assert judge({"mem": asked["mem"] * 1.001 + 1e-6, "type": "L"}).holds is True


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.00"), (0.5, "0.50"), (0.125, "0.125"), (1e17, "1" + "0" * 17 + ".00")]
)
def test_format_amount(value: float, text: str) -> None:
    assert format_amount(value) == text


@pytest.mark.parametrize(
    ("job", "app", "queue", "text"),
    [
        (
            "a>1",
            "b>1 rusage[mem=2:lic=1]",
            "c>1 rusage[mem=3,tmp=4] order[mem]",
            "select[(a>1) && (b>1) && (c>1) && (type == local)] order[mem] rusage[tmp=4.00,mem=2.00,lic=1.00]",
        ),
        ("", "type==any", "", "select[(type == any ) && (type == any)] order[r15s:pg]"),
        ("", "order[ut]", "order[mem] cu[excl]", "select[type == local] order[ut] cu[excl]"),
        (
            "affinity[core(2)]",
            "affinity[thread]",
            "cu[type=rack]",
            "select[type == local] order[r15s:pg] cu[type=rack] affinity[core(2)]",
        ),
        # LSF keeps a queue's duration and decay for a resource whose amount the job gives.
        (
            "rusage[mem=100]",
            "",
            "rusage[mem=200:duration=20:decay=1]",
            "select[type == local] order[r15s:pg] rusage[mem=100.00:duration=20m:decay=1]",
        ),
        (
            "rusage[mem=100:duration=480]",
            "",
            "rusage[mem=200:duration=20:decay=1:threshold=1G]",
            "select[type == local] order[r15s:pg] rusage[mem=100.00:duration=8h:decay=0:threshold=1024.00]",
        ),
        (
            "rusage[mem=(50 20):duration=(10):decay=(0)]",
            "",
            "rusage[mem=9:duration=5]",
            "select[type == local] order[r15s:pg] rusage[mem=(50.00 20.00):duration=10m:decay=(0 0)]",
        ),
        (
            "rusage[ngpus_physical=2:gmem=1G]",
            "",
            "rusage[ngpus_physical=1:gmem=2G:gmodel=K80-12G]",
            "select[type == local] order[r15s:pg] rusage[ngpus_physical=2.00:gmem=1G:gmodel=K80-12G]",
        ),
        # A level's alternatives of rusage replace what lower levels reserve.
        (
            "rusage[a=1||b=1]",
            "",
            "rusage[mem=1||c=1]",
            "select[type == local] order[r15s:pg] rusage[a=1.00 || b=1.00]",
        ),
        (
            "rusage[mem=5]",
            "",
            "rusage[a=1||mem=3,b=1]",
            "select[type == local] order[r15s:pg] rusage[mem=5.00,a=1.00 || mem=5.00,b=1.00]",
        ),
        ("order[-mem/2:!ut]", "", "", "select[type == local] order[-mem/2:!ut]"),
        (
            "span[ptile='!',HP:8] rusage[mem=1]",
            "",
            "span[hosts=1]",
            "select[type == local] order[r15s:pg] rusage[mem=1.00] span[ptile='!',HP:8]",
        ),
        # Braces: each part is combined with the simple requirements below it.
        (
            "2*{a>1 rusage[mem=1]}+{span[ptile=1]}",
            "",
            "b>1 rusage[mem=9,lic=1/job] span[hosts=1] same[type]",
            "2*{select[(a>1) && (b>1) && (type == local)] order[r15s:pg] rusage[mem=1.00,lic=1.00/job] span[hosts=1]}"
            " + {select[(b>1) && (type == local)] order[r15s:pg] rusage[mem=9.00] span[ptile=1]}",
        ),
        (
            "{1*{a}+1*{b}} same[model]",
            "",
            "same[type]",
            "{1*{select[(a) && (type == local)] order[r15s:pg]} + 1*{select[(b) && (type == local)] order[r15s:pg]}}"
            " same[model]",
        ),
        (
            "{big} || {mem>1G}@120",
            "",
            "order[mem]",
            "{select[(big) && (type == any)] order[mem]} || {select[(mem>1024.00) && (type == local)] order[mem]}@120",
        ),
        ("", "", "1*{a}", "1*{select[(a) && (type == local)] order[r15s:pg]}"),
    ],
)
def test_levels_and_braces(job: str, app: str, queue: str, text: str) -> None:
    combined = combine_texts(job, queue, app, is_boolean=lambda name: name == "big")
    assert combined.text == text
    assert combined.whole == parse_combined_any(text)
    assert combined.ignored == ()


def test_a_lower_level_with_braces_counts_only_alone() -> None:
    combined = combine_texts("a>1", "2*{b}+{c}", "{d} || {e}")
    assert combined.text == "select[(a>1) && (type == local)] order[r15s:pg]"
    assert combined.ignored == ("application", "queue")
    assert combine_texts("", "2*{b}+{c}", "{d} || {e}").ignored == ("queue",)
    assert isinstance(combine_texts("", "", "{d} || {e}").whole, Alternatives)


def test_a_caller_that_wants_a_simple_requirement_is_told_what_it_got() -> None:
    combined = combine_texts("2*{a}+1*{b}")
    assert isinstance(combined.whole, Compound)
    with pytest.raises(RequirementError, match=r"a compound requirement .* is not supported here"):
        parse(combined.text)


def test_what_grows_too_long_is_refused() -> None:
    parts = "+".join(["1*{a}"] * 64)
    assert len(combine_texts(parts, "b").text) < 65536
    with pytest.raises(RequirementError, match="characters when combined, 65536 are allowed"):
        combine_texts(parts, "&&".join(["mem>100"] * 450))
