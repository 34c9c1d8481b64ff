"""sprio, sstat, sshare, sattach and sacctmgr against a master."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli_gjobs import pending, running

from gsched.model.jobs.job import Usage
from gsched.model.views.view import OutputChunk, QueueView, ShareView
from tests.support.property_examples import examples

NewCall = Callable[..., FakeCall]


@pytest.fixture
def told(master: FakeMaster) -> None:
    usage = Usage(cpu_s=3.5, max_mem_mib=2.0, pids=(41, 42), sampled_at=1.0)
    master.views = [
        running(7, spec=spec("train.sh"), allocation=allocation(slots=2, host="n1"), usage=usage),
        pending(8, spec=spec("x", priority=20), queue_priority=40),
        pending(9, spec=spec("x", priority=70), queue_priority=30),
    ]
    shares = (
        ShareView(path="night/", name="ann", shares=3, priority=1.5, cpu_s=100.0, run_s=200.0),
        ShareView(path="night/", name="bob", shares=1, priority=0.5, cpu_s=0.0, run_s=100.0),
    )
    master.queue_views = [QueueView(name="night", priority=30, shares=shares)]


def lines(call: NewCall, *words: str) -> list[str]:
    asked = call(*words)
    assert asked.run() == 0, asked.err
    return asked.out.splitlines()


@pytest.mark.usefixtures("told")
def test_sprio(call: NewCall) -> None:
    assert lines(call, "sprio", "-h", "-o", "%i %r %Y %P", "-S", "-Y") == [
        "8 normal 40020 40",
        "9 normal 30070 30",
    ]
    assert lines(call, "sprio", "-h", "-n", "-j", "8", "-o", "%i %y") == ["8 0.00000932"]
    assert lines(call, "sprio", "-w")[1].split() == ["Weights", "1"]


@pytest.mark.usefixtures("told")
def test_sstat(call: NewCall) -> None:
    assert lines(call, "sstat", "-nPj", "7.batch", "-o", "JobID,MaxRSS,AveCPU,NTasks,Pids") == [
        "7.batch|2048K|00:00:03|1|41,42"
    ]
    asked = call("sstat", "-nPj", "8")
    assert asked.run() == 1 and asked.err == "sstat: error: couldn't get steps for job 8\n"


@pytest.mark.usefixtures("told")
def test_sshare(call: NewCall) -> None:
    found = lines(call, "sshare", "-anP", "-o", "User,Partition,RawShares,NormShares,RawUsage,EffectvUsage")
    assert found == ["ann|night|3|0.750000|300|0.750000", "bob|night|1|0.250000|100|0.250000"]
    assert lines(call, "sshare", "-U", "--format", "Account%256", "--noheader", "-u", "ann") == []


@pytest.mark.usefixtures("master")
def test_sacctmgr(call: NewCall) -> None:
    assert lines(call, "sacctmgr", "-nP", "show", "cluster", "format=cluster,controlhost") == ["firestone|ubuntu02"]
    assert lines(call, "sacctmgr", "-n", "-s", "list", "user", "ann", "format=account%256") == []
    assert lines(call, "sacctmgr", "-nP", "list", "user", "ann", "format=user,admin") == ["ann|None"]
    assert lines(call, "sacctmgr", "-nP", "show", "qos", "format=name") == ["normal"]
    assert lines(call, "sacctmgr", "-nP", "show", "assoc", "where", "user=ann") == []


@pytest.mark.usefixtures("told")
def test_sattach(master: FakeMaster, call: NewCall) -> None:
    master.outputs = [[OutputChunk(stream="stdout", data=b"one\n"), OutputChunk(stream="stderr", data=b"two\n")]]
    asked = call("sattach", "7.0")
    assert asked.run() == 0 and (asked.out, asked.err) == ("one\n", "two\n")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sattach",), "give one job"),
        (("sattach", "7.x"), "'7.x' is no step"),
        (("sattach", "8.0"), "Could not get job step info: Job is pending"),
        (("sattach", "99.0"), "Could not get job step info: Invalid job id specified"),
        (("sattach", "-l", "7.0"), "-l: a job has one output"),
        (("sstat",), "You didn't give me any jobs to stat."),
        (("sstat", "-j", "7", "-o", "Mood"), 'Invalid field requested: "Mood"'),
        (("sprio", "-S", "@"), "Invalid sort specification: @"),
        (("sprio", "-S", "--"), "Invalid sort specification: --"),
        (("sprio", "-j", "99"), "Unable to find jobs matching"),
        (("sshare", "-o", "Mood"), 'Invalid field requested: "Mood"'),
        (("sacctmgr",), "'': show and list are there"),
        (("sacctmgr", "add", "user", "ann"), "add: users and projects are not registered"),
        (("sacctmgr", "show", "moods"), "No valid entity in list command"),
        (("sacctmgr", "show", "runawayjobs"), "runawayjobs: "),
        (("sacctmgr", "show", "user", "mood=good"), "Unknown condition: mood=good"),
    ],
)
def test_what_is_wrong_is_one_line(call: NewCall, words: tuple[str, ...], said: str) -> None:
    asked = call(*words)
    assert asked.run() == 1
    assert asked.err.startswith(f"{words[0]}: error: {said}") and asked.err.count("\n") == 1


WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "-j",
                "-o",
                "-S",
                "-u",
                "-n",
                "-P",
                "-l",
                "-a",
                "-U",
                "show",
                "list",
                "user",
                "qos",
                "where",
                "7",
                "8.0",
                "7.batch",
                "format=user",
            ]
        ),
        st.text(alphabet="JobID%,.-_[]0123456789=\x00é ", max_size=16),
    ),
    max_size=5,
)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
@pytest.mark.usefixtures("told")
def test_anything_typed_is_answered_or_refused(call: NewCall, words: list[str]) -> None:
    for command in ("sprio", "sstat", "sshare", "sacctmgr", "sreport"):
        asked = call(command, *words)
        assert asked.run() in (0, 1)
        assert "Traceback" not in asked.err and "internal error" not in asked.err
