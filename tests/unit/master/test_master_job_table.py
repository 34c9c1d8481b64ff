"""Tables of jobs in columns say what the views of the same jobs say: random courses of jobs, the way to the text."""

from __future__ import annotations

import random
from datetime import UTC

import msgspec
import pytest
from test_master_rows import Stored, play

from gsched.base.errors import Internal
from gsched.base.ids import element_id
from gsched.cli.render.jobs.job_table import ReasonLines, render_columns, render_short, render_wide
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.core.command import Submit
from gsched.core.decision import Decision
from gsched.master.views import job_table
from gsched.master.views.board import Board
from gsched.master.views.job_table import table_jobs
from gsched.model.jobs.job import JobSpec
from gsched.model.views.jobs_in_columns import JobsInColumns
from gsched.model.views.view import JobFilter
from gsched.sim.world import simulated_config
from gsched.wire.messages import column_codec
from gsched.wire.messages.column_codec import columns_of_views, read_columns, table_replies
from gsched.wire.v1 import job_table_pb2, model_pb2

FILTERS = (
    JobFilter(),
    JobFilter(finished=True),
    JobFilter(states=("USUSP", "PSUSP", "SSUSP")),
    JobFilter(states=("PEND",), name="job1*"),
    JobFilter(arrays=True),
    JobFilter(name="job*[2-3]"),
    JobFilter(ids=(1, 2, element_id(3, 1), element_id(4, 2), 5)),
    JobFilter(user="nobody"),
)


class Shown(Stored):
    """The same world; what it decides goes onto a board instead of into a store."""

    def __init__(self) -> None:
        self.board = Board(simulated_config(2, 3, gpus=4))
        super().__init__(log=None)  # type: ignore[arg-type]  # nothing is written

    def _take(self, decision: Decision) -> Decision:
        self.board.publish(self.engine)
        for instruction in decision.instructions:
            self._obey(instruction)
        return decision


def columns(board: Board, wanted: JobFilter, *, reasons: bool) -> list[JobsInColumns]:
    """What a client reads of the answer."""
    replies = table_replies(table_jobs(board, wanted, with_reasons=reasons))
    read = [job_table_pb2.JobTableReply.FromString(reply.SerializeToString()) for reply in replies]
    return [read_columns(reply) for reply in read]


def text(parts: list[JobsInColumns], *, wide: bool, reasons: bool) -> str:
    lines = ReasonLines(2000.0) if reasons else None
    return "".join(render_columns(part, UTC, wide=wide, header=False, reasons=lines) for part in parts)


def check(board: Board) -> int:
    """Compare all; returns how many jobs there were."""
    seen = 0
    for wanted in FILTERS:
        views = list(board.jobs(wanted))
        seen += len(views)
        for reasons in (False, True):
            parts = columns(board, wanted, reasons=reasons)
            for wide in (False, True):
                render = render_wide if wide else render_short
                lines = ReasonLines(2000.0) if reasons else None
                expected = render([ShownJob(view=view) for view in views], UTC, header=False, reasons=lines)
                assert text(parts, wide=wide, reasons=reasons) == expected, (wanted, reasons, wide)
                assert text(list(columns_of_views(views)), wide=wide, reasons=reasons) == expected
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_a_table_shows_what_views_show(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_codec, "JOBS_PER_REPLY", 7)
    monkeypatch.setattr(job_table, "MOST_KEPT", 3)
    world = Shown()
    play(world, random.Random(seed))
    assert check(world.board) > 50


def test_names_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_codec, "CHARACTERS_PER_REPLY", 40)
    world = Shown()
    names = ("", "훈련_하나_둘_셋", "a\x1b[31mred", "a-name-longer-than-its-column", "two\nlines", "\u202eright")
    spec = JobSpec(command="run --seed 1", user="ann", queue="normal", submit_host="a-host-with-a-long-name.example")
    jobs = tuple(msgspec.structs.replace(spec, name=name, project=f"p{n}") for n, name in enumerate(names))
    world._take(world.engine.handle(Submit("ann", "", jobs), world.now))
    assert check(world.board) > len(names)
    assert len(columns(world.board, JobFilter(), reasons=False)) > 1, "a reply is cut off where names are long"


def test_jobs_that_show_the_same_share_a_view() -> None:
    world = Shown()
    spec = JobSpec(command="run", user="ann", queue="normal", res_req="rusage[ngpus_excl_p=1]")
    jobs = tuple(msgspec.structs.replace(spec, name=f"n{number}") for number in range(300))
    world._take(world.engine.handle(Submit("ann", "", jobs), world.now))
    (part,) = columns(world.board, JobFilter(), reasons=True)
    assert len(part.alike) == 1 and len(part.names) == 300


def test_columns_that_do_not_agree_are_refused() -> None:
    with pytest.raises(Internal, match="columns do not agree"):
        read_columns(job_table_pb2.JobTableReply(job_ids=[1], names=["a"], submitted_at=[1.0], places=[0]))
    alike = [model_pb2.JobView(state="PEND")]
    with pytest.raises(Internal, match="columns do not agree"):
        read_columns(job_table_pb2.JobTableReply(alike=alike, job_ids=[1], submitted_at=[1.0], places=[0]))
