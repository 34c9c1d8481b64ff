"""Lists of nodes, jobs and indices that are too long or nested, given to Slurm's commands: refused in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli_gjobs import pending

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.dialect.slurm.dependencies import condition_of
from gsched.model.views.view import HostView, QueueView
from tests.support.property_examples import examples

NewCall = Callable[..., FakeCall]
COMMANDS = (
    ("squeue", "-w"),
    ("squeue", "-j"),
    ("squeue", "-n"),
    ("squeue", "-o"),
    ("sinfo", "-n"),
    ("sinfo", "-p"),
    ("sinfo", "-o"),
    ("sacct", "-a", "-N"),
    ("sacct", "-j"),
    ("sacct", "-a", "-i"),
    ("sacct", "-o"),
    ("sbatch", "--wrap=true", "--nodelist"),
    ("sbatch", "--wrap=true", "--exclude"),
    ("sbatch", "--wrap=true", "--array"),
    ("sbatch", "--wrap=true", "--dependency"),
    ("sprio", "-j"),
    ("sstat", "-j"),
    ("scancel",),
    ("scontrol", "show", "node"),
    ("scontrol", "show", "job"),
    ("scontrol", "show", "hostnames"),
    ("scontrol", "show", "hostlist"),
    ("scontrol", "hold"),
    ("scontrol", "update", "State=RESUME"),
)
HOSTILE = (
    "n" + "[1]" * 2000,
    f"n[{'1' * 5000}]",
    "9" * 5000,
    f"7_[{'9' * 5000}]",
    f"n[{'0' * 3900}1-9]",
    "n[1-999999999]",
    "7_[0-99999999]",
    ",".join(["n[1-9000]"] * 2),
    "[" * 5000,
    "%" * 5000,
)


@pytest.fixture(autouse=True)
def told(master: FakeMaster) -> None:
    master.views = [pending(element_id(7, index), spec=spec("x", indices="1-3")) for index in (1, 2, 3)]
    master.host_views = [HostView(name="n1", status="ok", max_slots=8)]
    master.queue_views = [QueueView(name="normal", priority=30)]


def given_to(call: NewCall, command: tuple[str, ...], text: str) -> None:
    *words, last = command
    asked = call(*command, text) if last != "State=RESUME" else call(*words, f"NodeName={text}", last)
    assert asked.run() in (0, 1)
    assert asked.err.count("\n") <= 1 + asked.out.count("\n") and len(asked.err) < 1000, asked.err[:1000]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_hostile_lists_are_refused_in_a_line(call: NewCall, command: tuple[str, ...]) -> None:
    for text in HOSTILE:
        given_to(call, command, text)


_PIECES = st.sampled_from(
    [
        "n",
        "[",
        "]",
        ",",
        "-",
        "_",
        ":",
        "%",
        "7",
        "7_[1-3]",
        "[1-9]",
        "[01,2]",
        "0" * 50,
        "9" * 12,
        "[1]" * 9,
        "afterok:",
    ]
)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(command=st.sampled_from(COMMANDS), text=st.lists(_PIECES, min_size=1, max_size=30).map("".join))
def test_any_list_is_taken_or_refused(call: NewCall, command: tuple[str, ...], text: str) -> None:
    given_to(call, command, text)


def test_jobs_of_all_lists_of_squeue_are_counted_together(call: NewCall) -> None:
    asked = call("squeue", "-j", "7_[1-60000]", "-j", "7_[1-60000]")
    assert asked.run() == 1 and asked.err == "squeue: error: --jobs: more than 100000 jobs are named\n"


def test_a_condition_of_many_elements_is_refused() -> None:
    with pytest.raises(BadRequest, match="it names too many jobs"):
        condition_of(",".join(["afterok:1_[1-100000]"] * 1000), lambda number, indices: "1," * 100_000)
    assert condition_of("afterok:1:2,afterany:3_[4]", lambda number, indices: indices) == (
        "done(1) && done(2) && ended(3[4])"
    )
