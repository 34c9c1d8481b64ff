"""gmod against a master over the wire: what travels, what is said of each job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, serve, spec

from gsched.base.ids import element_id
from gsched.cli import registry
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import NoticeWish
from gsched.model.jobs.notice_targets import read_targets
from gsched.model.views.view import Control, JobView
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import model_pb2, scheduler_pb2

NewCall = Callable[..., FakeCall]


class Modifiable(FakeMaster):
    """Keeps the modifications it is asked for; all of them are carried out but those in `control_errors`."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[bytes] = []
        self.modified: list[tuple[tuple[int, ...], tuple[str, ...], JobSpec]] = []

    def Modify(self, request, context):
        if self.refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        self.targets.append(request.notice_targets)
        self.modified.append((tuple(request.job_ids), tuple(request.fields), from_proto(request.spec, JobSpec)))
        results = [Control(job_id=each, error=self.control_errors.get(each, "")) for each in request.job_ids]
        return scheduler_pb2.ControlReply(results=[to_proto(each, model_pb2.Control) for each in results])


@pytest.fixture
def jobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modifiable]:
    monkeypatch.setitem(registry.COMMANDS, "gmod", "gsched.cli.commands.job_control.gmod:main")
    with serve(Modifiable(), folder) as served:
        assert isinstance(served, Modifiable)
        yield served


def view(job_id: int, **changes: object) -> JobView:
    changed = msgspec.structs.replace(spec(), **changes)
    return JobView(job_id=job_id, spec=changed, state="PEND", submitted_at=1.0)


def test_several_jobs_get_new_values(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "-q", "night", "-W", "1:30", "-R", "rusage[mem=10]", "12", "13")
    jobs.control_errors[13] = "Job has already finished"
    assert gmod.run() == 255
    assert gmod.out == "Parameters of job <12> are being changed\n"
    assert gmod.err == "Job <13>: Job has already finished\n"
    [(ids, fields, sent)] = jobs.modified
    assert (ids, set(fields)) == ((12, 13), {"queue", "run_limit_s", "res_req"})
    assert (sent.queue, sent.run_limit_s, sent.res_req) == ("night", 5400, "rusage[mem=10]")
    assert not jobs.filters


def test_a_queue_alone_is_a_switch(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "-q", "night", "12")
    assert gmod.run() == 0
    assert [(ids, fields) for ids, fields, _ in jobs.modified] == [((12,), ("queue",))]


def test_values_go_back_to_what_nobody_asked_for(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "-Wn", "-mn", "-gpun", "-bn", "12")
    assert gmod.run() == 0
    [(_, fields, sent)] = jobs.modified
    assert set(fields) == {"run_limit_s", "hosts", "host_levels", "other_hosts", "first_hosts", "gpu_req", "begin_at"}
    assert (sent.run_limit_s, sent.hosts, sent.gpu_req, sent.begin_at) == (None, (), "", None)


def test_notices_go_with_where_they_go(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "--notify", "page", "7")
    gmod.files["/home/test/.gsched/notify"] = b"mail\npage: command ~/page\n"
    assert gmod.run() == 0
    ((ids, fields, changed),) = jobs.modified
    assert (ids, fields, changed.notices) == (
        (7,),
        ("notices",),
        (NoticeWish(way="command", events=("end", "warning")),),
    )
    assert [target.to for target in read_targets(jobs.targets[0])] == ["/home/test/page"]
    assert call("gmod", "--notify", "none", "7").run() == 0
    assert jobs.modified[1][1:] == (("notices",), msgspec.structs.replace(changed, notices=()))
    assert jobs.targets[1] == b""


def test_limits_that_are_not_named_stay(jobs: Modifiable, call: NewCall) -> None:
    jobs.views = [view(12, limits={"MEMLIMIT": 100.0, "CPULIMIT": 60.0, "CORELIMIT": 0.0})]
    gmod = call("gmod", "-M", "2G", "-cn", "12")
    assert (gmod.run(), gmod.out, gmod.err) == (0, "Parameters of job <12> are being changed\n", "")
    [(ids, fields, sent)] = jobs.modified
    assert (ids, fields, sent.limits) == ((12,), ("limits",), {"MEMLIMIT": 2048.0, "CORELIMIT": 0.0})


