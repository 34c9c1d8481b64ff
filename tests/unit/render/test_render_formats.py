"""-o and -json, in the forms that LSF's clients ask for."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seed_jobs import HERE, at, host, job

from gsched.base.errors import BadRequest
from gsched.cli.render.hosts.host_fields import HOST_FIELDS, QUEUE_FIELDS
from gsched.cli.render.jobs.job_fields import JOB_FIELDS
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.output_formats import FormatSetting, field_list, parse_format, render_json, render_text
from gsched.cli.render.text.text_columns import width
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.views.view import QueueView

NOON = at(7, "12:00:00")
SETTING = FormatSetting(zone=UTC, now=NOON + 100)
RESERVED = (HostAllocation(host="h", slots=1, amounts={"mem": 4096.0}),)


def shown(chosen: str, *jobs: ShownJob, header: bool = False, setting: FormatSetting = SETTING) -> str:
    return render_text(jobs, parse_format(chosen, JOB_FIELDS), setting, header=header)


RUNNING = job(
    17,
    NOON,
    name="한글_작업_이름",
    dispatched_at=NOON + 10,
    placed=(
        HostAllocation(
            host="h1", slots=4, gpus=tuple(HeldGpu(index=each, uuid=str(each), claim="ngpus_shared") for each in (0, 1))
        ),
        HostAllocation(host="h2", slots=1),
    ),
    run_limit_s=600,
    usage=Usage(cpu_s=3.25, mem_mib=1536.0, max_mem_mib=2048.0, sampled_at=NOON + 90, pids=(5, 6), threads=2),
    slots=5,
)


def test_fields_alone_are_unpadded_and_joined_by_one_blank() -> None:
    assert shown("jobid stat", RUNNING, header=True) == "JOBID STAT\n17 RUN\n"
    assert shown("STAT EXEC_HOST", RUNNING) == "RUN 4*h1:h2\n"


def test_widths() -> None:
    chosen = "id:7 stat: queue:-8 name:7 cmd:6 delimiter='^'"
    assert shown(chosen, RUNNING, header=True) == (
        "JOBID  ^STAT ^   QUEUE^*B_NAME^COMMAN\n17     ^RUN  ^  normal^*_이름 ^sudo L\n"
    )


def test_the_columns_of_aiida() -> None:
    chosen = (
        "id stat exit_reason exec_host user slots max_req_proc exec_host queue finish_time start_time %complete "
        'submit_time name delimiter="|"'
    )
    assert shown(chosen, RUNNING) == (
        "17|RUN|-|4*h1:h2|test|5|5|4*h1:h2|normal|Jul  7 12:10 L|Jul  7 12:00|15.00% L|Jul  7 12:00|한글_작업_이름\n"
    )
    unlimited = job(18, NOON, name="n", dispatched_at=NOON, placed=HERE)
    assert shown("finish_time %complete time_left", unlimited) == "- - -\n"


def test_times_sizes_and_gpus() -> None:
    chosen = "run_time cpu_used mem max_mem:12:M mem::K pend_time time_left gpu_num gpu_alloc runtimelimit pids"
    assert shown(chosen + " delimiter='|'", RUNNING) == (
        "90 second(s)|3.2 second(s)|1.5 Gbytes|2048 Mbytes |1572864 Kbytes|10|0:8 L|2|h1:gpus=0,1;|10.0|5,6\n"
    )
    clock = FormatSetting(zone=UTC, now=NOON + 100, hms=True)
    assert shown("run_time cpu_used pend_time", RUNNING, setting=clock) == "00:01:30 00:00:04 00:00:10\n"
    assert shown("run_time", job(1, NOON, state="PEND")) == "0 second(s)\n"
    assert shown("ertime run_time", job(1, NOON, estimate_s=90, dispatched_at=NOON)) == "90 100 second(s)\n"
    assert shown("idle_factor average_cpu_efficiency", RUNNING) == "0.04 0.81%\n"
    assert shown("idle_factor average_cpu_efficiency", job(1, NOON)) == "- -\n"


def test_the_peak_of_the_cpu_and_io() -> None:
    used = Usage(cpu_peak=1.6923, cpu_peak_s=52.0, read_mib=2048.0, written_mib=3.0, disk_read_mib=0.5)
    busy = job(1, NOON, dispatched_at=NOON, placed=HERE, usage=used)
    names = (
        "cpu_peak cpu_peak_efficiency cpu_peak_reached_duration io_read io_written disk_read disk_written delimiter='|'"
    )
    assert shown(names, busy) == "1.69|169.23%|52 second(s)|2 Gbytes|3 Mbytes|512 Kbytes|-\n"
    assert shown(names, job(1, NOON)) == "-|-|-|-|-|-|-\n"


def test_memory_that_was_used_of_what_was_reserved() -> None:
    frugal = job(1, NOON, dispatched_at=NOON, placed=RESERVED, usage=Usage(max_mem_mib=1024.5))
    assert shown("mem_efficiency", frugal) == "25.01%\n"
    unknown = (job(2, NOON, placed=RESERVED), job(3, NOON, usage=Usage(max_mem_mib=1.0)))
    assert shown("mem_efficiency", *unknown) == "-\n-\n"


UNSUPPORTED = """
hrusage ru_utime ru_stime ipendtime
ependtime esub kill_issue_host suspend_issue_host resume_issue_host energy gpfsio
"""


@pytest.mark.parametrize("name", UNSUPPORTED.split())
def test_fields_without_a_value_here_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(BadRequest, match=r"^-o: field '[a-z_]+' is not supported: .") as caught:
        parse_format(f"jobid {name}", JOB_FIELDS)
    assert caught.value.exit_code == 255
    assert all(not column.field.refused for column in parse_format("all", JOB_FIELDS).columns)
    assert "refused by name: ru_utime " in field_list(JOB_FIELDS)


def test_ends() -> None:
    ended = {"dispatched_at": NOON, "finished_at": NOON + 60}
    failed = job(1, NOON, state="EXIT", end=AttemptResult(exit_code=134), **ended)
    killed = job(
        2, NOON, state="EXIT", end=AttemptResult(signal=9, term_reason="TERM_RUNLIMIT"), kill_reason="enough", **ended
    )
    done = job(3, NOON, state="DONE", end=AttemptResult(exit_code=0), **ended)
    chosen = "exit_code exit_reason kill_reason suspend_reason delimiter=','"
    assert shown(chosen, failed, killed, done).splitlines() == [
        "134,-,-,-",
        "137,TERM_RUNLIMIT: job killed after reaching LSF run time limit,enough,-",
        "-,-,-,-",
    ]


def test_the_end_that_its_owner_made_is_told_in_text_and_not_in_json() -> None:
    ended = {"dispatched_at": NOON, "finished_at": NOON + 60, "state": "EXIT"}
    by_owner, by_limit = (
        job(1, NOON, end=AttemptResult(signal=9, term_reason="TERM_OWNER"), **ended),
        job(2, NOON, end=AttemptResult(signal=9, term_reason="TERM_MEMLIMIT"), **ended),
    )
    assert shown("exit_reason", by_owner) == "TERM_OWNER: job killed by owner\n"
    text = render_json(
        [by_owner, by_limit], parse_format("exit_reason", JOB_FIELDS), SETTING, command="bjobs", counted="JOBS"
    )
    first, second = json.loads(text)["RECORDS"]
    assert first["EXIT_REASON"] == "" and second["EXIT_REASON"].startswith("TERM_MEMLIMIT: ")


def test_one_pending_reason() -> None:
    waiting = job(1, NOON, state="PEND", pending=("New job is waiting for scheduling", "second"))
    assert shown("stat pend_reason exec_host", waiting) == "PEND New job is waiting for scheduling; -\n"


def test_json_of_lsf() -> None:
    chosen = parse_format("jobid stat exit_reason name name", JOB_FIELDS)
    record = job(22005, NOON, name='say "hi"\n한글')
    error = {"JOBID": "99", "ERROR": "Job <99> is not found"}
    text = render_json([record], chosen, SETTING, command="bjobs", counted="JOBS", errors=[error])
    assert text == (
        '{\n  "COMMAND":"bjobs",\n  "JOBS":2,\n  "RECORDS":[\n    {\n      "JOBID":"22005",\n      "STAT":"RUN",\n'
        '      "EXIT_REASON":"",\n      "JOB_NAME":"say \\"hi\\"\\n한글"\n    },\n    {\n      "JOBID":"99",\n'
        '      "ERROR":"Job <99> is not found"\n    }\n  ]\n}\n'
    )
    assert json.loads(text)["RECORDS"][0]["JOB_NAME"] == 'say "hi"\n한글'
    empty = render_json([], chosen, SETTING, command="bjobs", counted="JOBS")
    assert json.loads(empty) == {"COMMAND": "bjobs", "JOBS": 0, "RECORDS": []}


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ("jobid status_", "-o: unknown field 'status_'"),
        ("jobidd", "-o: unknown field 'jobidd'; did you mean jobid?"),
        ("stat:0", "-o: '0' in 'stat:0' is not a width from 1 to 4096"),
        ("stat:4097", "-o: '4097' in 'stat:4097' is not a width from 1 to 4096"),
        ("stat:x", "-o: 'x' in 'stat:x' is not a width from 1 to 4096"),
        ("stat::G", "-o: 'G' in 'stat::G' is not a unit that field stat can be shown in"),
        ("mem:10:Q", "-o: 'Q' in 'mem:10:Q' is not a unit that field mem can be shown in"),
        ("jobid delimiter='ab'", "-o: delimiter 'ab' is not one character"),
        ("jobid delimiter=''", "-o: delimiter '' is not one character"),
        (" delimiter='|'", "-o names no field"),
        ("", "-o names no field"),
    ],
)
def test_formats_that_cannot_be_used(chosen: str, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_format(chosen, JOB_FIELDS)
    assert caught.value.text.startswith(reason)


def test_delimiters() -> None:
    assert shown(r"jobid stat delimiter='\t'", RUNNING) == "17\tRUN\n"
    assert shown('jobid stat delimiter=","', RUNNING) == shown("jobid stat delimiter=,", RUNNING) == "17,RUN\n"


def test_all_fields() -> None:
    header, row = shown("all:9 delimiter='|'", RUNNING, header=True).splitlines()
    taken = [field for field in JOB_FIELDS.fields if not field.refused]
    assert header.count("|") == row.count("|") == len(taken) - 1
    assert {width(cell) for cell in row.split("|")} == {9}
    assert len(field_list(JOB_FIELDS).splitlines()) == len(taken) + 2


def test_no_name_means_two_fields() -> None:
    for table in (JOB_FIELDS, HOST_FIELDS, QUEUE_FIELDS):
        names = [name for field in table.fields for name in (field.name, *field.aliases)]  # type: ignore[attr-defined]
        assert len(names) == len(set(names))


def test_hosts_as_torchx_asks_for_them() -> None:
    chosen = parse_format("hname max ng njobs ngpus_excl_alloc ngpus_excl_avail available_mem::M", HOST_FIELDS)
    assert render_text([host(3)], chosen, SETTING, header=False) == "ubuntu02 16 - 1 1 3 127078M\n"


def test_queues_as_an_exporter_asks_for_them() -> None:
    chosen = parse_format("queue_name:12 njobs pend run susp rsv ususp ssusp status", QUEUE_FIELDS)
    queue = QueueView(name="normal", priority=1, njobs=3, pend=1, run=2)
    assert render_text([queue], chosen, SETTING, header=False) == "normal       3 1 2 0 0 0 0 Open:Active\n"


@given(st.text(alphabet="jobidstamenR:-0123456789G ='|%", max_size=30))
def test_any_format_is_read_or_refused_with_one_line(text: str) -> None:
    try:
        chosen = parse_format(text, JOB_FIELDS)
    except BadRequest as error:
        assert "\n" not in error.text
    else:
        assert render_text([RUNNING], chosen, SETTING).count("\n") == 2
