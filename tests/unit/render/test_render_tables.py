"""Tables and records beyond the transcripts: trailing blanks, several hosts, unknown values, states of a history."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from seed_jobs import HERE, at, gpu_job, host, job

from gsched.cli.render.cluster import queues
from gsched.cli.render.hosts import host_tables, load
from gsched.cli.render.jobs import history, job_table, jobs_long
from gsched.cli.render.text.size_texts import in_unit, in_words
from gsched.cli.render.text.text_columns import width
from gsched.cli.render.text.thresholds import threshold_table
from gsched.cli.render.text.time_texts import hms, hours_minutes, long_stamp, packed_cpu
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.views.view import HostView, Message, QueueView

NOON = at(7, "12:00:00")


def test_short_list_puts_further_hosts_on_lines_of_their_own() -> None:
    record = job(17, NOON, placed=(HostAllocation(host="ubuntu02", slots=4), HostAllocation(host="ubuntu03", slots=1)))
    assert job_table.render_short([record], UTC, header=False) == (
        "17      test    RUN   normal     ubuntu02    4*ubuntu02  *_quick.sh Jul  7 12:00\n"
        "                                             ubuntu03\n"
    )


def test_short_list_aligns_korean_names() -> None:
    rows = job_table.render_short(
        [job(1, NOON, name="한국어 학습 작업"), job(2, NOON, name="train")], UTC, header=False
    )
    first, second = rows.splitlines()
    assert width(first) == width(second)
    assert " *학습 작업 Jul" in first


def test_wide_list_cuts_nothing_and_leaves_no_empty_column() -> None:
    record = job(1, NOON, name="a_long_name_of_a_job", state="PEND", index=3)
    (row,) = job_table.render_wide([record], UTC, header=False).splitlines()
    assert row.split()[:7] == ["1", "test", "PEND", "normal", "ubuntu02", "-", "a_long_name_of_a_job[3]"]


def test_all_columns_are_one_word_each() -> None:
    record = job(9, NOON, name="n", dispatched_at=NOON + 1, placed=HERE, usage=Usage(cpu_s=183.6, mem_mib=2.0))
    header, row = job_table.render_all_columns([record], UTC).splitlines()
    assert dict(zip(header.split(), row.split(), strict=True)) == {
        "JOBID": "9",
        "USER": "test",
        "STAT": "RUN",
        "QUEUE": "normal",
        "FROM_HOST": "ubuntu02",
        "EXEC_HOST": "ubuntu02",
        "JOB_NAME": "n",
        "SUBMIT_TIME": "07/07-12:00:00",
        "PROJ_NAME": "default",
        "CPU_USED": "000:03:03.60",
        "MEM": "2048",
        "SWAP": "-",
        "PIDS": "-",
        "START_TIME": "07/07-12:00:01",
        "FINISH_TIME": "-",
        "SLOTS": "1",
    }


def test_pending_reasons_follow_the_row_and_the_submission() -> None:
    record = job(1, NOON, state="PEND", pending=("New job is waiting for scheduling",))
    short = job_table.render_short([record], UTC, reasons=job_table.ReasonLines())
    assert short.endswith("\n New job is waiting for scheduling;\n")
    text = jobs_long.render_long([record], UTC)
    assert "caffe-nv>;\n PENDING REASONS:\n New job is waiting for scheduling;\n\n SCHEDULING PARAMETERS:\n" in text


def test_long_records_are_separated_by_dashes_and_unfolded_on_request() -> None:
    record = job(1, NOON, name="n", slots=4, run_limit_s=28800, output_file="out.%J", hosts=("a", "b"))
    text = jobs_long.render_long([record, record], UTC, unfolded=True)
    assert text.count("\n" + "-" * 78 + "\n") == 1
    assert "\n\n RUNLIMIT                \n 480.0 min\n" in text
    assert ", Output File <out.%J>, 4 Task(s), Specified Hosts <a>, <b>;\n" in text
    assert "Job <1>, Job Name <n>, User <test>" in text


@pytest.mark.parametrize(
    ("state", "end", "expected"),
    [
        ("DONE", AttemptResult(exit_code=0), "Done successfully. The CPU time used is 2.1 seconds."),
        ("EXIT", AttemptResult(signal=9), "Exited by signal 9. The CPU time used is 2.1 seconds.\n"),
        ("EXIT", None, "Exited. The CPU time used is unknown.\n"),
        (
            "EXIT",
            AttemptResult(exit_code=130, term_reason="TERM_OWNER"),
            "\nFri Jul  7 12:01:00: Completed <exit>; TERM_OWNER: job killed by owner.\n",
        ),
    ],
)
def test_ends(state: str, end: AttemptResult | None, expected: str) -> None:
    record = job(1, NOON, state=state, finished_at=NOON + 60, usage=Usage(cpu_s=2.1), end=end)
    assert expected in jobs_long.render_long([record], UTC)


def test_what_it_used_of_its_host() -> None:
    """CPU USAGE as in transcripts of LSF 10.1 FP14: a job of one slot that ran for 4601 seconds."""
    used = Usage(cpu_s=4632.7, max_mem_mib=2048, avg_mem_mib=1024, cpu_peak=1.6923, cpu_peak_s=52.0)
    ran = {"dispatched_at": NOON, "finished_at": NOON + 4601, "placed": HERE, "end": AttemptResult(exit_code=0)}
    lsf = (
        "\n MEMORY USAGE:\n MAX MEM: 2 Gbytes;  AVG MEM: 1 Gbytes\n"
        "\n CPU USAGE:\n CPU PEAK: 1.69 ;  CPU PEAK DURATION: 52 second(s)\n"
        " CPU AVERAGE EFFICIENCY: 100.69% ;  CPU PEAK EFFICIENCY: 169.23%\n"
        " CPU AVERAGE: 1.01 ;  CPU TIME: 4632.7 second(s)\n"
    )
    assert lsf + "\n SCHEDULING" in jobs_long.render_long([job(1, NOON, state="DONE", usage=used, **ran)], UTC)
    wrote = replace(used, read_mib=2048.0, written_mib=1.0, disk_read_mib=0.5, disk_written_mib=0.0)
    own = "\n I/O USAGE:\n READ: 2 Gbytes;  WRITTEN: 1 Mbytes\n DISK READ: 512 Kbytes;  DISK WRITTEN: 0 Mbytes\n"
    assert lsf + own in jobs_long.render_long([job(1, NOON, state="DONE", usage=wrote, **ran)], UTC)
    running = replace(used, sampled_at=NOON + 4601)
    assert lsf in jobs_long.render_long([job(1, NOON, usage=running, dispatched_at=NOON, placed=HERE)], UTC)
    unseen = job(1, NOON, usage=used, dispatched_at=NOON, placed=HERE)
    text = jobs_long.render_long([unseen], UTC)
    assert " CPU AVERAGE EFFICIENCY: - ;" in text and " CPU AVERAGE: - ;" in text


def test_messages_lose_what_is_for_the_history_only() -> None:
    text = "ubuntu02:gpus=2;EFFECTIVE GPU REQ: num=1;"
    record = gpu_job(
        1, NOON, "2", "x", 1, messages=(Message(box=0, user="test", posted_at=NOON, text=text, attachment="id"),)
    )
    row = " 0      test       Jul  7 12:00   ubuntu02:gpus=2;                        Y\n"
    assert row in jobs_long.render_long([record], UTC)


def test_warnings_are_said_again() -> None:
    record = job(1, NOON, notes=("sudo drops CUDA_VISIBLE_DEVICES",))
    assert jobs_long.render_long([record], UTC).endswith("\n WARNINGS:\n sudo drops CUDA_VISIBLE_DEVICES;\n")


def test_threshold_rows_keep_lsf_s_trailing_blanks() -> None:
    lines = threshold_table(["ngpus", "x" * 63, "y"]).splitlines()
    assert lines[1].endswith("-      -  ")
    assert lines[4] == " " * 12 + "ngpus " and lines[5] == " loadSched     -  "
    assert lines[8] == " " * 10 + "x" * 63 + " "
    assert lines[12] == " " * 16 + "y "


def test_host_tables() -> None:
    full = HostView(name="a_host_with_a_long_name", status="closed_Full", max_slots=4, njobs=4, run=4, user_slots=2)
    assert host_tables.render_short([full]).splitlines() == [
        "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV ",
        "a_host_with_a_long closed          2      4      4      4      0      0      0 ",
    ]
    header, row = host_tables.render_wide([full]).splitlines()
    assert row == "a_host_with_a_long_name closed_Full        2      4      4      4      0      0      0 "
    assert header.index("STATUS") == 19
    unlimited = host_tables.render_wide([HostView(name="h", status="ok")], header=False)
    assert len(unlimited.rstrip("\n")) == len(header)
    assert unlimited.split()[2:4] == ["-", "-"]


def test_notes_stand_below_the_affinity_line() -> None:
    record = HostView(name="h", status="ok", notes=("elim.gpu died",), comment="new cards")
    assert host_tables.render_long([record]).endswith(
        ' CONFIGURED AFFINITY CPU LIST: all\n\n ADMIN ACTION COMMENT: "new cards"\n\n NOTES:\n elim.gpu died;\n'
    )


def test_unknown_load_is_a_dash_and_not_zero() -> None:
    total = host_tables.load_table(HostView(name="h", status="ok", load={"mem": 100.0})).splitlines()[1]
    assert total.split() == ["Total", *["-"] * 10, "100M", "-"]


def test_load_table_of_lsload() -> None:
    header, row, gone = load.render_load([host(2), HostView(name="gone", status="unavail")]).splitlines()
    assert header == "HOST_NAME       status  r15s   r1m  r15m   ut    pg  ls    it   tmp   swp   mem"
    assert row == "ubuntu02            ok   0.0   0.0   0.0   0%   0.0   1     0  782G 37.6G 124.6G"
    assert gone == "gone            unavail"


def test_queue_tables() -> None:
    queue = QueueView(name="normal", priority=30, job_limit=100, njobs=3, pend=1, run=2, res_req="mem>1")
    header, row = queues.render_short([queue]).splitlines()
    assert row == "normal            30 Open:Active     100    -    -    -     3     1     2     0"
    assert len(header) == len(row)
    text = queues.render_long([queue], default_queues=["normal"])
    assert "\nQUEUE: normal\n" in text and "This is the default queue." in text and "RES_REQ:  mem>1\n" in text


def test_identity_ends_with_cluster_and_master() -> None:
    lines = queues.identity("0.1.0", "firestone", "ubuntu02").splitlines()
    assert lines[-2:] == ["My cluster name is firestone", "My master name is ubuntu02"] and len(lines) >= 6
    assert lines[0].startswith("gsched 0.1.0")
    as_lsf = queues.identity("0.1.0", "firestone", "ubuntu02", as_lsf=True).splitlines()
    assert as_lsf[0].startswith("IBM Spectrum LSF 10.1.0 ") and "gsched" in as_lsf[0] and as_lsf[2:] == lines[2:]


SOME_STATES = st.sampled_from(["PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI", ""])


@given(st.lists(st.tuples(st.floats(0, 1000), SOME_STATES)), st.floats(0, 2000), st.booleans())
def test_seconds_add_up_to_the_life_of_the_job(steps: list[tuple[float, str]], extra: float, ended: bool) -> None:
    moment, events = NOON, []
    for wait, state in steps:
        moment += wait
        events.append(history.HistoryEvent(at=moment, state=state))
    moment += extra
    if ended:
        events.append(history.HistoryEnd(at=moment, exit_code=0, cpu_s=1.0, succeeded=True))
    record = history.HistoryRecord(job=job(1, NOON), events=tuple(events))
    seconds = history.state_seconds(record, moment + 3600 if ended else moment)
    assert sum(seconds.values()) == int(moment) - int(NOON)
    assert set(seconds) == set(history.STATES)


def test_history_of_a_troubled_job() -> None:
    events = (
        history.Dispatched(at=NOON + 5, placed=HERE, effective_req=""),
        history.suspended(NOON + 15, state="USUSP"),
        history.resumed(NOON + 25, state="RUN"),
        history.unreachable(NOON + 30),
        history.requeued(NOON + 40),
        history.signalled(NOON + 44, "KILL", "test"),
        history.HistoryEnd(at=NOON + 45, succeeded=False, term_reason="TERM_OWNER"),
    )
    record = history.HistoryRecord(job=job(7, NOON), events=events)
    text = history.render_history([record], UTC, NOON + 100, unfolded=True)
    assert text.splitlines()[3:] == [
        "Fri Jul  7 12:00:05: Dispatched 1 Task(s) on Host(s) <ubuntu02>, Allocated 1 Slot(s) on Host(s) <ubuntu02>;",
        "Fri Jul  7 12:00:15: Suspended by the user or administrator;",
        "Fri Jul  7 12:00:25: Running;",
        "Fri Jul  7 12:00:30: Unknown; unable to reach the execution host;",
        "Fri Jul  7 12:00:40: Pending: Job has been requeued;",
        "Fri Jul  7 12:00:44: Signal <KILL> requested by user or administrator <test>;",
        "Fri Jul  7 12:00:45: Exited. The CPU time used is unknown;",
        "Fri Jul  7 12:00:45: Completed <exit>; TERM_OWNER: job killed by owner;",
        "",
        "Summary of time in seconds spent in various states by  Fri Jul  7 12:00:45",
        "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL",
        "  10       0        15       10       0        10       45          ",
    ]
    assert history.render_summary([record], NOON + 100).splitlines()[1:] == [
        "JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL",
        "7       test    *uick.sh  10      0       15      10      0       10      45        ",
    ]


def test_stamps_and_sizes() -> None:
    assert long_stamp(NOON, timezone(timedelta(hours=9)), year=True) == "Fri Jul  7 21:00:00 2017"
    assert (hms(3661.2), hours_minutes(3900), packed_cpu(359999.999)) == ("01:01:02", "1:5", "100:00:00.00")
    assert [in_words(size) for size in (0, 0.5, 277, 2048, 2458)] == [
        "0 Mbytes",
        "512 Kbytes",
        "277 Mbytes",
        "2 Gbytes",
        "2.4 Gbytes",
    ]
    assert (in_unit(1536, "GB"), in_unit(0.5, "K"), in_unit(3, "S")) == ("1.5 Gbytes", "512 Kbytes", "3 Mbytes")
