"""The sections beyond select: what each form means, how it is printed, where it is refused."""

from __future__ import annotations

import pytest
from resreq_readings import order_keys, rusage_amounts

from gsched.base.errors import RequirementError
from gsched.resreq.ast import (
    BY_HOST,
    UNLISTED,
    Affinity,
    Arithmetic,
    Cu,
    Name,
    Number,
    OrderKey,
    Phase,
    Reservation,
    Span,
)
from gsched.resreq.judging.evaluate import compile_number
from gsched.resreq.parsing.names import check_names, names_in
from gsched.resreq.parsing.printer import format_duration, print_requirement
from gsched.resreq.parsing.syntax import BAD_SYNTAX, parse, parse_any


def refusal(text: str) -> RequirementError:
    with pytest.raises(RequirementError) as caught:
        parse_any(text)
    assert caught.value.kind == BAD_SYNTAX
    return caught.value


@pytest.mark.parametrize(
    ("text", "reservations"),
    [
        ("mem=1:duration=8h:decay=0", [Reservation("mem", 1, "1", duration_s=28800.0)]),
        ("mem=1:duration=90:decay=1", [Reservation("mem", 1, "1", duration_s=5400.0, decay=True)]),
        ("mem=1:duration=45s", [Reservation("mem", 1, "1", duration_s=45.0)]),
        # ':' joins resources that share a duration, ',' begins anew.
        (
            "mem=20,lic=1:tool=2:duration=2",
            [
                Reservation("mem", 20, "20"),
                Reservation("lic", 1, "1", duration_s=120.0),
                Reservation("tool", 2, "2", duration_s=120.0),
            ],
        ),
        ("mem=1:threshold=2G:swp=3", [Reservation("mem", 1, "1", threshold=2048.0), Reservation("swp", 3, "3")]),
        (
            "mem=(50 20):duration=(10):decay=(0)",
            [Reservation("mem", 50, "50", duration_s=600.0, phases=(Phase(50, "50", 600.0, False), Phase(20, "20")))],
        ),
        (
            "mem=(4G 3G 2G):duration=(1h 90s 5):decay=(0 1)",
            [
                Reservation(
                    "mem",
                    4096,
                    "4G",
                    duration_s=3600.0,
                    phases=(Phase(4096, "4G", 3600.0), Phase(3072, "3G", 90.0, True), Phase(2048, "2G", 300.0)),
                )
            ],
        ),
        ("mem=(50)", [Reservation("mem", 50, "50")]),
        (
            "ngpus_physical=2/task:gmodel=K80-12G:gmem=1G:glink=yes:mig=3/2,mem=1",
            [
                Reservation(
                    "ngpus_physical",
                    2,
                    "2",
                    "task",
                    gpu_options=(("gmodel", "K80-12G"), ("gmem", "1G"), ("glink", "yes"), ("mig", "3/2")),
                ),
                Reservation("mem", 1, "1"),
            ],
        ),
    ],
)
def test_rusage(text: str, reservations: list[Reservation]) -> None:
    requirement = parse(f"rusage[{text}]")
    assert list(requirement.rusage) == reservations
    assert requirement.rusage_alternatives == ()
    assert parse(print_requirement(requirement)) == requirement


def test_alternatives_of_rusage() -> None:
    requirement = parse("rusage[mem=20:lic2=1 || mem=30,lic1=1]")
    first, second = requirement.rusage_alternatives
    assert requirement.rusage == first == (Reservation("mem", 20, "20"), Reservation("lic2", 1, "1"))
    assert second == (Reservation("mem", 30, "30"), Reservation("lic1", 1, "1"))
    assert rusage_amounts(requirement) == {"mem": 20.0, "lic2": 1.0}
    assert list(names_in(requirement)) == ["mem", "lic2", "lic1"]
    assert parse("rusage[a=1||a=1]") == parse("rusage[a=1]")


