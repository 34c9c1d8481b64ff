"""gjobs against the transcripts of bjobs, and its texts, streams and exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec

from gsched.cli.render.text.time_texts import as_of, long_stamp
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.catalogue import Definitions, ResourceView
from gsched.model.views.view import HostView, JobView, Message, QueueView

NewCall = Callable[..., FakeCall]
GOLDEN = Path(__file__).parent.parent / "render" / "golden"
REASONS = (
    PendingReason("Not enough ngpus_excl_p", 1, "2 wanted, 0 left on ubuntu02"),
    PendingReason("Not specified in job submission", 3, candidate=False, names=("a", "b")),
    PendingReason("Job slot limit reached", 2),
)
REQ = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=1.00]"


def at(text: str) -> float:
    return datetime.strptime(f"2017 {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def pending(job_id: int, **changes: object) -> JobView:
    values: dict[str, object] = {
        "job_id": job_id,
        "spec": spec("train_01.sh"),
        "state": "PEND",
        "submitted_at": at("Jul 7 18:02:15"),
        "pending_reasons": REASONS,
    }
    return JobView(**(values | changes))  # type: ignore[arg-type]


def running(job_id: int, **changes: object) -> JobView:
    start = at("Jul 7 18:02:15")
    values: dict[str, object] = {"state": "RUN", "allocation": allocation(0, 1), "dispatched_at": start}
    return pending(job_id, pending_reasons=(), **(values | changes))


def done(job_id: int, exit_code: int = 0) -> JobView:
    state = "EXIT" if exit_code else "DONE"
    result = AttemptResult(exit_code=exit_code, ended_at=at("Jul 7 18:03:15"))
    return running(job_id, state=state, result=result, finished_at=result.ended_at)


@pytest.mark.parametrize(
    ("awaited", "note"),
    [
        (("ubuntu02",), "starting: waiting for the job's files (input, output, working directory) on host ubuntu02;"),
        (("h2",), "starting: waiting for host h2 to open what the job has there;"),
        (("h2", "h3"), "starting: waiting for hosts h2, h3 to open what the job has there;"),
    ],
)
def test_a_job_whose_start_hangs_says_what_it_waits_for(
    master: FakeMaster, call: NewCall, awaited: tuple[str, ...], note: str
) -> None:
    master.views = [running(7, awaited=awaited), running(8, awaited=awaited, dispatched_at=time.time()), running(9)]
    long = call("gjobs", "-UF")
    assert long.run() == 0
    first, second, third = long.out.split("-" * 30, 2)
    assert " WARNINGS:" in first and note in first
    assert "starting" not in second + third, "that a job takes a moment to begin is not worth a word"
    short = call("gjobs")
    assert short.run() == 0 and "starting" not in short.out


def job_1153() -> JobView:
    start = at("Jul 7 17:34:02")
    usage = Usage(
        cpu_s=117.0,
        mem_mib=277.0,
        swap_mib=0.0,
        max_mem_mib=277.0,
        avg_mem_mib=274.0,
        threads=78,
        pgid=12981,
        pids=(12981, 12985, 12987, 12988, 12989, 12990),
        sampled_at=at("Jul 7 17:35:01"),
    )
    return JobView(
        job_id=1153,
        spec=spec(res_req="select[ngpus>0] rusage[ngpus_excl_p=1]", combined_req=REQ),
        state="RUN",
        submitted_at=start,
        attempt=1,
        allocation=allocation(2),
        effective_req=REQ,
        dispatched_at=start,
        started_at=start,
        pid=12981,
        exec_home="/home/test",
        exec_cwd="/opt/DL/caffe-nv",
        usage=usage,
        messages=(Message(box=0, user="test", posted_at=start, text="ubuntu02:gpus=2;"),),
    )


def lines(text: str) -> list[str]:
    """Without what the transcripts have lost: blanks at the ends of lines, blank lines around."""
    return [line.rstrip() for line in text.strip().splitlines()]


def test_short_listing_is_the_transcript(master: FakeMaster, call: NewCall) -> None:
    base = at("Jul 7 18:02:15")
    master.views = [running(1269), running(1270), pending(1271), done(1268)]
    gjobs = call("gjobs")
    assert (gjobs.run(), gjobs.err) == (0, "")
    assert lines(gjobs.out) == lines((GOLDEN / "bjobs_list_3.txt").read_text())
    assert master.filters[-1].user == "test"
    assert base == master.views[0].submitted_at


def test_long_listing_is_the_transcript(master: FakeMaster, call: NewCall) -> None:
    master.views = [job_1153()]
    gjobs = call("bjobs", "-l", "1153")
    assert gjobs.run() == 0
    wanted = lines((GOLDEN / "bjobs_1153.txt").read_text())
    shared = [line.replace(">, Share group charged </test>", ">") for line in wanted]
    assert lines(gjobs.out) == shared


def test_a_job_is_shown_with_the_thresholds_that_it_is_held_to(master: FakeMaster, call: NewCall) -> None:
    master.queue_views = [QueueView(name="normal", priority=1, thresholds={"r1m": "4/8", "mem": "-/500", "lic": "5/-"})]
    master.host_views = [
        HostView(
            name="ubuntu02", status="ok", thresholds={"r1m": "3/9", "mem": "1000/200", "lic": "7/9", "ut": "0.9/-"}
        )
    ]
    master.definitions = Definitions(resources=(ResourceView(name="lic", type="Numeric", order="Inc"),))
    master.cluster_view = msgspec.structs.replace(master.cluster_view, external_resources=("lic",))
    master.views = [pending(1), running(2)]

    def rows(job: str) -> list[list[str]]:
        gjobs = call("gjobs", "-l", job)
        assert gjobs.run() == 0
        return [line.split()[1:] for line in lines(gjobs.out) if line.startswith((" loadSched", " loadStop"))]

    unset = "-"
    assert rows("1") == [
        [unset, "4.0", *[unset] * 9],
        [unset, "8.0", *[unset] * 8, "500M"],
        ["5.0"],
        [unset],
    ]
    assert rows("2") == [
        [unset, "3.0", unset, "0.9", *[unset] * 6, "1000M"],
        [unset, "8.0", *[unset] * 8, "500M"],
        ["5.0"],
        ["9.0"],
    ]


def test_sizes_of_requirements_are_in_the_clusters_unit(master: FakeMaster, call: NewCall, folder: Path) -> None:
    (folder / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=KB\n")
    asked = spec(res_req="mem>2048", combined_req="select[mem>2.00] rusage[mem=1.50,ngpus_excl_p=1.00]")
    effective = "rusage[mem=4.00,ngpus_excl_p=1.00]"
    master.views = [msgspec.structs.replace(job_1153(), spec=asked, effective_req=effective)]
    gjobs = call("gjobs", "-noheader", "-o", "cresreq:60 eresreq:60", "1153")
    assert gjobs.run() == 0
    assert gjobs.out.split() == [
        "select[mem>2048.00]",
        "rusage[mem=1536.00,ngpus_excl_p=1.00]",
        "rusage[mem=4096.00,ngpus_excl_p=1.00]",
    ]


NOT_ENOUGH = " Not enough ngpus_excl_p: 1 host (2 wanted, 0 left on ubuntu02);\n"
NOT_ASKED = " Not specified in job submission: 3 hosts;\n"
FULL = " Job slot limit reached: 2 hosts;\n"


@pytest.mark.parametrize(
    ("argv", "env", "told"),
    [
        (["-p"], {}, FULL + NOT_ENOUGH),
        (["-p0"], {}, NOT_ENOUGH + NOT_ASKED + FULL),
        (["-p1"], {}, NOT_ENOUGH),
        (["-p2"], {}, FULL + NOT_ENOUGH),
        (["-p3"], {}, FULL + NOT_ENOUGH + NOT_ASKED),
        (["-p"], {"LSB_BJOBS_PENDREASON_LEVEL": "1"}, NOT_ENOUGH),
        (["-p"], {"LSB_BJOBS_PENDREASON_LEVEL": "7"}, FULL + NOT_ENOUGH),
    ],
)
def test_pending_reasons_follow_the_row(
    master: FakeMaster, call: NewCall, argv: list[str], env: dict[str, str], told: str
) -> None:
    master.views = [running(1270), pending(1271)]
    gjobs = call("gjobs", "-noheader", *argv, **env)
    assert gjobs.run() == 0
    row, _, rest = gjobs.out.partition("\n")
    assert row.startswith("1271 ") and rest == told


def test_gjobs_says_when_reasons_were_found_and_bjobs_keeps_lsfs_text(master: FakeMaster, call: NewCall) -> None:
    at = time.time() - 90
    master.views = [pending(1271, pending_reasons_at=at), pending(1272)]
    stamp = as_of(at, time.time(), UTC)
    gjobs, bjobs = (call(name, "-noheader", "-p", TZ="UTC") for name in ("gjobs", "bjobs"))
    assert gjobs.run() == bjobs.run() == 0
    first, second = gjobs.out.partition("1272 ")[::2]
    assert first.endswith(NOT_ENOUGH + f" ({stamp})\n") and "as of" not in second
    assert bjobs.out == gjobs.out.replace(f" ({stamp})\n", "")
    gjobs, bjobs = (call(name, "-l", "1271", TZ="UTC") for name in ("gjobs", "bjobs"))
    assert gjobs.run() == bjobs.run() == 0
    assert f"\n PENDING REASONS ({stamp}):\n" in gjobs.out
    assert bjobs.out == gjobs.out.replace(f" ({stamp})", "")
    record = call("gjobs", "-json", "-o", "jobid pending_reasons_at", TZ="UTC")
    assert record.run() == 0
    shown = [each["PENDING_REASONS_AT"] for each in json.loads(record.out)["RECORDS"]]
    assert shown == [long_stamp(at, UTC, year=True), ""]


def test_a_day_is_named_only_when_it_is_not_today() -> None:
    noon = 1499250851.0
    assert as_of(noon, noon + 3600, UTC) == "as of 10:34:11"
    assert as_of(noon, noon + 86400, UTC) == "as of Wed Jul  5 10:34:11"


def test_where_no_host_could_be_used_all_of_them_say_why(master: FakeMaster, call: NewCall) -> None:
    outside = PendingReason("Not part of the job's advance reservation", 1, candidate=False)
    master.views = [pending(7, pending_reasons=(REASONS[1], outside))]
    gjobs = call("gjobs", "-p2", "-noheader", "7")
    assert gjobs.run() == 0
    assert gjobs.out.endswith(f"{NOT_ASKED} Not part of the job's advance reservation: 1 host;\n")


def test_reasons_name_hosts_in_the_long_form_and_are_never_none(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(1271)]
    gjobs = call("gjobs", "-UF", "-p0")
    assert gjobs.run() == 0
    assert " Not specified in job submission: a, b and 1 more;" in gjobs.out
    master.views = [pending(1271, pending_reasons=REASONS[1:2])]
    other = call("gjobs", "-p")
    assert other.run() == 0 and NOT_ASKED in other.out


def test_times_are_those_of_the_caller(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(1271)]
    gjobs = call("gjobs", "-noheader", TZ="Asia/Seoul")
    assert gjobs.run() == 0
    assert gjobs.out.rstrip().endswith("Jul  8 03:02")


@pytest.mark.parametrize(
    ("argv", "text", "code"),
    [
        ([], "No unfinished job found\n", 0),
        (["-a"], "No job found\n", 0),
        (["-p"], "No pending job found\n", 0),
        (["-s"], "No suspended job found\n", 0),
        (["-r"], "No running job found\n", 0),
        (["-d"], "No DONE/EXIT job found\n", 0),
        (["-q", "normal"], "No unfinished job found in queue <normal>\n", 0),
        (["-u", "root"], "No unfinished job found\n", 0),
        (["-u", "no-such-user"], "no-such-user: Unknown user\n", 255),
        (["-q", "normal", "-m", "h"], "No unfinished job found in queue <normal> and on host/group <h>\n", 0),
        (["123"], "Job <123> is not found\n", 255),
        (["abc"], "abc: Illegal job ID.\n", 255),
        (["99999999999"], "99999999999: Job ID out of valid range.\n", 255),
        (["12[3]"], "Job <12[3]> is not found\n", 255),
        (["12[0]"], "Job array index error: '0' counts no indices upwards from 1\n", 255),
        (["-A"], "No job array found\n", 0),
        (["-A", "12"], "Job array <12> is not found\n", 255),
        (["-g", "/n"], "No unfinished job found in job group /n\n", 0),
        (["-zqx"], "gjobs: unknown option -zqx (-h lists the options)\n", 255),
        (["-sla", "x"], "No unfinished job found\n", 0),
    ],
)
def test_nothing_to_show(master: FakeMaster, call: NewCall, argv: list[str], text: str, code: int) -> None:
    gjobs = call("gjobs", *argv)
    assert (gjobs.run(), gjobs.out, gjobs.err) == (code, "", text)


def test_consistent_exit_code(master: FakeMaster, call: NewCall) -> None:
    assert call("gjobs", LSB_BJOBS_CONSISTENT_EXIT_CODE="Y").run() == 255
    master.views = [pending(1)]
    assert call("gjobs", LSB_BJOBS_CONSISTENT_EXIT_CODE="Y").run() == 0


def test_named_jobs_are_shown_though_finished_and_unknown_ones_named(master: FakeMaster, call: NewCall) -> None:
    master.views = [done(7, 3)]
    gjobs = call("gjobs", "7", "8")
    assert gjobs.run() == 255
    assert "7       test    EXIT  normal" in gjobs.out
    assert gjobs.err == "Job <8> is not found\n"
    assert (master.filters[-1].user, master.filters[-1].finished) == ("all", True)


def test_chosen_fields(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(1270), done(1269, 3)]
    gjobs = call("bjobs", "-noheader", "-o", "jobid stat exit_code delimiter='|'", "1269", "1270")
    assert (gjobs.run(), gjobs.out) == (0, "1270|RUN|-\n1269|EXIT|3\n")
    by_variable = call("bjobs", "1270", LSB_BJOBS_FORMAT="jobid queue")
    assert (by_variable.run(), by_variable.out) == (0, "JOBID QUEUE\n1270 normal\n")
    wrong = call("gjobs", "-o", "jobid statt")
    assert wrong.run() == 255
    assert "unknown field 'statt'; did you mean stat?" in wrong.err
    joined = call("gjobs", "-noheader", "-o", "jobid", "-aJ", "*train*")
    assert joined.run() == 0
    assert (master.filters[-1].name, master.filters[-1].finished) == ("*train*", True)


def test_json_names_unknown_jobs_in_a_record(master: FakeMaster, call: NewCall) -> None:
    master.views = [done(1269, 3)]
    gjobs = call("bjobs", "-o", "JOBID STAT EXIT_REASON", "-json", "-a", "1269", "5")
    assert (gjobs.run(), gjobs.err) == (0, "")
    assert json.loads(gjobs.out) == {
        "COMMAND": "bjobs",
        "JOBS": 2,
        "RECORDS": [
            {"JOBID": "1269", "STAT": "EXIT", "EXIT_REASON": ""},
            {"JOBID": "5", "ERROR": "Job <5> is not found"},
        ],
    }
    master.views = []
    empty = call("bjobs", "-o", "jobid", "-json")
    assert (empty.run(), empty.err) == (0, "")
    assert json.loads(empty.out)["RECORDS"] == []


def test_json_without_fields_has_those_of_the_table(master: FakeMaster, call: NewCall) -> None:
    master.views = [done(1269, 3)]
    gjobs = call("bjobs", "-json", "-a", "1269")
    assert gjobs.run() == 0
    (record,) = json.loads(gjobs.out)["RECORDS"]
    assert list(record) == ["JOBID", "USER", "STAT", "QUEUE", "FROM_HOST", "EXEC_HOST", "JOB_NAME", "SUBMIT_TIME"]
    assert record["JOBID"] == "1269"


@pytest.mark.parametrize(
    ("env", "has_year"),
    [
        ({}, False),
        ({"LSB_DISPLAY_YEAR": "y"}, True),
        ({"LSB_BJOBS_DISPLAY_YEAR": "Y"}, True),
        ({"LSB_DISPLAY_YEAR": "Y", "LSB_BJOBS_DISPLAY_YEAR": "N"}, False),
        ({"LSB_DISPLAY_YEAR": "N"}, False),
    ],
)
def test_times_have_their_year_where_it_is_wanted(
    master: FakeMaster, call: NewCall, env: dict[str, str], has_year: bool
) -> None:
    master.views = [done(1269, 3)]
    gjobs = call("gjobs", "-l", "1269", **env)
    assert gjobs.run() == 0
    assert (" 2017: Submitted" in gjobs.out) is has_year


@pytest.mark.parametrize(
    "argv",
    [
        ["-l", "-o", "jobid"],
        ["-noheader", "-l"],
        ["-json", "-l"],
        ["-json", "-A"],
        ["-hms"],
        ["-json", "-noheader", "-o", "jobid"],
    ],
)
def test_options_that_exclude_each_other(master: FakeMaster, call: NewCall, argv: list[str]) -> None:
    gjobs = call("gjobs", *argv)
    assert gjobs.run() == 255
    assert gjobs.err.startswith("gjobs: -")
    assert gjobs.err.count("\n") == 1


def test_filters_reach_the_master(master: FakeMaster, call: NewCall) -> None:
    call("gjobs", "-u", "all", "-q", "normal", "-m", "h", "-J", "a*", "-P", "p", "-g", "/n", "-ps").run()
    wanted = master.filters[-1]
    assert (wanted.user, wanted.queue, wanted.host, wanted.name, wanted.project) == ("all", "normal", "h", "a*", "p")
    assert wanted.group == "/n"
    assert set(wanted.states) == {"PEND", "PSUSP", "USUSP", "SSUSP"}


def test_help_lists_options_and_fields(call: NewCall) -> None:
    gjobs = call("gjobs", "--help")
    assert gjobs.run() == 0
    assert "-noheader" in gjobs.out
    fields = call("gjobs", "-o", "help")
    assert fields.run() == 0
    assert "pend_reason" in fields.out
