"""Options of LSF's commands that choose among jobs, or lay out what is known of them anyway."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec
from test_cli_gjobs import done, pending, running

from gsched.base.coded_text import coded
from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.catalogue import Account, Definitions, Grouping, ModelView, UserLimitView
from gsched.model.views.view import HostView, JobView

NewCall = Callable[..., FakeCall]
NOW = time.time()


def told(call: NewCall, *words: str, **env: str) -> str:
    done = call(*words, **env)
    assert (done.run(), done.err) == (0, "")
    return done.out


def numbers(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def waiting(job_id: int, code: str, **changes: object) -> JobView:
    return pending(job_id, pending_reasons=(PendingReason(coded(code)),), **changes)


@pytest.fixture
def jobs(master: FakeMaster) -> None:
    master.views = [
        waiting(1, "pending.no_slot"),
        waiting(2, "queue.inactivated"),
        waiting(3, "dependency.not_satisfied"),
        waiting(4, "pending.suspended", state="PSUSP"),
        waiting(5, "pending.no_slot", planned=PlannedStart(at=NOW + 60)),
        running(6),
    ]


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-pe"], ["1", "5"]),
        (["-pi"], ["2", "3", "4"]),
        (["-pi", "-pe"], ["1", "5"]),
        (["-plan"], ["5"]),
        (["-pe", "-plan"], ["5"]),
        (["-pe", "-o", "jobid"], ["1", "5"]),
    ],
)
def test_pending_jobs_by_why_they_wait(call: NewCall, options: list[str], expected: list[str]) -> None:
    assert numbers(told(call, "gjobs", "-u", "all", "-noheader", *options)) == expected


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("other", ["-a", "-r", "-d", "-s", "-p", "-N"])
@pytest.mark.parametrize(
    ("option", "expected"), [("-pe", ["1", "5"]), ("-pi", ["2", "3", "4"]), ("-pei", ["1", "2", "3", "4", "5"])]
)
def test_only_pending_jobs_beside_any_choice_of_states(
    call: NewCall, master: FakeMaster, option: str, expected: list[str], other: str
) -> None:
    master.views += [done(7), running(8, state="USUSP")]
    words = [other, *(["1.5"] if other == "-N" else [])]
    shown = numbers(told(call, "gjobs", "-u", "all", "-noheader", option, *words))
    assert sorted(number for number in shown if number.isdigit()) == expected


@pytest.mark.usefixtures("jobs")
def test_both_kinds_one_after_the_other(call: NewCall) -> None:
    shown = told(call, "gjobs", "-u", "all", "-pei", "-noheader", "-o", "jobid")
    assert shown.splitlines() == ["Eligible pending jobs:", "1", "5", "Ineligible pending jobs:", "2", "3", "4"]
    fields = told(call, "gjobs", "-u", "all", "-pei", "-json", "-o", "jobid pendstate")
    assert fields.count("EPEND") == 2 and fields.count("IPEND") == 3


@pytest.mark.usefixtures("jobs")
def test_reasons_come_with_p_alone(call: NewCall) -> None:
    assert "slot limit" not in told(call, "gjobs", "-u", "all", "-pe")
    assert "slot limit" in told(call, "gjobs", "-u", "all", "-pe", "-p")
    refused = call("gjobs", "-pe", "-A")
    assert (refused.run(), refused.err) == (255, "gjobs: -pe cannot be given together with -A, -psum, -p4\n")


@pytest.mark.parametrize("command", ["bkill", "bstop", "bresume"])
def test_all_jobs(master: FakeMaster, call: NewCall, command: str) -> None:
    master.views = [running(7), running(8)]
    assert len(told(call, command, "-a").splitlines()) == 2
    ((_, job_ids, wanted, _),) = master.controls
    assert job_ids == () and wanted is not None
    refused = call(command, "-a", "7")
    assert (refused.run(), refused.err) == (255, f"{command}: -a means all jobs; name none beside it\n")


@pytest.mark.parametrize("command", ["gstop", "gresume"])
def test_why_jobs_are_suspended_and_resumed_is_passed_on(master: FakeMaster, call: NewCall, command: str) -> None:
    told(call, command, "-C", "the room is hot", "7")
    assert master.requests[-1].text == "the room is hot"  # type: ignore[attr-defined]


def finished(job_id: int, **changes: object) -> Account:
    view = running(job_id, state="DONE", finished_at=NOW, spec=msgspec.structs.replace(spec(), **changes))
    return Account(
        job_id=job_id, user="ann", queue="normal", state="DONE", submitted_at=NOW - 9, finished_at=NOW, job=view
    )


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 3),
        (("-J", "train*"), 2),
        (("-J", "train_1"), 1),
        (("-J", "train_?"), 0),
        (("-Jd", "first*"), 1),
        (("-rusage", "mem"), 1),
        (("-J", "train*", "-rusage", "mem"), 0),
    ],
)
def test_accounts_of_chosen_jobs(master: FakeMaster, call: NewCall, options: tuple[str, ...], count: int) -> None:
    master.accounts = [
        finished(1, name="train_1", description="first try"),
        finished(2, name="train_2"),
        finished(3, name="other", combined_req="rusage[mem=5]"),
    ]
    assert f"done jobs:  {count:6d} " in told(call, "gacct", "-u", "all", *options)


def histories(master: FakeMaster) -> None:
    for job_id, group in ((1, "physics"), (2, "")):
        begun = msgspec.structs.replace(spec(), user_group=group)
        happened: tuple[events.AnyEvent, ...] = (
            events.JobSubmitted(at=NOW - 7265, job_id=job_id, spec=begun),
            events.JobDispatched(at=NOW - 3600, job_id=job_id, attempt=1, allocation=allocation(), effective_req=""),
            events.JobSuspended(at=NOW - 60, job_id=job_id, by="ann", reason=coded("suspend.by_user_because", "hot")),
            events.JobResumed(at=NOW - 30, job_id=job_id, by="ann", reason="cool"),
        )
        master.histories[job_id] = tuple(record(seq, each) for seq, each in enumerate(happened, 1))


def test_history_of_a_user_group(master: FakeMaster, call: NewCall) -> None:
    histories(master)
    assert numbers(told(call, "ghist", "-G", "physics", "-X"))[2:] == ["1"]


@pytest.mark.parametrize(("options", "env"), [(["-hms"], {}), ([], {"LSB_HMS_TIME_FORMAT": "Y"})])
def test_times_in_hours_minutes_and_seconds(
    master: FakeMaster, call: NewCall, options: list[str], env: dict[str, str]
) -> None:
    histories(master)
    title, heading, row, *_ = told(call, "ghist", *options, "1", **env).splitlines()
    assert title.startswith("Summary of time in hours:minutes:seconds") and heading.split()[3] == "PEND"
    assert row.split()[3] == "01:01:05"
    assert row.index("01:01:05") == heading.index("PEND")


def test_history_says_why_a_job_was_suspended_and_resumed(master: FakeMaster, call: NewCall) -> None:
    histories(master)
    shown = told(call, "ghist", "-l", "1")
    assert "Suspended by the user or administrator: hot" in shown and "Running: cool" in shown


def test_hours_of_the_chronology(master: FakeMaster, call: NewCall) -> None:
    histories(master)
    call("ghist", "-t", LSB_BHIST_HOURS="3").run()
    since = master.queries[-1].active.since
    assert since is not None and abs(since - (time.time() - 3 * 3600)) < 600
    refused = call("ghist", "-t", LSB_BHIST_HOURS="soon")
    assert refused.run() == 255
    assert refused.err == "ghist: LSB_BHIST_HOURS=soon: not a number of hours from 1 to 1000000\n"


def test_limits_of_pending_jobs(master: FakeMaster, call: NewCall) -> None:
    master.user_views = [UserLimitView(name="ann", max_pending=5, max_pending_slots=50, pend=12, pending_jobs=3)]
    heading, row = told(call, "gusers", "-pl", "ann").splitlines()
    assert heading.split() == ["USER/GROUP", "MPEND", "PEND", "MPJOBS", "PJOBS"]
    assert row.split() == ["ann", "50", "12", "5", "3"]


def test_groups_of_hosts_at_length(master: FakeMaster, call: NewCall) -> None:
    master.groupings["host"] = [Grouping(name="g1", members=("a", "g2"), resolved=("a", "b"), admins=("ann",))]
    master.groupings["host"].append(Grouping(name="g2", members=("b",), resolved=("b",)))
    master.groupings["unit"] = [Grouping(name="r1", members=("a",), resolved=("a",), unit_type="rack")]
    assert told(call, "bmgroup", "-l", "g1") == "GROUP_NAME:  g1\nHOSTS:  a g2/\nGROUP_ADMIN:  ann\n"
    assert "HOSTS:  a b\n" in told(call, "bmgroup", "-l", "-r", "g1")
    assert "TYPE:  rack\n" in told(call, "bmgroup", "-l", "-cu")


def test_the_cluster_at_length(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [HostView(name="a", status="ok", model="fast", type="X86_64")]
    shown = told(call, "lsclusters", "-l")
    assert shown.splitlines()[1].split()[0] == "firestone"
    assert "\nDefault queues:  normal\n" in shown and "\nAvailable host models:  fast\n" in shown


def test_chosen_fields_of_machines(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [
        HostView(name="a", status="ok", ncpus=8, max_mem_mib=2048.0, server=True, resources=("gpu",), cpu_factor=2.5)
    ]
    fields = "host_name ncpus maxmem cpuf server res ndisks delimiter=','"
    assert told(call, "lshosts", "-noheader", "-o", fields) == "a,8,2 Gbytes,2.5,Yes,gpu,-\n"
    assert '"MAXMEM":"2 Gbytes"' in told(call, "lshosts", "-json", "-o", "maxmem")
    assert call("lshosts", "-o", "nothing").run() == 255


@pytest.mark.parametrize(("named", "seconds"), [("slow", 50.0), ("quick", 20.0), ("5", 10.0)])
def test_cpu_time_as_on_another_host(master: FakeMaster, call: NewCall, named: str, seconds: float) -> None:
    """Job 1 has used 20 s on a host of factor 2.5."""
    master.host_views = [HostView(name="ubuntu02", status="ok", cpu_factor=2.5), HostView(name="slow", status="ok")]
    master.definitions = Definitions(models=(ModelView("quick", 2.5),))
    used = AttemptResult(exit_code=0, usage=Usage(cpu_s=20.0))
    done = running(1, state="DONE", finished_at=NOW, result=used)
    master.views = [done, running(2)]
    master.accounts = [
        Account(job_id=1, user="ann", queue="normal", state="DONE", submitted_at=NOW - 9, finished_at=NOW, cpu_s=20.0)
    ]
    master.accounts = [msgspec.structs.replace(master.accounts[0], job=done)]
    fields = ("-noheader", "-o", "jobid cpu_used delimiter=','")
    assert told(call, "gjobs", "-u", "all", "-N", named, *fields) == f"1,{seconds} second(s)\n"
    assert f"Total CPU time consumed: {seconds:9.1f} " in told(call, "gacct", "-u", "all", "-N", named)
    happened: tuple[events.AnyEvent, ...] = (
        events.JobSubmitted(at=NOW - 9, job_id=1, spec=spec()),
        events.JobDispatched(at=NOW - 9, job_id=1, attempt=1, allocation=allocation(), effective_req=""),
        events.JobFinished(at=NOW, job_id=1, attempt=1, result=used),
    )
    master.histories[1] = tuple(record(seq, each) for seq, each in enumerate(happened, 1))
    assert f"The CPU time used is {seconds} seconds" in told(call, "ghist", "-l", "-N", named, "1")
    refused = call("gjobs", "-N", "nobody")
    assert refused.run() == 255
    assert refused.err == "gjobs: -N nobody: neither a host nor a host model, nor a CPU factor\n"
