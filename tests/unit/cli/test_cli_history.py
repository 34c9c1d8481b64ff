"""Stored events against the transcripts of bhist -l."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec

from gsched.base.errors import GschedError
from gsched.base.ids import element_id
from gsched.cli.answers.history_view import history_record, signal_name
from gsched.cli.commands.job_views.ghist import FEW, FEW_AT_LENGTH, MOST_AT_LENGTH
from gsched.cli.render.jobs.history import render_history, state_seconds
from gsched.model import event as events
from gsched.model.gpus.gpu_curve import CurvePoint, GpuCurve, pack
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, LeftProcess, Usage
from gsched.model.views.past_query import JobTimes
from gsched.model.views.view import EventRecord, JobHistory
from gsched.wire.messages.protocol import HISTORY_LIMIT

GOLDEN = Path(__file__).parent.parent / "render" / "golden"
NewCall = Callable[..., FakeCall]
PLAIN = "select[type == local] order[r15s:pg]"
GPUS = "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=2.00]"


def at(text: str) -> float:
    return datetime.strptime(f"2017 {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def stored(job_id: int, *happened: events.AnyEvent) -> JobHistory:
    return JobHistory(job_id=job_id, events=tuple(record(seq, event) for seq, event in enumerate(happened, 1)))


def job_220() -> JobHistory:
    start = at("Jul 5 11:34:12")
    result = AttemptResult(
        exit_code=0, ended_at=at("Jul 5 11:35:43"), usage=Usage(cpu_s=183.6, max_mem_mib=271.0, avg_mem_mib=269.0)
    )
    return stored(
        220,
        events.JobSubmitted(at=at("Jul 5 11:34:11"), job_id=220, spec=spec()),
        events.JobDispatched(at=start, job_id=220, attempt=1, allocation=allocation(), effective_req=PLAIN),
        events.JobStarted(at=start, job_id=220, attempt=1, pid=7824, home="/home/test", cwd="/opt/DL/caffe-nv"),
        events.JobFinished(at=at("Jul 5 11:35:43"), job_id=220, attempt=1, result=result),
        events.JobPostProcessed(at=at("Jul 5 11:35:45"), job_id=220, attempt=1),
        events.JobForgotten(at=at("Jul 5 12:35:45"), job_id=220),
    )


def job_221() -> JobHistory:
    start, end = at("Jul 5 11:35:15"), at("Jul 5 11:35:18")
    result = AttemptResult(exit_code=134, usage=Usage(cpu_s=0.7, max_mem_mib=37.0, avg_mem_mib=37.0))
    return stored(
        221,
        events.JobSubmitted(at=start, job_id=221, spec=spec()),
        events.JobDispatched(at=start, job_id=221, attempt=1, allocation=allocation(), effective_req=PLAIN),
        events.JobStarted(at=start, job_id=221, attempt=1, pid=7963, home="/home/test", cwd="/opt/DL/caffe-nv"),
        events.JobFinished(at=end, job_id=221, attempt=1, result=result),
    )


def job_1270() -> JobHistory:
    start = at("Jul 7 18:02:27")
    asked = spec("train_01.sh", res_req="select[ngpus>0] rusage[ngpus_excl_p=2]")
    usage = Usage(cpu_s=222.3, max_mem_mib=517.0, avg_mem_mib=467.0)
    return stored(
        1270,
        events.JobSubmitted(at=at("Jul 7 18:02:11"), job_id=1270, spec=asked),
        events.JobDispatched(at=start, job_id=1270, attempt=1, allocation=allocation(0, 1), effective_req=GPUS),
        events.JobStarted(at=start, job_id=1270, attempt=1, pid=5830, home="/home/test", cwd="/opt/DL/caffe-nv"),
        events.JobMessagePosted(at=start + 1, job_id=1270, user="test", box=0, text="ubuntu02:gpus=0,1;"),
        events.JobFinished(
            at=at("Jul 7 18:03:44"), job_id=1270, attempt=1, result=AttemptResult(exit_code=0, usage=usage)
        ),
        events.JobPostProcessed(at=at("Jul 7 18:03:45"), job_id=1270, attempt=1),
    )


@pytest.mark.parametrize("history", [job_220(), job_221(), job_1270()], ids=lambda history: str(history.job_id))
def test_stored_events_print_as_the_transcript(history: JobHistory) -> None:
    wanted = (GOLDEN / f"bhist_{history.job_id}.txt").read_text()
    text = render_history([history_record(history)], UTC, 0.0)
    # The transcripts have lost the blanks at the ends of lines.
    assert [line.rstrip() for line in text.strip().splitlines()] == wanted.strip().splitlines()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (AttemptResult(exit_code=0), "Post job process done successfully"),
        (AttemptResult(exit_code=0, post_code=3), "Post job process failed"),
        (AttemptResult(exit_code=1), ""),
    ],
)
def test_an_end_that_left_nothing_behind_tells_it(result: AttemptResult, said: str) -> None:
    submitted = events.JobSubmitted(at=1.0, job_id=7, spec=spec())
    end = events.JobFinished(at=9.0, job_id=7, attempt=1, result=result)
    told = [
        render_history([history_record(stored(7, submitted, *happened))], UTC, 0.0)
        for happened in (
            [msgspec.structs.replace(end, post_processed=True)],
            [end, events.JobPostProcessed(at=9.0, job_id=7, attempt=1, failed=bool(result.post_code))],
        )
    ]
    assert told[0] == told[1] and ("Post job" in told[0]) is bool(said) and said in told[0]


def test_every_change_of_state_is_counted_and_told() -> None:
    begin = 1_000_000.0
    happened = [
        events.JobSubmitted(at=begin, job_id=7, spec=spec(hold=True)),
        events.JobResumed(at=begin + 10, job_id=7, by="test"),
        events.JobSuspended(at=begin + 20, job_id=7, by="test"),
        events.JobResumed(at=begin + 25, job_id=7, by="test"),
        events.JobDispatched(at=begin + 30, job_id=7, attempt=1, allocation=allocation(), effective_req=""),
        events.JobSuspended(at=begin + 40, job_id=7, by="test"),
        events.JobStatusLost(at=begin + 50, job_id=7, host="ubuntu02"),
        events.JobStatusRegained(at=begin + 70, job_id=7, host="ubuntu02"),
        events.JobResumed(at=begin + 100, job_id=7, by="test"),
        events.JobNoted(at=begin + 101, job_id=7, text="The output went to /tmp/7.out"),
        events.JobRequeued(at=begin + 110, job_id=7, attempt=1, reason="host <ubuntu02> was lost"),
        events.JobDispatched(at=begin + 130, job_id=7, attempt=2, allocation=allocation(), effective_req=""),
        events.StaleResultRecorded(
            at=begin + 140, job_id=7, attempt=1, host="ubuntu02", result=AttemptResult(exit_code=3)
        ),
        events.JobNoticeSettled(at=begin + 141, job_id=7, notice_id="a", event="start", way="webhook", tries=1),
        events.JobNoticeSettled(at=begin + 142, job_id=7, notice_id="b", event="fail", way="mail", problem="no room"),
        events.JobOutputRemoved(
            at=begin + 143, job_id=7, attempt=1, host="ubuntu02", size=3 << 20, limit_mib=9, of_user=True
        ),
        events.JobOutputRemoved(at=begin + 144, job_id=7, attempt=1, host="ubuntu02", size=3 << 20, limit_mib=99),
        events.JobSignalRequested(at=begin + 150, job_id=7, by="test", signal=0),
        events.JobFinished(
            at=begin + 160, job_id=7, attempt=2, result=AttemptResult(signal=9, term_reason="TERM_OWNER")
        ),
    ]
    told = history_record(stored(7, *happened))
    seconds = state_seconds(told, 0.0)
    assert seconds == {"PEND": 35, "PSUSP": 15, "RUN": 50, "USUSP": 40, "SSUSP": 0, "UNKWN": 20}
    assert sum(seconds.values()) == 160
    text = render_history([told], UTC, 0.0, unfolded=True)
    for words in (
        "Suspended by the user or administrator while pending;",
        "Unknown; unable to reach the execution host;",
        "The output went to /tmp/7.out;",
        "The output of run 1 (3 MiB) was removed on host ubuntu02: its user's jobs without -o had more than 9 MiB of ",
        "jobs without -o had more than 99 MiB of output there (GSCHED_KEPT_OUTPUT_HOST_MIB);",
        "Pending: Job has been requeued;",
        "Pending: host <ubuntu02> was lost;",
        "Attempt 1 on host <ubuntu02>, given up before, has ended: with exit code 3;",
        "Notice of the start sent by webhook;",
        "The notice of the failure was not sent by mail: no room;",
        "Signal <KILL> requested by user or administrator <test>;",
        "Exited by signal 9. The CPU time used is 0.0 seconds;",
        "Completed <exit>; TERM_OWNER: job killed by owner;",
    ):
        assert words in text


def test_a_record_that_cannot_be_read_is_one_line() -> None:
    history = job_220()
    broken = EventRecord(seq=9, at=history.events[1].at, kind="job_dispatched", job_id=220, payload='{"kind": "job_di')
    text = render_history(
        [history_record(JobHistory(job_id=220, events=(history.events[0], broken, *history.events[2:])))], UTC, 0.0
    )
    assert "A record of this job cannot be read (event 9, job_dispatch" in text
    assert "Starting (Pid 7824);" in text


def test_a_history_without_its_submission_is_refused() -> None:
    with pytest.raises(GschedError, match="Job <220>: the record of its submission cannot be read"):
        history_record(JobHistory(job_id=220, events=job_220().events[1:]))


def test_signals_have_names() -> None:
    assert [signal_name(number) for number in (0, 15, 9999)] == ["KILL", "TERM", "9999"]


def test_jobs_of_a_profile_or_a_description_are_asked_for(master: FakeMaster, call: NewCall) -> None:
    assert call("bhist", "-a", "-app", "care", "-Jd", "first*").run() == 255
    (asked,) = master.queries
    assert (asked.jobs.application, asked.description) == ("care", "first*")


def test_jobs_that_are_told_by_their_times_stand_among_the_others(master: FakeMaster, call: NewCall) -> None:
    master.histories = {220: job_220().events, 221: job_221().events}
    begin = at("Jul 5 11:00:00") + 0.7
    master.times = [
        JobTimes(7, "ann", "train", begin, begin + 10.4, begin + 70.0),
        JobTimes(element_id(220, 3), "ann", "sweep[3]", begin, None, begin + 5.0),
        JobTimes(300, "ann", "waits", begin),
    ]
    told = call("bhist", "-a")
    assert told.run() == 0
    rows = [row.split() for row in told.out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["7", "220", "220[3]", "221", "300"]
    assert rows[0][1:] == ["ann", "train", "11", "0", "59", "0", "0", "0", "70"]
    assert rows[2][1:] == ["ann", "sweep[3]", "5", "0", "0", "0", "0", "0", "5"]
    assert rows[4][:3] == ["300", "ann", "waits"]
    assert [query.brief for query in master.queries] == [True]
    assert call("bhist", "-l", "-a").run() == 0 and not master.queries[-1].brief


def test_brief_is_a_line_for_each_job(master: FakeMaster, call: NewCall) -> None:
    master.histories = {220: job_220().events, 221: job_221().events}
    plain, brief, both = call("bhist", "-a"), call("bhist", "-a", "-b"), call("bhist", "-a", "-b", "-l")
    assert (plain.run(), brief.run(), both.run()) == (0, 0, 255)
    assert brief.out == plain.out and "220" in brief.out
    assert both.err.startswith("bhist: -b and -l cannot be given together")


def test_much_is_laid_out_by_the_callers_own_process(master: FakeMaster, call: NewCall) -> None:
    begin = at("Jul 5 11:00:00")
    for count, is_handed_over in ((1_000, False), (5_000, True)):
        master.times = [JobTimes(number, "ann", "train", begin, begin + 1.0, begin + 2.0) for number in range(count)]
        taken = []
        ghist = call("ghist", "-a")
        ghist.take_over = lambda taken=taken, ghist=ghist: taken.append(ghist.out)  # type: ignore[method-assign]
        assert ghist.run() == 0
        assert taken == ([""] if is_handed_over else []), "before anything is said"
        assert len(ghist.out.splitlines()) == count + 2


def test_few_jobs_are_looked_at_to_know_that_there_are_many(master: FakeMaster, call: NewCall) -> None:
    master.histories, master.cut_at = {220: job_220().events}, at("Jul 5 11:34:11")
    for words, few in ((("-a",), FEW), (("-a", "-l"), FEW_AT_LENGTH)):
        master.queries.clear()
        ghist = call("ghist", *words)
        ghist.take_over = lambda ghist=ghist: ghist.out == "" or pytest.fail("something was said")  # type: ignore[method-assign]
        assert ghist.run() == 0
        assert [query.limit for query in master.queries] == [few, HISTORY_LIMIT if few == FEW else MOST_AT_LENGTH]
        assert ghist.out


def test_what_was_left_out_is_said(master: FakeMaster, call: NewCall) -> None:
    master.histories = {220: job_220().events}
    master.cut_at = at("Jul 5 11:34:11")
    ghist = call("ghist", "-a", TZ="UTC")
    assert ghist.run() == 0
    assert ghist.err.startswith("There are more: only the 1000000 jobs that were submitted last are shown, back to ")
    assert "back to 2017/07/05/11:34:11; -S ,2017/07/05/11:34 shows older ones" in ghist.err
    assert call("ghist", "-a", "-S", ",2017/07/05/11:34", TZ="UTC").run() == 0, "as it was said"
    master.cut_at = None
    ghist = call("ghist", "-a")
    assert (ghist.run(), ghist.err) == (0, "")


def gpu_job(curves: bytes) -> JobHistory:
    """Requeued once: the first attempt used half of its GPU, the second one nobody looked at."""
    start = at("Jul 5 11:34:12")
    gpu = GpuUsage(host="h", index=1, uuid="GPU-a", samples=2, covered_s=20.0, sm_mean=50.0, mem_max_mib=3.0)
    first = AttemptResult(exit_code=99, usage=Usage(gpus=(msgspec.structs.replace(gpu, energy_j=7.5),)))
    return stored(
        220,
        events.JobSubmitted(at=start, job_id=220, spec=spec()),
        events.JobDispatched(at=start, job_id=220, attempt=1, allocation=allocation(1), effective_req=PLAIN),
        events.JobGpuCurves(at=start, job_id=220, attempt=1, host="h", data=curves),
        events.JobRequeued(at=start, job_id=220, attempt=1, reason="again", failed_start=False, result=first),
        events.JobDispatched(at=start, job_id=220, attempt=2, allocation=allocation(), effective_req=PLAIN),
        events.JobFinished(at=start, job_id=220, attempt=2, result=AttemptResult(exit_code=0)),
    )


def test_what_attempts_made_of_their_gpus_as_json(master: FakeMaster, call: NewCall) -> None:
    points = (CurvePoint(0, {"sm": (0.0, 50.0, 100.0)}), CurvePoint(4, {"mem": (1.0, 2.0, 3.0)}))
    packed = pack([GpuCurve(uuid="GPU-a", index=1, since=1000.0, step_s=10.0, points=points)])
    master.histories = {220: gpu_job(packed).events}
    ghist = call("ghist", "-l", "-gpu", "-json", "220")
    assert (ghist.run(), ghist.err) == (0, "")
    assert master.queries[-1].with_curves
    answer = json.loads(ghist.out)
    assert (answer["COMMAND"], answer["JOBS"]) == ("bhist", 1)
    (record,) = answer["RECORDS"]
    assert record["JOBID"] == "220"
    first, second = record["ATTEMPTS"]
    assert second == {"ATTEMPT": 2, "CPU_TIME": None, "GPU_ENERGY_CONSUMED": None, "GPUS": []}
    (gpu,) = first["GPUS"]
    assert (first["ATTEMPT"], first["GPU_ENERGY_CONSUMED"], gpu["ENERGY_CONSUMED"]) == (1, 7.5, 7.5)
    assert (gpu["HOST"], gpu["GPU_ID"], gpu["UUID"], gpu["TOTAL_EXECUTION_TIME"]) == ("h", 1, "GPU-a", 20.0)
    assert gpu["SM_UTILIZATION"] == {"AVG": 50.0, "MAX": None, "MIN": None, "MEDIAN": None, "P95": None}
    assert (gpu["MAX_GPU_MEMORY_USED"], gpu["AVG_GPU_MEMORY_USED"], gpu["IDLE_TIME"]) == (3 << 20, None, None)
    assert gpu["CURVE"] == {
        "SINCE": 1000.0,
        "STEP": 10.0,
        "POINTS": [
            {"TIME": 1000.0, "SM_UTILIZATION": [0.0, 50.0, 100.0]},
            {"TIME": 1040.0, "GPU_MEMORY_USED": [1 << 20, 2 << 20, 3 << 20]},
        ],
    }


def test_a_curve_that_cannot_be_read_is_none(master: FakeMaster, call: NewCall) -> None:
    master.histories = {220: gpu_job(b"junk").events}
    ghist = call("ghist", "-l", "-gpu", "-json", "220")
    assert ghist.run() == 0
    (gpu,) = json.loads(ghist.out)["RECORDS"][0]["ATTEMPTS"][0]["GPUS"]
    assert gpu["CURVE"] is None and gpu["SM_UTILIZATION"]["AVG"] == 50.0


def test_json_of_no_job_and_without_gpu(master: FakeMaster, call: NewCall) -> None:
    ghist = call("ghist", "-l", "-gpu", "-json", "7")
    assert ghist.run() == 255
    assert json.loads(ghist.out) == {"COMMAND": "bhist", "RECORDS": [], "JOBS": 0}
    for words in (("-json",), ("-l", "-json")):
        refused = call("ghist", *words)
        assert (refused.run(), refused.err) == (255, "ghist: -json is given together with -l -gpu\n")


def lines_of(*happened: events.AnyEvent) -> list[str]:
    submitted = events.JobSubmitted(at=at("Jul 5 11:35:15"), job_id=7, spec=spec())
    told = history_record(stored(7, submitted, *happened))
    return [line for event in told.events for line in event.lines()]


def test_the_history_of_a_job_has_its_use_of_the_host() -> None:
    used = Usage(cpu_s=45.5, cpu_peak=0.75, cpu_peak_s=60.0, read_mib=1.0, written_mib=2.0)
    story = job_220()
    *before, ended, posted, forgotten = (msgspec.json.decode(each.payload) for each in story.events)
    ended["result"]["usage"] = msgspec.to_builtins(used)
    told = [events.decode_event(msgspec.json.encode(each)) for each in (*before, ended, posted, forgotten)]
    text = render_history([history_record(stored(220, *told))], UTC, at("Jul 5 12:36:00"))
    assert (
        "\nCPU USAGE:\nCPU PEAK: 0.75 ;  CPU PEAK DURATION: 60 second(s)\n"
        "CPU AVERAGE EFFICIENCY: 50.00% ;  CPU PEAK EFFICIENCY: 75.00%\n"
        "CPU AVERAGE: 0.50 ;  CPU TIME: 45.5 second(s)\n"
        "\nI/O USAGE:\nREAD: 1 Mbytes;  WRITTEN: 2 Mbytes\n\nSummary of time"
    ) in text


def test_history_names_what_a_job_had_left_running() -> None:
    left = tuple(LeftProcess(pid=pid, name=name, killed=pid == 72) for pid, name in ((71, "sleep"), (72, "a\x1bb")))
    result = AttemptResult(exit_code=0, left_running=left, left_running_count=5)
    sentence = "Left running by the job, and ended with it: sleep (Pid 71), a?b (Pid 72, SIGKILL), 3 more;"
    ended = events.JobFinished(at=at("Jul 5 11:35:18"), job_id=7, attempt=1, result=result)
    assert lines_of(ended)[1:] == [sentence]
    again = events.JobRequeued(
        at=at("Jul 5 11:35:18"), job_id=7, attempt=1, reason="again", failed_start=False, result=result
    )
    assert sentence in lines_of(again)
    killed = msgspec.structs.replace(ended, result=msgspec.structs.replace(result, term_reason="TERM_OWNER"))
    assert not any("Left running" in line for line in lines_of(killed))
