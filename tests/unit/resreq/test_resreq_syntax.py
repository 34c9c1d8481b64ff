"""Reading, printing and merging requirement strings."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from resreq_readings import combine_texts

from gsched.base.errors import RequirementError
from gsched.resreq.ast import (
    AllOf,
    Comparison,
    Name,
    Number,
    OrderKey,
    Parenthesized,
    Requirement,
    Reservation,
    Span,
    StringValue,
)
from gsched.resreq.parsing.syntax import BAD_SYNTAX, MAX_DEPTH, MAX_LENGTH, merge, parse, parse_any, print_requirement
from tests.support.property_examples import examples

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Texts of the grammar, with blanks wherever they may stand.
_blank = st.sampled_from(["", " ", "  "])
_resource = st.sampled_from(["mem", "ngpus", "ngpus_excl_p", "r1m", "big.mem", "_x", "defined", "select"])
_number = st.sampled_from(["0", "1", "2.50", ".5", "7.", "16G", "500MB", "1k", "3E"])
_text_test = st.sampled_from(
    [
        "type==any",
        "type == local",
        "hname!=gpu-01",
        "model=K80",
        "status==ok",
        "fab=='a b'",
        'fab=="it\'s"',
        "fab==10core",
        "type==10",
    ]
)


_leaf = _resource | _number | _text_test | _resource.map("defined({})".format)


@st.composite
def select_texts(draw: st.DrawFn, depth: int = 4) -> str:
    form = draw(st.sampled_from(["leaf", "group", "compare", "logic"])) if depth else "leaf"
    if form == "leaf":
        return draw(_leaf)
    if form == "group":
        prefix = draw(st.sampled_from(["", "!", "-", "!!", "!-"]))
        return f"{prefix}({draw(_blank)}{draw(select_texts(depth - 1))}{draw(_blank)})"
    if form == "logic":
        sign = draw(st.sampled_from(["&&", "||", " && ", " || "]))
        return draw(select_texts(depth - 1)) + sign + draw(select_texts(depth - 1))
    sign = draw(st.sampled_from(["<", ">", "<=", ">=", "==", "=", "!=", " == "]))
    return draw(_sum_texts(depth)) + sign + draw(_sum_texts(depth))


@st.composite
def _sum_texts(draw: st.DrawFn, depth: int) -> str:
    signs = draw(st.lists(st.sampled_from([" + ", " - ", "*", "/"]), max_size=2))
    operand = _resource | _number | select_texts(depth - 1).map("({})".format)
    return draw(operand) + "".join(sign + draw(operand) for sign in signs)


def _list(item: st.SearchStrategy[str], separators: list[str], name: str) -> st.SearchStrategy[str]:
    names = st.lists(_resource, min_size=1, max_size=3, unique=True)
    return st.builds(
        lambda chosen, each, separator: f"{name}[{separator.join(each.replace('@', one) for one in chosen)}]",
        names,
        item,
        st.sampled_from(separators),
    )


section_texts = {
    "order": _list(st.sampled_from(["@", "-@"]), [":", " : "], "order"),
    "rusage": _list(st.sampled_from(["@=1", "@=16G/host", "@ = 0.125/task"]), [":", ",", " , "], "rusage"),
    "span": st.sampled_from(["span[hosts=1]", "span[hosts=-1]", "span[ ptile = 4 ]"]),
    "same": _list(st.just("@"), [":"], "same"),
}


@st.composite
def requirement_texts(draw: st.DrawFn) -> str:
    sections = [draw(text) for text in section_texts.values() if draw(st.booleans())]
    if draw(st.booleans()):
        sections.append(f"select[{draw(select_texts())}]")
    sections = draw(st.permutations(sections))
    if not any(text.startswith("select[") for text in sections) and draw(st.booleans()):
        sections.insert(0, draw(select_texts()))
    return " ".join(sections)


@calm
@given(requirement_texts())
def test_what_is_printed_reads_back_equal(text: str) -> None:
    requirement = parse(text)
    printed = print_requirement(requirement)
    assert parse(printed) == requirement
    assert print_requirement(parse(printed)) == printed


_words = [
    "&&",
    "||",
    "==",
    "!=",
    "select[",
    "order[",
    "rusage[",
    "span[",
    "same[",
    "hosts",
    "ptile",
    "type",
    "local",
    "any",
    "mem",
    "defined(",
    "16G",
    "1e5",
    "duration",
    "decay",
    "cu[",
]
_pieces = st.sampled_from(list("![](){}<>=+-*/:,@&|'\" \né\x00\ud800")) | st.sampled_from(_words)


@settings(calm, max_examples=examples(100))
@given(st.text(max_size=80) | st.lists(_pieces, max_size=25).map("".join))
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    try:
        requirement = parse(text)
    except RequirementError as error:
        assert 0 <= error.position <= len(text)
        assert len(error.source) == len(text)
        assert len(error.text.splitlines()) == 1
        assert error.text.isprintable()
    else:
        assert parse(print_requirement(requirement)) == requirement


def test_a_bare_text_is_the_select_section() -> None:
    assert parse("ngpus>0") == parse("select[ngpus>0]") == parse(" select[ ngpus > 0 ] ")
    assert parse("mem>5 order[mem]") == parse("order[mem] select[mem>5]")


def test_all_sections() -> None:
    requirement = parse(
        "span[hosts=1] select[mem>=16G] rusage[mem=16G/host:ngpus_excl_p=2] same[type] order[-mem:r15s]"
    )
    assert requirement == Requirement(
        select=Comparison(">=", Name("mem"), Number(16384.0, "16G", True)),
        order=(OrderKey("mem", True), OrderKey("r15s")),
        rusage=(Reservation("mem", 16384.0, "16G", "host"), Reservation("ngpus_excl_p", 2.0, "2")),
        span=Span(hosts=1),
        same=parse("same[type]").same,
    )
    assert print_requirement(requirement) == (
        "select[mem>=16G] order[-mem:r15s] rusage[mem=16G/host,ngpus_excl_p=2] span[hosts=1] same[type]"
    )


@pytest.mark.parametrize(("text", "span"), [("span[hosts=-1]", Span(hosts=-1)), ("span[ptile=3]", Span(ptile=3))])
def test_span(text: str, span: Span) -> None:
    assert parse(text).span == span


def test_one_bracket_too_many_at_the_end_says_nothing() -> None:
    """TorchX 0.7.0 writes so for a job without memory."""
    assert parse("span[hosts=1]]") == replace(parse("span[hosts=1]"), source="span[hosts=1]]")
    for text in ("span[hosts=1]]]", "span[hosts=1]] mem>1", "]", "{span[hosts=1]]} || {a}"):
        with pytest.raises(RequirementError):
            parse(text)


def test_an_empty_text_requires_nothing() -> None:
    assert parse("") == parse(" \t\n") == Requirement()
    assert print_requirement(Requirement()) == ""


def test_precedence() -> None:
    assert parse("a||b&&c==1+2*3") == parse("a||b&&c==1+2*3")
    for loose, tight in [
        ("a||b&&c", "a||(b&&c)"),
        ("a&&b==c", "a&&(b==c)"),
        ("a==b+c", "a==(b+c)"),
        ("a+b*c", "a+(b*c)"),
        ("!a*b", "(!a)*b"),
        ("a-b-c", "(a-b)-c"),
        ("a/b/c", "(a/b)/c"),
    ]:
        assert _ungrouped(parse(loose).select) == _ungrouped(parse(tight).select)
    assert _ungrouped(parse("a-(b-c)").select) != _ungrouped(parse("a-b-c").select)


def _ungrouped(value: object) -> object:
    if isinstance(value, Parenthesized):
        return _ungrouped(value.inner)
    if isinstance(value, tuple):
        return tuple(_ungrouped(each) for each in value)
    fields = [name for name in getattr(value, "__slots__", ()) if name != "position"]
    return (type(value), *(_ungrouped(getattr(value, name)) for name in fields)) if fields else value


def test_text_values() -> None:
    assert parse("hname==gpu-01-a").select == Comparison("==", Name("hname"), StringValue("gpu-01-a"))
    assert parse("fab=='a b'").select == Comparison("==", Name("fab"), StringValue("a b", quoted=True))
    assert parse("fab==ib0").select == Comparison("==", Name("fab"), Name("ib0"))
    assert parse("model==10").select == Comparison("==", Name("model"), StringValue("10"))
    assert parse("mem==swp - 5").select != parse("mem==5").select


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("select[ngpus>]", 13, 'select section: Expected number, string, name, or "(" but found end of section'),
        ("select[ngpus>0", 14, "']' is wanted to close select[, not the end"),
        ("select[(a]", 9, "')' is wanted"),
        ("select[]", 7, "select[] is empty"),
        ("rusage[ ]", 8, "rusage[] is empty"),
        ("select [a]", 0, "no blank may stand between select and ["),
        ("selct[a]", 0, "'selct' is not a section"),
        ("order[ut] spam[mem]", 10, "did you mean span?"),
        ("filter[a]", 0, "filter[...] is not supported"),
        ("order[ut] a", 10, "unexpected 'a'"),
        ("mem>1 swp>1", 6, "unexpected 'swp'"),
        ("a<b<c", 3, "after a comparison"),
        ("a==b!=c", 4, "after a comparison"),
        ("a & b", 2, "&&"),
        ("a | b", 2, "||"),
        ("a # b", 2, "'#' cannot be used in the resource requirement section"),
        ("type=='x", 6, "a quote that is not closed"),
        ("'x'==type", 0, "quoted value"),
        ("type", 0, "'type' is text"),
        ("!type==x", 1, "needs a number"),
        ("1+type==x", 2, "needs a number"),
        ("X86==type", 5, "'type' is text"),
        ("type==(x)", 6, "compared with a value"),
        ("fab==ib-0", 5, "wants quotes"),
        ("mem>1e5", 4, "neither a number"),
        ("mem>1 0", 6, "unexpected '0'"),
        ("f(x)", 0, "not a function"),
        ("defined(3)", 8, "wants the name of a resource"),
        ("rusage[mem]", 10, "'=' is wanted"),
        ("rusage[mem=x]", 11, "wants an amount"),
        ("rusage[mem=-1]", 11, "wants an amount"),
        ("rusage[mem=1:mem=2]", 13, "reserved twice"),
        ("rusage[swap=1,swp=2]", 14, "reserved twice"),
        ("rusage[mem=1/node]", 13, "per job, host, task"),
        ("rusage[decay=0]", 7, "wants a resource before it"),
        ("order[ut:]", 9, "wants the name of a resource"),
        ("order[ut:ut]", 9, "named twice"),
        ("span[hosts=2]", 11, "1 or -1"),
        ("span[ptile=0]", 11, "at least 1"),
        ("span[cores=1]", 5, "not known in span"),
    ],
)
def test_wrong_texts_say_what_and_where(text: str, position: int, words: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse(text)
    assert (caught.value.kind, caught.value.position) == (BAD_SYNTAX, position)
    assert words in caught.value.detail
    assert caught.value.text == f"{BAD_SYNTAX}: {caught.value.detail} at position {position + 1} of <{text}>"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2*{span[hosts=1]}+4*{a}", "a compound requirement (n*{...})"),
        ("{2*{a}+4*{b}} same[type]", "a compound requirement (n*{...})"),
        ("{a} || {b}@60", "an alternative requirement ({...} || {...})"),
    ],
)
def test_where_only_a_simple_requirement_can_stand_others_are_refused_by_name(text: str, what: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse(text)
    assert caught.value.detail == f"{what} is not supported here"
    assert caught.value.position == 0


def test_model_local_is_refused() -> None:
    with pytest.raises(RequirementError, match=r"model == local is not supported .* position 8"):
        parse("model==local")


def test_decay_zero_is_the_default_and_taken() -> None:
    assert parse("rusage[mem=1:decay=0]") == parse("rusage[mem=1]")


def test_a_section_given_again_is_joined_with_the_first() -> None:
    assert parse("a select[b||c] select[d]") == parse("select[(a)&&(b||c)&&(d)]")
    assert parse("order[ut] order[mem]") == parse("order[mem]")
    assert parse("a>1 rusage[mem=1] rusage[swp=2:lic=3]") == parse("a>1 rusage[mem=1,swp=2,lic=3]")
    assert parse("same[type] span[hosts=1] same[model:type] span[ptile=2]") == parse("span[ptile=2] same[type:model]")
    assert parse("cu[type=rack] affinity[core] cu[excl] affinity[thread(2)]") == parse("cu[excl] affinity[thread(2)]")
    assert parse("rusage[a=1||b=1] rusage[c=1||d=1]") == parse("rusage[a=1,c=1||a=1,d=1||b=1,c=1||b=1,d=1]")
    with pytest.raises(RequirementError, match=r"'swap' is reserved twice in rusage.* position 22"):
        parse("rusage[swp=1] rusage[swap=2]")
    with pytest.raises(RequirementError, match="more than 64 alternatives"):
        parse(" ".join(f"rusage[{name}=1||{name}=2]" for name in "abcdefg"))
    with pytest.raises(RequirementError, match="more than 64 levels deep"):
        parse("select[" + "(" * 63 + "a" + ")" * 63 + "] select[b]")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("swp=20:mem=10:cserver", "swp>=20&&mem>=10&&cserver"),
        ("r1m=0.5:ut=0.3:login=3", "r1m<=0.5&&ut<=0.3&&login<=3"),
        ("type=any:!big:fab=ib0 order[mem]", "type=any&&!big&&fab=ib0 order[mem]"),
        ("select[mem=16G:swp=1]", "select[mem>=16G&&swp>=1]"),
        ("swp=20", "swp=20"),
    ],
)
def test_the_old_form_with_colons(text: str, meaning: str) -> None:
    assert parse(text) == parse(meaning)


def test_the_old_form_asks_the_caller_which_resources_rise() -> None:
    assert parse("heat=5:mem=1", is_increasing=lambda name: name == "heat") == parse("heat<=5&&mem>=1")
    with pytest.raises(RequirementError, match="no expression at position 8"):
        parse("swp=20:mem>10")


def test_length_and_depth_are_bounded() -> None:
    parse("a" * MAX_LENGTH)
    with pytest.raises(RequirementError, match="4097 characters, 4096 are allowed"):
        parse("a" * (MAX_LENGTH + 1))
    parse("(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1))
    for deep in ("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, "!" * 100 + "a", "a" + "+a" * 100, "(" * 4000):
        with pytest.raises(RequirementError, match="more than 64 levels deep"):
            parse(deep)
    # The worst mixture: every level of precedence open at every level of parentheses.
    with pytest.raises(RequirementError, match="more than 64 levels deep"):
        parse("a||b&&c>d+e*(" * 100)


def test_long_conjunctions_are_not_deep() -> None:
    select = parse("&&".join(["a"] * 1000)).select
    assert isinstance(select, AllOf)
    assert len(select.terms) == 1000


def test_merge() -> None:
    assert merge([]) == merge(["", " "]) == ""
    assert merge([" select[a > 0]  rusage[b=1] "]) == "select[a > 0]  rusage[b=1]"
    assert merge(["rusage[mem=50000]", "span[hosts=1]"]) == "rusage[mem=50000] span[hosts=1]"
    assert merge(
        ["select[a||b] order[ut] rusage[x=1]", "c>0", "order[mem] rusage[y=16G] same[type]", "same[type:model]"]
    ) == ("select[(a||b)&&(c>0)] order[mem] rusage[x=1,y=16G] same[type:model]")
    assert merge(["span[hosts=1]", "span[ptile=2]"]) == "span[ptile=2]"
    with pytest.raises(RequirementError, match="'mem' is reserved twice"):
        merge(["rusage[mem=1]", "rusage[mem=2]"])
    with pytest.raises(RequirementError, match="are allowed"):
        merge(["a" * 3000, "b" * 3000])
    with pytest.raises(RequirementError, match="select\\[\\] is empty"):
        merge(["select[]", "span[hosts=1]"])
    assert merge(["rusage[mem=20,license=1:duration=2]", "rusage[v20=1||v15=1]"]) == (
        "rusage[mem=20,license=1:duration=2m:decay=0,v20=1 || mem=20,license=1:duration=2m:decay=0,v15=1]"
    )
    assert merge([" 2*{a}+{b} "]) == "2*{a}+{b}"
    with pytest.raises(RequirementError, match="cannot be one of several -R at position 1 of <2"):
        merge(["mem>1", "2*{a}+{b}"])
    with pytest.raises(RequirementError, match=r"to close '{'"):
        merge(["2*{a"])


@pytest.mark.parametrize(
    "text",
    [
        "{" * MAX_LENGTH,
        "a " + "select[a]" * 450,
        "select[a:b]" * 370,
        "rusage[a=1||b=1]" * 250,
        "a:" * 2000 + "a",
        "+".join(["1*{a:b}"] * 64),
        "rusage[ngpus=1:gmodel=" + "a-" * 2000 + "]",
        "order[" + ":".join(f"a{i}/2" for i in range(500)) + "]",
        "same[" + ":".join(f"a{i}" for i in range(800)) + "]",
        "span[ptile=1," + ",".join(f"a{i}:1" for i in range(500)) + "]",
    ],
    ids=lambda text: text[:12],
)
def test_the_worst_texts_cost_little(text: str) -> None:
    started = time.process_time()
    try:
        combine_texts(text)
    except RequirementError as error:
        assert len(error.source) <= MAX_LENGTH
    assert time.process_time() - started < 20.0


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("select[rhel < 8 && cs & x86_64Linux] rusage[mem=50]", "cannot be used in the resource requirement section"),
        ("rusage[mem=50] %", "cannot be used in the resource requirement section"),
        ("rusage[mem=]", "Error in rusage section"),
        ("rusage[mem=5:duration=x]", "Error in rusage section"),
        ("rusage[mem=5,mem=6]", "Error in rusage section"),
        ("rusage[mem=5] rusage[mem=6]", "Error in rusage section"),
        ("select[", "Error in select section"),
        ("select[(a && )]", 'Error in select section: Expected number, string, name, or "(" but found'),
        ("order[]", "Error in order section"),
        ("span[host=1]", "Error in span section"),
        ("{select[a]} || {rusage[b=]}", "Error in rusage section"),
    ],
)
def test_phrases_of_lsf_that_programs_look_for(text: str, phrase: str) -> None:
    """ERT does not submit again where it finds one."""
    with pytest.raises(RequirementError) as caught:
        parse_any(text)
    assert phrase in caught.value.text


def test_what_stands_between_sections_is_in_none() -> None:
    with pytest.raises(RequirementError) as caught:
        parse_any("rusage[mem=5] ) span[hosts=1]")
    assert "section: " not in caught.value.text
