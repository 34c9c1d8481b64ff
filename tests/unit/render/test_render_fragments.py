"""gadmin frag: the rows, and the sentences that say what is free but out of reach."""

from __future__ import annotations

from gsched.cli.render.hosts.fragments import NO_GPUS, render_fragments
from gsched.model.views.room_view import FragmentView


def host(name: str, **values: object) -> FragmentView:
    return FragmentView(host=name, **values)  # type: ignore[arg-type]


def test_the_largest_job_that_fits_and_what_is_out_of_reach() -> None:
    text = render_fragments(
        [
            host("full", gpus=4, free=0, slots_free=3, blocked_by="4 held by jobs"),
            host("best", gpus=8, free=3, usable=3, slots_free=5, mem_free_mib=2048.0, blocked_by="5 held by jobs"),
            host("alike", gpus=8, free=3, usable=3),
            host("stuck", gpus=2, free=2, slots_free=0, blocked_by="no job slot is free"),
        ]
    )
    lines = text.splitlines()
    assert lines[0].split() == ["HOST_NAME", "GPUS", "FREE", "PARTLY", "SLOTS", "MEM", "USABLE", "HELD_BACK_BY"]
    assert [line.split()[0] for line in lines[1:5]] == ["alike", "best", "stuck", "full"]
    assert lines[2].split(maxsplit=7) == ["best", "8", "3", "0", "5", "2G", "3", "5 held by jobs"]
    assert lines[5:] == [
        "",
        "The largest job on one host that fits now: 3 GPUs, on alike (and 1 more like it).",
        "Over all hosts 6 GPUs could be had now; 8 of 22 are free.",
        "Free but out of reach: 2 GPUs, on stuck (see HELD_BACK_BY).",
    ]


def test_nothing_fits_and_nothing_is_there() -> None:
    assert "No job that needs a GPU fits now.\n" in render_fragments(
        [host("full", gpus=1, blocked_by="1 held by jobs")]
    )
    assert render_fragments([]) == NO_GPUS
