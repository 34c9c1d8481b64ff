"""gjdepinfo: who waits for whom, level by level."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, spec
from test_cli_gjobs import done, pending, running

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.cli.commands.job_views.gjdepinfo import parents_of_spec
from gsched.model.jobs.reason import PendingReason

NewCall = Callable[..., FakeCall]
PARENTS = "JOBID          PARENT         PARENT_STATUS  PARENT_NAME  LEVEL\n"


@pytest.fixture
def chain(master: FakeMaster) -> FakeMaster:
    """9 waits for 8 and 7, 8 for 6."""
    master.views = [
        msgspec.structs.replace(done(6), spec=spec(name="prepare the data")),
        running(7, spec=spec(name="준비")),
        pending(8, spec=spec(name="train", conditions="done(6)")),
        pending(9, spec=spec(name="last", conditions="done(8) && ended(7)")),
    ]
    return master


def test_what_a_job_waits_for(chain: FakeMaster, call: NewCall) -> None:
    told = call("bjdepinfo", "9")
    rows = "9              7              RUN            준비         1\n"
    rows += "9              8              PEND           train        1\n"
    assert (told.run(), told.out) == (0, PARENTS + rows)
    deeper = call("bjdepinfo", "-r", "5", "9")
    assert deeper.run() == 0
    assert deeper.out == PARENTS + rows + "8              6              DONE           *e the data  2\n"


def test_what_waits_for_a_job(chain: FakeMaster, call: NewCall) -> None:
    told = call("gjdepinfo", "-c", "-r", "2", "6")
    assert told.run() == 0
    assert told.out == (
        "JOBID          CHILD          CHILD_STATUS   CHILD_NAME   LEVEL\n"
        "6              8              PEND           train        1\n"
        "8              9              PEND           last         2\n"
    )


def test_only_what_has_not_come(chain: FakeMaster, call: NewCall) -> None:
    told = call("bjdepinfo", "-p", "-r", "3", "9")
    assert told.run() == 0
    assert [line.split()[:2] for line in told.out.splitlines()[1:]] == [["9", "7"], ["9", "8"]]
    none = call("bjdepinfo", "-p", "8")
    assert (none.run(), none.err) == (0, "Job <8> waits for nothing that has not come\n")


def test_the_conditions_and_whether_they_hold(chain: FakeMaster, call: NewCall) -> None:
    waits = (PendingReason(coded("dependency.not_satisfied")),)
    views = {view.job_id: view for view in chain.views}
    last = msgspec.structs.replace(views[9].spec, dependency="done(train) && ended(7)")
    train = msgspec.structs.replace(views[8].spec, dependency="done(6)")
    chain.views[3] = msgspec.structs.replace(views[9], spec=last, pending_reasons=waits)
    chain.views[2] = msgspec.structs.replace(views[8], spec=train, pending_reasons=())
    told = call("bjdepinfo", "-l", "-r", "3", "9")
    assert told.run() == 0
    assert set(told.out.split(PARENTS)[0].splitlines()) == {
        "Dependency condition of job <9> is not satisfied: done(train) && ended(7)",
        "Dependency condition of job <8> is satisfied: done(6)",
    }


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("gjdepinfo", "-c", "-l", "9"), 255, "gjdepinfo: -l and -p tell of jobs that are waited for, not with -c\n"),
        (("gjdepinfo", "7"), 0, "Job <7> waits for no job\n"),
        (("gjdepinfo", "-c", "9"), 0, "Job <9> has no jobs that wait for it\n"),
        (("gjdepinfo", "5"), 255, "Job <5> is not found\n"),
        (("gjdepinfo",), 255, "gjdepinfo: name one job\n"),
        (("gjdepinfo", "-r", "0", "9"), 255, "gjdepinfo: -r 0: not a number of levels from 1 to 100\n"),
    ],
)
def test_what_else_is_said(chain: FakeMaster, call: NewCall, argv: tuple[str, ...], code: int, text: str) -> None:
    told = call(*argv)
    assert (told.run(), told.out, told.err) == (code, "", text)


def test_elements_and_whole_arrays_are_told_apart() -> None:
    view = pending(9, spec=spec(conditions="done(8[3]) && (exit(7, > 2) || numdone(6, >= 4)) && ended(5[*])"))
    assert parents_of_spec(view) == {element_id(8, 3), 7, 6, 5}