def test_elements_with_limits_of_their_own_keep_them(jobs: Modifiable, call: NewCall) -> None:
    own = {"MEMLIMIT": 100.0}
    jobs.views = [view(element_id(12, 1)), view(element_id(12, 2), limits=own), view(element_id(12, 3))]
    found = jobs.views
    jobs.Jobs = lambda request, context: iter(  # type: ignore[method-assign]
        [scheduler_pb2.JobsReply(jobs=[to_proto(each, model_pb2.JobView) for each in found])]
    )
    jobs.control_errors[element_id(12, 3)] = "Job has already finished"
    gmod = call("gmod", "-p", "9", "12")
    assert gmod.run() == 255
    assert gmod.err == "Job <12[3]>: Job has already finished\n"
    assert [(ids, sent.limits) for ids, _, sent in jobs.modified] == [
        ((element_id(12, 1), element_id(12, 3)), {"PROCESSLIMIT": 9.0}),
        ((element_id(12, 2),), {"MEMLIMIT": 100.0, "PROCESSLIMIT": 9.0}),
    ]


def test_a_job_that_is_not_there_is_the_masters_to_name(jobs: Modifiable, call: NewCall) -> None:
    jobs.control_errors[12] = "No matching job found"
    gmod = call("gmod", "-M", "2G", "12")
    assert (gmod.run(), gmod.out, gmod.err) == (255, "", "Job <12>: No matching job found\n")


def test_the_command_of_a_script_stays(jobs: Modifiable, call: NewCall) -> None:
    jobs.views = [view(12, script="abc"), view(13)]
    gmod = call("gmod", "-Z", "sleep 5", "12", "13")
    assert gmod.run() == 255
    assert gmod.err == "Job <12>: The job is a script: its command cannot be changed\n"
    assert gmod.out == "Parameters of job <13> are being changed\n"
    assert [(ids, fields, sent.command) for ids, fields, sent in jobs.modified] == [((13,), ("command",), "sleep 5")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-W", "soon", "12"], "-W: 'soon' is not a run limit of the form [hours:]minutes. Job not modified.\n"),
        (["12"], "nothing to change: give an option (-h lists them). Job not modified.\n"),
        (["-Wn", "twelve"], "twelve: Illegal job ID. Job not modified.\n"),
        (["-Wn", "0"], "0 stands for no single job: name the jobs to be modified. Job not modified.\n"),
        (["-Wn", "12"], "the store is read-only. Job not modified.\n"),
    ],
)
def test_refusals_end_as_lsf_says(jobs: Modifiable, call: NewCall, words: list[str], text: str) -> None:
    jobs.refusal = "the store is read-only"
    gmod = call("gmod", *words)
    assert (gmod.run(), gmod.out, gmod.err) == (255, "", text)


def test_help_teaches(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "-h")
    assert gmod.run() == 0
    assert "-Wn" in gmod.out and "take -W back" in gmod.out
    version = call("gmod", "-V")
    assert (version.run(), version.out[:7]) == (0, "gsched ")


def test_a_file_of_hosts_says_where_the_slots_are_and_is_taken_back(jobs: Modifiable, call: NewCall) -> None:
    gmod = call("gmod", "-hostfile", "hosts.txt", "7")
    gmod.files["hosts.txt"] = b"a 2\nb\n"
    assert (gmod.run(), gmod.err) == (0, "")
    asked_otherwise = {"slots": 4, "res_req": "select[mem>1] span[hosts=1]", "hosts": ("b",)}
    jobs.views = [view(7, **{name: getattr(jobs.modified[0][2], name) for name in jobs.modified[0][1]})]
    jobs.views.append(view(8, **asked_otherwise))
    other = call("gmod", "-hostfilen", "8")
    assert other.run() == 255 and "The job has no file of hosts" in other.err
    assert call("gmod", "-hostfilen", "7").run() == 0
    (_, fields, sent), (_, others, cleared) = jobs.modified
    assert set(fields) == {
        *("slots", "max_slots", "hosts", "host_levels", "other_hosts", "first_hosts", "res_req"),
    }
    assert set(others) == set(fields)
    assert (sent.slots, sent.hosts, sent.first_hosts) == (3, ("a", "b"), ("a",))
    assert (cleared.slots, cleared.hosts, cleared.res_req) == (1, (), "")
    wrong = call("gmod", "-hostfile", "hosts.txt", "-n", "2", "7")
    assert wrong.run() == 255 and "options -hostfile and -n exclude each other" in wrong.err
