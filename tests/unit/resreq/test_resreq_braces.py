"""Compound and alternative requirements: reading, printing, names, and what may not stand in them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resreq_readings import combine_texts

from gsched.base.errors import RequirementError
from gsched.resreq.ast import Alternative, Alternatives, Compound, Requirement, Term, compounds, simple_parts
from gsched.resreq.parsing.names import check_names, names_in
from gsched.resreq.parsing.printer import print_any
from gsched.resreq.parsing.syntax import BAD_NAME, BAD_SYNTAX, MAX_BRACES, parse, parse_any, parse_combined_any
from tests.support.property_examples import examples

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

A, B = parse("a"), parse("b>1 rusage[mem=1]")


@pytest.mark.parametrize(
    ("text", "requirement", "printed"),
    [
        ("2*{a}", Compound((Term(2, A),)), "2*{select[a]}"),
        (
            " 2 * { a } + 3*{b>1 rusage[mem=1]} ",
            Compound((Term(2, A), Term(3, B))),
            "2*{select[a]} + 3*{select[b>1] rusage[mem=1]}",
        ),
        ("2*{a}+{a}", Compound((Term(2, A), Term(None, A))), "2*{select[a]} + {select[a]}"),
        ("{2*{a}+1*{a}}", Compound((Term(2, A), Term(1, A))), "2*{select[a]} + 1*{select[a]}"),
        (
            "{2*{a}+1*{a}} same[type:model]",
            Compound((Term(2, A), Term(1, A)), parse("same[type:model]").same),
            "{2*{select[a]} + 1*{select[a]}} same[type:model]",
        ),
        (
            "{a} || {b>1 rusage[mem=1]}@120||{a}@0",
            Alternatives((Alternative(A), Alternative(B, 120), Alternative(A))),
            "{select[a]} || {select[b>1] rusage[mem=1]}@120 || {select[a]}",
        ),
        (
            "{1*{a}+{a}} || {{1*{a}+2*{a}} same[type]}@5 || {a}",
            Alternatives(
                (
                    Alternative(Compound((Term(1, A), Term(None, A)))),
                    Alternative(Compound((Term(1, A), Term(2, A)), parse("same[type]").same), 5),
                    Alternative(A),
                )
            ),
            "{1*{select[a]} + {select[a]}} || {{1*{select[a]} + 2*{select[a]}} same[type]}@5 || {select[a]}",
        ),
        ("{a}", A, "select[a]"),
        ("2*mem>5", parse("2*mem>5"), "select[2*mem>5]"),
        ("", Requirement(), ""),
    ],
)
def test_forms(text: str, requirement: object, printed: str) -> None:
    read = parse_any(text)
    assert read == requirement
    assert print_any(read) == printed
    assert parse_any(printed) == read


def test_the_gpu_example_of_the_manual() -> None:
    read = parse_any(
        "1*{span[gtile=!] rusage[ngpus_physical=2:gmem=1G]} + 4*{span[ptile=1] rusage[ngpus_physical=1:gmem=10G]}"
    )
    assert isinstance(read, Compound)
    assert read.tasks == 5
    assert [part.rusage[0].gpu_options for part in simple_parts(read)] == [(("gmem", "1G"),), (("gmem", "10G"),)]
    assert parse_any(print_any(read)) == read


def test_parts_and_tasks() -> None:
    read = parse_any("{2*{a}+{c}} || {b>1 rusage[mem=1]}")
    assert [part.select for part in simple_parts(read)] == [A.select, parse("c").select, B.select]
    (compound,) = compounds(read)
    assert compound.tasks is None
    assert list(simple_parts(A)) == [A]
    assert list(compounds(A)) == []


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("{}", 1, "{} is empty"),
        ("2*{}", 3, "{} is empty"),
        ("{a", 2, "'}' is wanted to close '{', not the end"),
        ("2*{a", 4, "'}' is wanted"),
        ("{a}}", 3, "unexpected '}'"),
        ("a}", 1, "unexpected '}'"),
        ("a {b}", 2, "unexpected '{'"),
        ("0*{a}", 0, "at least 1"),
        ("x*{a}", 0, "whole number"),
        ("2*{a}+x", 6, "whole number"),
        ("2*{a}+3{b}", 7, "'*' is wanted"),
        ("{a}+2*{b}", 0, "a number is wanted before the braces"),
        ("2*{a}+{b}+1*{c}", 6, "only the last part may lack its number"),
        ("2*{a}+1*{b} same[type]", 12, "put braces around the whole compound"),
        ("2*{a} || {b}", 6, "put braces around the whole compound"),
        ("{2*{a}+1*{b}} cu[excl]", 14, "only same[...] may stand behind"),
        ("{2*{a}+1*{b}} same [type]", 14, "no blank"),
        ("{2*{a}+1*{b}} same[type] || {c}", 25, "unexpected '||'"),
        ("{a} order[mem]", 4, "belongs into the braces"),
        ("{a}@5", 3, "the first alternative counts at once"),
        ("{a}@5 || {b}", 3, "the first alternative counts at once"),
        ("{a} || b", 7, "'{' is wanted"),
        ("{a} || {b}@", 11, "a delay in seconds"),
        ("{a} || {b}@-1", 11, "a delay in seconds"),
        ("{a} || {b}@1h", 11, "a delay in seconds"),
        ("{{a}}", 1, "braces in braces are for a compound"),
        ("2*{2*{a}}", 5, 'Expected number, string, name, or "(" but found'),
        ("2*{rusage[a=1||b=1]}", 10, "an alternative (||) in rusage"),
        ("2*{cu[excl]}+1*{a}", 3, "cu[excl] and cu[balance] cannot stand"),
        ("{a} || {cu[balance]}", 8, "cu[excl] and cu[balance] cannot stand"),
        ("2*{a b}", 5, "unexpected 'b'"),
    ],
)
def test_wrong_braces_say_what_and_where(text: str, position: int, words: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse_any(text)
    assert words in caught.value.detail
    assert (caught.value.kind, caught.value.position) == (BAD_SYNTAX, position)


def test_the_number_of_braces_is_bounded() -> None:
    most = "+".join(["1*{a}"] * MAX_BRACES)
    read = parse_any(most)
    assert isinstance(read, Compound)
    assert read.tasks == MAX_BRACES
    with pytest.raises(RequirementError, match="more than 64 pairs of braces"):
        parse_any(most + "+1*{a}")
    with pytest.raises(RequirementError):
        parse_any("{" * 4096)


def test_names_of_all_parts_are_checked_at_their_place() -> None:
    text = "{1*{a rusage[mem=1]}+1*{b}} same[type]"
    assert names_in(parse_any(text)) == {"a": 4, "mem": 13, "b": 24, "type": 33}
    with pytest.raises(RequirementError) as caught:
        check_names(parse_any(text), lambda name: name != "b", ["bb"])
    assert (caught.value.kind, caught.value.position) == (BAD_NAME, 24)
    with pytest.raises(RequirementError, match="b is a number and 'x' is text at position 10"):
        check_names(parse_any("{a} || { b=='x'}"), lambda _: True, [], is_text=lambda _: False)


_simple = st.sampled_from(
    [
        "a",
        "select[a||b] order[-mem/2:!ut]",
        "rusage[mem=(50 20):duration=(10):decay=(1)]",
        "span[ptile='!',HP:8,gtile=2] same[type]",
        "cu[type=rack:maxcus=2] affinity[core(2,same=numa)*2:cpubind=core]",
        "swp=20:mem=10:big",
        "type==any && mem>=1.5G rusage[ngpus_physical=1/task:gmodel=K80-12G:threshold=3]",
    ]
)
_count = st.integers(1, 10**9 - 1)
_blank = st.sampled_from(["", " ", "  "])


@st.composite
def _compound_texts(draw: st.DrawFn) -> str:
    terms = [f"{draw(_count)}*{draw(_blank)}{{{part}}}" for part in draw(st.lists(_simple, min_size=1, max_size=4))]
    if draw(st.booleans()):
        terms.append(f"{{{draw(_simple)}}}")
    return f"{draw(_blank)}+{draw(_blank)}".join(terms)


_inner = _simple | _compound_texts() | _compound_texts().map("{{{}}} same[type:model]".format)


@st.composite
def any_texts(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return draw(_inner)
    delays = st.sampled_from(["", "@0", "@60", " @ 999999999"])
    later = [f"{{{text}}}{draw(delays)}" for text in draw(st.lists(_inner, min_size=1, max_size=3))]
    return f"{draw(_blank)}||{draw(_blank)}".join([f"{{{draw(_inner)}}}", *later])


@calm
@given(any_texts())
def test_what_is_printed_reads_back_equal(text: str) -> None:
    read = parse_any(text)
    printed = print_any(read)
    assert parse_any(printed) == read
    assert print_any(parse_any(printed)) == printed


_words = ["2*{", "} + ", "} || {", "}@60", "same[", "a", "mem=1", "rusage[", "span[", "cu[", "]", "ptile='!'", "HP:8"]
_phrases = ["affinity[", "core(2", "exclusive=(", ":duration=(", ":decay=1", "ngpus=1:gmem=", "order["]
_pieces = st.sampled_from([*"{}[]()+*@|:,='!-0 ", *_words, *_phrases])


@settings(calm, max_examples=examples(100))
@given(st.text(max_size=60) | st.lists(_pieces, max_size=25).map("".join))
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    try:
        read = parse_any(text)
    except RequirementError as error:
        assert 0 <= error.position <= len(text)
        assert len(error.text.splitlines()) == 1
        assert error.text.isprintable()
    else:
        assert parse_any(print_any(read)) == read


@calm
@given(any_texts(), _simple | st.just(""), _simple | st.just(""))
def test_whatever_is_combined_reads_back(job: str, app: str, queue: str) -> None:
    combined = combine_texts(job, queue, app)
    assert parse_combined_any(combined.text) == combined.whole
    assert len(list(simple_parts(combined.whole))) == len(list(simple_parts(parse_any(job))))
    assert all(part.select is not None and part.order for part in simple_parts(combined.whole))