@pytest.mark.parametrize(
    ("seconds", "text"), [(28800, "8h"), (5400, "90m"), (60, "1m"), (45, "45s"), (3601, "3601s"), (86400, "24h")]
)
def test_durations_as_lsf_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "span", "printed"),
    [
        ("ptile='!'", Span(ptile=BY_HOST), "span[ptile='!']"),
        ("ptile=!", Span(ptile=BY_HOST), "span[ptile='!']"),
        (
            "ptile='!',HP:8, SGI:4",
            Span(ptile=BY_HOST, ptile_types=(("HP", 8), ("SGI", 4))),
            "span[ptile='!',HP:8,SGI:4]",
        ),
        ("ptile=2,'X-1':4", Span(ptile=2, ptile_types=(("X-1", 4),)), "span[ptile=2,'X-1':4]"),
        ("ptile=HP:8, SGI:4", Span(ptile=UNLISTED, ptile_types=(("HP", 8), ("SGI", 4))), "span[ptile=HP:8,SGI:4]"),
        (
            "ptile='X-1':2,gtile=1",
            Span(ptile=UNLISTED, ptile_types=(("X-1", 2),), gtile=1),
            "span[ptile='X-1':2,gtile=1]",
        ),
        ("block=4", Span(block=4), "span[block=4]"),
        ("stripe", Span(stripe=0), "span[stripe]"),
        ("stripe=3", Span(stripe=3), "span[stripe=3]"),
        ("gtile=2", Span(gtile=2), "span[gtile=2]"),
        ("gtile=!", Span(gtile=BY_HOST), "span[gtile='!']"),
        ("ptile=4,gtile='!'", Span(ptile=4, gtile=BY_HOST), "span[ptile=4,gtile='!']"),
        ("gtile=1,hosts=1", Span(hosts=1, gtile=1), "span[hosts=1,gtile=1]"),
    ],
)
def test_span(text: str, span: Span, printed: str) -> None:
    requirement = parse(f"span[{text}]")
    assert requirement.span == span
    assert print_requirement(requirement) == printed
    assert parse(printed) == requirement


@pytest.mark.parametrize(
    ("text", "cu", "printed"),
    [
        ("type=rack", Cu("rack"), "cu[type=rack]"),
        ("excl", Cu(excl=True), "cu[excl]"),
        (
            "pref=maxavail:type=enclosure:maxcus=4:usablecuslots=8:excl",
            Cu("enclosure", 4, "maxavail", True, False, 8),
            "cu[type=enclosure:maxcus=4:pref=maxavail:usablecuslots=8:excl]",
        ),
        ("balance:pref=config", Cu(pref="config", balance=True), "cu[pref=config:balance]"),
    ],
)
def test_cu(text: str, cu: Cu, printed: str) -> None:
    requirement = parse(f"cu[{text}]")
    assert requirement.cu == cu
    assert print_requirement(requirement) == printed
    assert parse(printed) == requirement


@pytest.mark.parametrize(
    ("text", "affinity", "printed"),
    [
        ("core", Affinity("core"), "core(1)"),
        ("core*2", Affinity("core", factor=2), "core(1)*2"),
        ("mcm(2)", Affinity("numa", 2), "numa(2)"),
        (
            "core(2)*1:cpubind=core:membind=localonly:distribute=pack",
            Affinity("core", 2, cpubind="core", membind="localonly", distribute="pack"),
            "core(2):cpubind=core:membind=localonly:distribute=pack",
        ),
        (
            "core(2, same=socket, exclusive=(socket, alljobs)): cpubind=socket:distribute=balance",
            Affinity("core", 2, 1, "socket", ("socket", "alljobs"), "socket", distribute="balance"),
            "core(2,same=socket,exclusive=(socket,alljobs)):cpubind=socket:distribute=balance",
        ),
        ("thread(1,exclusive=(core,intask))*4", Affinity("thread", 1, 4, "", ("core", "intask")), None),
        ("cpu(1,exclusive=(numa))", Affinity("thread", exclusive=("numa", "")), "thread(1,exclusive=(numa))"),
        (
            "core(1):distribute=pack(socket=1)",
            Affinity("core", distribute="pack", pack_level="socket", pack_number=1),
            None,
        ),
    ],
)
def test_affinity(text: str, affinity: Affinity, printed: str | None) -> None:
    requirement = parse(f"affinity[{text}]")
    assert requirement.affinity == affinity
    assert print_requirement(requirement) == f"affinity[{printed or text}]"
    assert parse(print_requirement(requirement)) == requirement


