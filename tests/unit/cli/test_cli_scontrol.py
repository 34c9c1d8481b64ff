"""scontrol and sinfo against a master: what they show, what they ask for, and what they refuse."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli_gjobs import done, pending, running

from gsched.base.ids import element_id
from gsched.dialect.slurm.job_updates import SPELLED, UPDATE_KEYWORDS
from gsched.model.hosts.host import Gpu
from gsched.model.jobs.job import SLURM
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import Control, GpuView, HostView, JobTexts, QueueView
from gsched.wire.calls.client import Client
from gsched.wire.v1 import scheduler_pb2
from tests.support.property_examples import examples

NewCall = Callable[..., FakeCall]


@pytest.fixture
def told(master: FakeMaster) -> None:
    master.views = [
        running(
            7, spec=spec("train.sh", name="night", front_end=SLURM), allocation=allocation(0, 1, slots=4, host="n1")
        ),
        pending(
            8, spec=spec("x", slots=4, front_end=SLURM, run_limit_s=3600, res_req="rusage[mem=100MB] span[ptile=2]")
        ),
        done(9),
        *(pending(element_id(14, index), spec=spec("x", indices="1-3", index_shift=1)) for index in (1, 2, 3)),
    ]
    gpus = tuple(GpuView(gpu=Gpu(index=at, uuid=f"GPU-{at}", model="Tesla T4"), holders=("7.1",)[at:]) for at in (0, 1))
    master.host_views = [
        HostView(name="n1", status="ok", max_slots=8, slots_free=4, njobs=4, gpus=gpus, max_mem_mib=16384.0),
        HostView(name="n2", status="ok", max_slots=8),
        HostView(name="n3", status="closed_Adm", closed_by="root", comment="fan", max_slots=8),
    ]
    master.queue_views = [
        QueueView(name="normal", priority=30),
        QueueView(name="short", priority=40, run_limit_s=900, status="Open:Inact", hosts=("n1+2",)),
    ]


def lines(call: NewCall, *words: str) -> list[str]:
    asked = call(*words)
    assert asked.run() == 0, asked.err
    return asked.out.splitlines()


def facts(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


@pytest.mark.usefixtures("told")
def test_show_job(call: NewCall) -> None:
    (line,) = lines(call, "scontrol", "-o", "show", "job", "7")
    shown = facts(line)
    assert shown["JobId"] == "7" and shown["JobState"] == "RUNNING" and shown["NodeList"] == "n1"
    assert shown["NumCPUs"] == "4" and shown["TresPerNode"] == "gres:gpu:2" and shown["TimeLimit"] == "UNLIMITED"
    assert "GRES=gpu:2(IDX:0-1)" in "".join(lines(call, "scontrol", "show", "job", "7", "-d"))
    elements = lines(call, "scontrol", "-o", "show", "job=14")
    assert [facts(each)["ArrayTaskId"] for each in elements] == ["0-2"]
    assert facts(lines(call, "scontrol", "-o", "show", "job", "14_1")[0])["ArrayTaskId"] == "1"
    many = "\n".join(lines(call, "scontrol", "show", "jobs"))
    assert many.count("JobState=") == 4 and "\n   UserId=" in many
    asked = call("scontrol", "--json", "show", "job", "7")
    assert asked.run() == 0 and json.loads(asked.out)["jobs"][0]["job_state"] == ["RUNNING"]


@pytest.mark.usefixtures("told")
def test_show_nodes_and_partitions(master: FakeMaster, call: NewCall) -> None:
    node = facts(lines(call, "scontrol", "-o", "show", "node", "n[1-1]")[0])
    assert node["State"] == "MIXED" and node["CPUAlloc"] == "4" and node["Partitions"] == "normal,short"
    assert node["CfgTRES"] == "cpu=8,mem=16G,billing=8,gres/gpu=2" and node["AllocTRES"] == "cpu=4,billing=4,gres/gpu=1"
    drained = lines(call, "scontrol", "-o", "show", "node", "n3")[0]
    assert "State=IDLE+DRAIN" in drained and "Reason=fan [root]" in drained
    partitions = [facts(each) for each in lines(call, "scontrol", "-o", "show", "partition")]
    assert [each["PartitionName"] for each in partitions] == ["normal", "short"]
    assert [each["State"] for each in partitions] == ["UP", "DOWN"]
    assert partitions[1]["MaxTime"] == "00:15:00" and partitions[1]["Nodes"] == "n1"
    master.reservation_views = [ReservationView(name="demo", users=("ann",), start=0.0, end=3600.0, slots={"n1": 4})]
    assert "ReservationName=demo" in lines(call, "scontrol", "show", "reservation")[0]


def test_lists_of_hosts_need_no_master(call: NewCall) -> None:
    assert lines(call, "scontrol", "show", "hostnames", "n[1-2,7],gpu01") == ["n1", "n2", "n7", "gpu01"]
    inside = call("scontrol", "show", "hostnames")
    inside.env["SLURM_JOB_NODELIST"] = "n[08-10]"
    assert inside.run() == 0 and inside.out == "n08\nn09\nn10\n"
    assert lines(call, "scontrol", "show", "hostlist", "n3,n1,n2") == ["n3,n[1-2]"]
    assert lines(call, "scontrol", "show", "hostlistsorted", "n3,n1,n2") == ["n[1-3]"]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "action", "numbers"),
    [
        (("hold", "8"), "stop", (8,)),
        (("uhold", "8"), "stop", (8,)),
        (("release", "8"), "resume", (8,)),
        (("suspend", "7"), "stop", (7,)),
        (("resume", "7"), "resume", (7,)),
        (("requeue", "7,9"), "requeue", (9,)),
        (("requeuehold", "7"), "requeue", (7,)),
        (("top", "14_[0-1]"), "top", (element_id(14, 1), element_id(14, 2))),
    ],
)
def test_commands_for_jobs(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], action: str, numbers: tuple[int, ...]
) -> None:
    assert call("scontrol", *words).run() == 0
    asked = master.requests[-1]
    assert isinstance(asked, scheduler_pb2.ControlRequest)
    assert (asked.action, tuple(asked.job_ids)) == (action, numbers)
    assert asked.hold is (words[0] == "requeuehold")


@pytest.mark.usefixtures("told")
def test_update_of_a_job(master: FakeMaster, call: NewCall) -> None:
    changes = (
        "JobId=8 TimeLimit=+30 JobName=x Comment= NumNodes=1 MinMemoryNode=2G Partition=short Requeue=1 Priority=7"
    )
    asked = call("scontrol", "update", "JobId=8", *changes.split())
    assert asked.run() == 0, asked.err
    request = next(each for each in master.requests if isinstance(each, scheduler_pb2.ModifyRequest))
    assert request.spec.run_limit_s == 5400 and request.spec.name == "x" and request.spec.queue == "short"
    assert request.spec.res_req == "rusage[mem=2048MB] span[hosts=1]"
    assert set(request.fields) == {
        *("run_limit_s", "name", "description", "res_req", "queue", "rerunnable", "priority"),
    }
    assert call("scontrol", "update", "job", "8", "Priority=0").run() == 0
    held = master.requests[-1]
    assert isinstance(held, scheduler_pb2.ControlRequest) and held.action == "stop"


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ("TimeLimit=60 NumTasks=2 JobName=x", "NumTasks, JobName"),
        ("numcpus=2", "NumCPUs"),
        ("Dependency=afterok:8", "Dependency"),
        ("NumNodes=1", "NumNodes"),
        ("Priority=5", "Priority"),
        ("Priority=0", "Priority"),
    ],
)
def test_what_of_a_job_that_runs_cannot_be_updated(master: FakeMaster, call: NewCall, changes: str, named: str) -> None:
    asked = call("scontrol", "update", "JobId=7", *changes.split())
    said = f"scontrol: error: {named}: Job is no longer pending execution for job 7\n"
    assert (asked.run(), asked.err) == (1, said)
    assert not any(
        isinstance(each, scheduler_pb2.ModifyRequest | scheduler_pb2.ControlRequest) for each in master.requests
    )


@pytest.mark.usefixtures("told")
def test_what_of_a_job_that_runs_can_be_updated(master: FakeMaster, call: NewCall) -> None:
    asked = call("scontrol", "update", "JobId=7", "TimeLimit=60", "Requeue=0", "Comment=x", "MinMemoryNode=1G")
    assert (asked.run(), asked.err) == (0, "")
    (request,) = [each for each in master.requests if isinstance(each, scheduler_pb2.ModifyRequest)]
    assert set(request.fields) == {"run_limit_s", "rerunnable", "description", "res_req"}


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("about", "kind", "said"),
    [
        (("run_limit_s",), "INVALID_ARGUMENT", "TimeLimit: too long"),
        (("slots",), "INVALID_ARGUMENT", "NumTasks: too long"),
        (("name",), "INVALID_ARGUMENT", "too long"),
        (("slots",), "FAILED_PRECONDITION", "NumTasks: Job is no longer pending execution"),
        ((), "PERMISSION_DENIED", "too long"),
    ],
)
def test_what_the_master_refuses_is_told_by_keyword(
    master: FakeMaster, call: NewCall, about: tuple[str, ...], kind: str, said: str
) -> None:
    master.refused = Control(job_id=0, error="too long", about=about, refused_as=kind)
    asked = call("scontrol", "update", "JobId=8", "TimeLimit=60", "NumTasks=2")
    assert (asked.run(), asked.err) == (1, f"scontrol: error: {said} for job 8\n")


def test_every_keyword_that_is_taken_has_its_spelling() -> None:
    assert SPELLED.keys() == UPDATE_KEYWORDS


@pytest.mark.usefixtures("told")
def test_update_of_nodes_and_partitions(master: FakeMaster, call: NewCall) -> None:
    assert call("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=fan is loud").run() == 0
    assert call("scontrol", "update", "PartitionName=short", "State=INACTIVE").run() == 0
    told = [(each.action, list(getattr(each, "hosts", [])), each.comment) for each in master.requests[-3:]]  # type: ignore[attr-defined]
    assert told == [("close", ["n1", "n2"], "fan is loud"), ("close", [], ""), ("inactivate", [], "")]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a command: "),
        (("frobnicate",), "invalid keyword: frobnicate"),
        (("reconfigure",), "reconfigure: gadmin reconfig does this"),
        (("show",), "show: say what: "),
        (("show", "moods"), "invalid keyword: show moods"),
        (("show", "topology"), "show: gmgroup"),
        (("show", "job", "99"), "Invalid job id specified"),
        (("show", "job", "x"), "Invalid job id x"),
        (("show", "node", "n9"), "Node n9 not found"),
        (("show", "partition", "gone"), "Partition gone not found"),
        (("show", "hostnames"), "show hostnames: give a list"),
        (("show", "node", "n[1-6000]", "m[1-6000]"), "Invalid node list 'm[1-6000]'"),
        (("show", "node", "n" + "[1]" * 2000), "Invalid node list"),
        (("show", "hostnames", f"n[{'1' * 5000}]"), "Invalid node list"),
        (("show", "hostnames", "n[0-99999999]"), "Invalid node list 'n[0-99999999]'"),
        (("hold", "7"), "Job is no longer pending execution for job 7"),
        (("suspend", "8"), "Job is pending execution for job 8"),
        (("suspend", "9"), "Job/step already completing or completed for job 9"),
        (("requeue", "8"), "Job is pending execution for job 8"),
        (("requeue", "99"), "Invalid job id specified for job 99"),
        (("requeue", "14_[0-999999999]"), "Job array index error"),
        (("release",), "too few arguments: name a job"),
        (("update",), "update: No valid entity"),
        (("update", "JobId=8"), "update: no changes specified"),
        (("update", "JobId=8", "Mood=good"), "Update of this parameter is not supported: mood=good for job 8"),
        (("update", "JobId=8", "QOS=high"), "qos: there is no QOS"),
        (("update", "JobId=8", "TimeLimit=soon"), "TimeLimit: Invalid time specification 'soon'"),
        (("update", "JobId=8", "TimeLimit=-120"), "TimeLimit: '-120': nothing would be left"),
        (("update", "JobId=8", "NumNodes=9"), "NumNodes: 9 nodes for 4 tasks"),
        (("update", "JobId=8", "MinMemoryNode=-1"), "MinMemoryNode: Invalid size '-1'"),
        (("update", "NodeName=n1", "State=DRAIN"), "update: You must specify a reason"),
        (("update", "NodeName=n1", "State=DOWN", "Reason=x"), "update: State=DOWN would end the jobs"),
        (("update", "NodeName=n[0-99999999]", "State=RESUME"), "Invalid node list"),
        (("update", "PartitionName=short", "MaxTime=1"), "update: maxtime: it is in the configuration"),
        (("update", "PartitionName=short", "State=TIRED"), "update: State=tired"),
        (("write", "config"), "write: `write batch_script JOB [FILE]` is there"),
    ],
)
def test_what_is_wrong_is_one_line(call: NewCall, words: tuple[str, ...], said: str) -> None:
    asked = call("scontrol", *words)
    assert asked.run() == 1
    assert asked.err.startswith(f"scontrol: error: {said}") and asked.err.count("\n") == 1


@pytest.mark.parametrize("entity", ["hostnames", "hostlist", "hostlistsorted"])
def test_lists_of_names_are_bounded_for_the_whole_call_and_answered_by_the_caller(call: NewCall, entity: str) -> None:
    asked = call("scontrol", "show", entity, *(["n[1-5000]"] * 3))
    taken: list[str] = []
    asked.take_over = lambda: taken.append(asked.out)  # type: ignore[method-assign]
    assert asked.run() == 1 and taken == [""]
    assert "more than 10000 nodes" in asked.err and asked.err.count("\n") == 1


def test_a_file_of_names_is_bounded(call: NewCall) -> None:
    asked = call("scontrol", "show", "hostlist", "/names")
    asked.files["/names"] = b"n1,n2\nn3\n"
    assert asked.run() == 0 and asked.out == "n[1-3]\n"
    asked = call("scontrol", "show", "hostlist", "/names")
    asked.files["/names"] = b"," * (3 << 20)
    assert asked.run() == 1 and "/names: the file has more than" in asked.err


def test_a_script_is_written_for_its_user_alone_and_through_no_link(
    call: NewCall, master: FakeMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master.views = [done(9)]
    script = b"#!/bin/sh\nTOKEN=x\n"
    monkeypatch.setattr(Client, "texts", lambda self, job_id: JobTexts(script=script))

    def write(name: str) -> FakeCall:
        asked = call("scontrol", "write", "batch_script", "9", str(tmp_path / name))
        asked.own_streams = True
        asked.run()
        return asked

    assert write("script").err == ""
    assert (tmp_path / "script").read_bytes() == script
    assert stat.S_IMODE((tmp_path / "script").stat().st_mode) == 0o600
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    assert "failed to open file" in write("link").err and victim.read_text() == "precious"


@pytest.mark.usefixtures("told")
def test_sinfo_forms(call: NewCall) -> None:
    assert lines(call, "sinfo", "-h", "-N", "-o", "%N %T %E") == ["n1 mixed none", "n2 idle none", "n3 drained fan"]
    assert lines(call, "sinfo", "-h", "-R", "-o", "%E|%u|%N") == ["fan|root|n3"]
    assert lines(call, "sinfo", "-h", "-p", "normal", "-s", "-o", "%F %C") == ["1/1/1/3 4/12/8/24"]
    assert lines(call, "sinfo", "-hO", "NodeList:6,GresUsed:.18", "-n", "n[1-1]") == ["n1         gpu:TeslaT4:1"]
    assert lines(call, "sinfo", "-h", "-t", "drain,idle", "-p", "normal", "-S", "-N", "-o", "%N") == ["n3", "n2"]
    asked = call("sinfo", "--json", "-p", "short")
    assert asked.run() == 0 and json.loads(asked.out)["sinfo"][0]["partition"]["name"] == "short"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-t", "bored"), 'Bad state string: "bored"'),
        (("-p", "gone"), "Invalid partition specified: gone"),
        (("-n", "n[0-99999999]"), "Invalid node list"),
        (("-o", "%"), "--format: '%' is no field"),
        (("-O", "Mood"), "Invalid job format specification: Mood"),
        (("-S", "@"), "Invalid sort specification: @"),
        (("-i", "0"), "Invalid numeric value '0'"),
    ],
)
@pytest.mark.usefixtures("told")
def test_what_sinfo_refuses(call: NewCall, words: tuple[str, ...], said: str) -> None:
    asked = call("sinfo", *words)
    assert asked.run() == 1
    assert asked.err.startswith(f"sinfo: error: {said}") and asked.err.count("\n") == 1


WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "show",
                "job",
                "node",
                "partition",
                "update",
                "hold",
                "requeue",
                "top",
                "hostnames",
                "hostlist",
                "step",
                "config",
                "-o",
                "-d",
            ]
        ),
        st.sampled_from(
            ["JobId=8", "NodeName=n1", "PartitionName=short", "8", "7", "14_[0-1]", "TimeLimit=+1", "State=UP"]
        ),
        st.text(alphabet="JobId=Nn[]-,0123456789_%.+\x00é ", max_size=16),
        st.builds(
            "{}={}".format,
            st.sampled_from(
                ["TimeLimit", "NumNodes", "StartTime", "Dependency", "NodeList", "MinMemoryCPU", "Priority"]
            ),
            st.text(alphabet="0123456789:-+nowafter%[],KMG", max_size=12),
        ),
    ),
    max_size=5,
)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
@pytest.mark.usefixtures("told")
def test_anything_typed_is_answered_or_refused(call: NewCall, words: list[str]) -> None:
    for command in ("scontrol", "sinfo"):
        asked = call(command, *words)
        assert asked.run() in (0, 1)
        assert "Traceback" not in asked.err and "internal error" not in asked.err