def test_order() -> None:
    requirement = parse("order[mem/2:-slots:!ut:!-(r1m+r15m):2*tmp-swp]")
    half = Arithmetic("/", Name("mem"), Number(2.0, "2"))
    assert requirement.order[:3] == (
        OrderKey("mem/2", expression=half),
        OrderKey("slots", True),
        OrderKey("ut", resort=True),
    )
    assert (requirement.order[3].name, requirement.order[3].is_reversed) == ("(r1m+r15m)", True)
    assert print_requirement(requirement) == "order[mem/2:-slots:!ut:!-(r1m+r15m):2*tmp-swp]"
    assert parse(print_requirement(requirement)) == requirement
    assert order_keys(requirement)[:2] == [("mem/2", False), ("slots", True)]
    assert list(names_in(requirement)) == ["mem", "slots", "ut", "r1m", "r15m", "tmp", "swp"]
    number = compile_number(half)
    assert number({"mem": 10.0}) == 5.0
    assert number({"mem": None}) is number({"mem": "x"}) is None


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("rusage[mem=1,duration=5]", 13, "wants a resource before it"),
        ("rusage[mem=1:duration=0]", 22, "wants a time such as"),
        ("rusage[mem=1:duration=5d]", 22, "wants a time such as"),
        ("rusage[mem=1:duration=1.5h]", 22, "wants a time such as"),
        ("rusage[mem=1:duration=5:duration=6]", 24, "given twice"),
        ("rusage[mem=1:decay=1]", 13, "decay=1 wants a duration"),
        ("rusage[mem=1:duration=5:decay=2]", 30, "0 or 1 is wanted, not '2'"),
        ("rusage[mem=1:threshold=x]", 23, "wants an amount"),
        ("rusage[mem=1:threshold=1:threshold=2]", 25, "given twice"),
        ("rusage[mem=(50 20)]", 7, "mem has 2 amounts: 1 or 2 durations are wanted"),
        ("rusage[mem=(50 20):duration=(1 2 3)]", 19, "mem has 2 amounts"),
        ("rusage[mem=1:duration=(5 5)]", 13, "mem has one amount and 2 durations"),
        ("rusage[mem=(50 20):duration=(5):decay=(0 1)]", 32, "decay=1 wants a duration"),
        ("rusage[mem=(50", 14, "wants an amount"),
        ("rusage[mem=()]", 12, "wants an amount"),
        ("rusage[mem=1:gmem=1G]", 13, "belongs to a GPU resource"),
        ("rusage[gmem=1G]", 7, "wants a resource before it"),
        ("rusage[ngpus_physical=1:mig=5]", 28, "mig= takes"),
        ("rusage[ngpus_physical=1:gmem=1G:gmem=1G]", 32, "given twice"),
        ("rusage[a=1||]", 12, "wants the name of a resource"),
        ("rusage[a=1||b=1,b=2]", 16, "reserved twice"),
        ("order[!]", 7, "wants the name of a resource"),
        ("order[5*2]", 6, "this expression has none"),
        ("order[-mem-swp]", 7, "write -(...)"),
        ("order[mem>5]", 9, "']' is wanted"),
        ("order[mem/2:mem/2]", 12, "named twice"),
        ("order[type]", 6, "is text"),
        ("order[mem+type]", 10, "is text"),
        ("span[ptile='x']", 11, "takes a whole number"),
        ("span[ptile=4,HP:0]", 16, "at least 1"),
        ("span[ptile=HP:1,HP:2]", 16, "given twice"),
        ("span[ptile=HP:1,2]", 16, "2"),
        ("span[ptile=4,HP:1,HP:2]", 18, "given twice"),
        ("span[ptile=4,block=2]", 13, "only gtile can"),
        ("span[hosts=1,hosts=1]", 13, "given twice"),
        ("span[block]", 10, "'=' is wanted"),
        ("cu[tipe=a]", 3, "not known in cu"),
        ("cu[pref=best]", 8, "one of config"),
        ("cu[maxcus=0]", 10, "at least 1"),
        ("cu[excl:excl]", 8, "given twice"),
        ("cu[balance:pref=bestfit]", 11, "cannot both hold"),
        ("affinity[gpu(1)]", 9, "numa, socket, core, thread"),
        ("affinity[core(0)]", 14, "at least 1"),
        ("affinity[core(1,spam=1)]", 16, "same= or exclusive="),
        ("affinity[core(1,same=host)]", 21, "a level"),
        ("affinity[core(1,exclusive=core)]", 26, "'(' is wanted"),
        ("affinity[core:membind=far]", 22, "localonly or localprefer"),
        ("affinity[core:cpubind=core:cpubind=core]", 27, "given twice"),
        ("affinity[core:distribute=pack(core)]", 34, "'=' is wanted"),
    ],
)
def test_wrong_sections_say_what_and_where(text: str, position: int, words: str) -> None:
    error = refusal(text)
    assert words in error.detail
    assert error.position == position


def test_names_in_expressions_are_checked_where_they_stand() -> None:
    with pytest.raises(RequirementError, match=r"Bad resource name: mme \(did you mean mem\?\) at position 10 "):
        check_names(parse("order[2*(mme+1)]"), lambda name: name == "mem", ["mem"])
