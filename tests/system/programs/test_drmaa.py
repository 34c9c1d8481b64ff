"""gsched.contrib.drmaa against real daemons: its document's examples, and what drmaa-python's own test suite covers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched
from gsched.contrib import drmaa
from gsched.contrib.drmaa import JobControlAction, JobState, Session, errors

DOCUMENT = (Path(__file__).parents[3] / "docs" / "drmaa.md").read_text()


@pytest.fixture
def session(live: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("GSCHED_ENVDIR", str(live.conf))
    with Session() as opened:
        yield opened


def template(*words: object, **attributes: object) -> drmaa.JobTemplate:
    return drmaa.JobTemplate(remoteCommand=str(words[0]), args=words[1:], **attributes)


def becomes(session: Session, job: str, state: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while session.jobStatus(job) != state:
        assert time.monotonic() < until, f"{job} is {session.jobStatus(job)}, not {state}"
        time.sleep(0.05)


def test_examples_of_the_document(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_ENVDIR", str(live.conf))
    for name in [name for name in sys.modules if name.partition(".")[0] == "drmaa"]:
        monkeypatch.delitem(sys.modules, name)
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, object] = {"folder": tmp_path}
    try:
        for block in blocks:
            exec(compile(block, "docs/drmaa.md", "exec"), namespace)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "drmaa"]:
            del sys.modules[name]  # other tests find whatever else goes by that name


def test_a_session_is_open_once(session: Session, live: Live) -> None:
    with pytest.raises(errors.AlreadyActiveSessionException, match="code 11"):
        Session.initialize()
    assert Session.contact == str(live.conf)
    Session.exit()
    with pytest.raises(errors.NoActiveSessionException):
        Session.exit()
    Session.initialize(str(live.conf))  # by its contact string, as in another process


def test_an_unmodified_program_finds_it(session: Session, live: Live) -> None:
    job = session.runJob(template("true"))
    told = subprocess.run([sys.executable, "-m", "gsched.contrib.drmaa"], capture_output=True, text=True, check=True)
    program = (
        f"import drmaa\nwith drmaa.Session({str(live.conf)!r}) as session: print(session.wait({job!r}, 60).exitStatus)"
    )
    env = {**live.env, "PYTHONPATH": os.pathsep.join([told.stdout.strip(), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.smoke
def test_a_job_runs_as_its_template_says(session: Session, tmp_path: Path) -> None:
    asked = template(
        "sh",
        "-c",
        'printf "%s\\n" "$NEW" "$1" "$PWD"; cat; echo err >&2; exit 3',
        "sh",
        "two  words",
        workingDirectory=tmp_path,
        jobEnvironment={"NEW": "a=b"},
        inputPath=":in",
        outputPath="elsewhere:$drmaa_wd_ph$/out",
        errorPath=":err",
        jobName="named",
        nativeSpecification="-q night -P p1",
        hardWallclockTimeLimit=90,
    )
    (tmp_path / "in").write_text("from the file\n")
    job = session.runJob(asked)
    info = session.wait(job)
    assert info[:7] == (job, True, False, "", False, False, 3)
    assert {"start_time", "end_time", "walltime", "cpu", "hosts"} <= info.resourceUsage.keys()
    assert (tmp_path / "out").read_text() == f"a=b\ntwo  words\n{tmp_path}\nfrom the file\n"
    assert (tmp_path / "err").read_text() == "err\n"
    with gsched.Cluster() as cluster:
        spec = cluster.job(int(job)).view().spec
    assert (spec.name, spec.queue, spec.project, spec.run_limit_s) == ("named", "night", "p1", 120)
    with pytest.raises(errors.InvalidJobException, match="code 18"):
        session.wait(job)
    assert session.jobStatus(job) == JobState.FAILED


def test_errors_join_the_output(session: Session, tmp_path: Path) -> None:
    asked = template("sh", "-c", "echo out; echo err >&2", outputPath=f":{tmp_path}", joinFiles=True)
    for _ in range(2):
        job = session.runJob(asked)
        session.wait(job)
        assert (tmp_path / f"{job}.out").read_text() == "out\nerr\n"


def test_bulk_jobs_are_one_array(session: Session, tmp_path: Path) -> None:
    asked = template("sh", "-c", "echo $LSB_JOBINDEX; exit $LSB_JOBINDEX", outputPath=f":{tmp_path}/o.$drmaa_incr_ph$")
    jobs = session.runBulkJobs(asked, 5, 1, -2)
    array = jobs[0].partition("[")[0]
    assert jobs == [f"{array}[5]", f"{array}[3]", f"{array}[1]"]
    session.synchronize([session.JOB_IDS_SESSION_ALL], PATIENCE_S)
    assert {session.wait(session.JOB_IDS_SESSION_ANY, 0).exitStatus for _ in jobs} == {1, 3, 5}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.1", "o.3", "o.5"]
    with pytest.raises(errors.InvalidJobException, match="no job of the session is left"):
        session.wait(session.JOB_IDS_SESSION_ANY)
    with pytest.raises(errors.InvalidJobException, match="is an array"):
        session.jobStatus(array)
    for first, last, step in ((0, 3, 1), (3, 1, 1), (1, 3, 0)):
        with pytest.raises(errors.InvalidArgumentException):
            session.runBulkJobs(asked, first, last, step)


def test_a_job_is_held_suspended_and_ended(session: Session) -> None:
    job = session.runJob(template("sleep", 600, jobSubmissionState="drmaa_hold"))
    assert session.jobStatus(job) == JobState.USER_ON_HOLD
    with pytest.raises(errors.SuspendInconsistentStateException):
        session.control(job, JobControlAction.SUSPEND)
    session.control(job, JobControlAction.RELEASE)
    becomes(session, job, JobState.RUNNING)
    for action in (JobControlAction.HOLD, JobControlAction.RELEASE, JobControlAction.RESUME):
        with pytest.raises(errors.DrmaaException, match="it is RUN"):
            session.control(job, action)
    session.control(job, JobControlAction.SUSPEND)
    becomes(session, job, JobState.USER_SUSPENDED)
    session.control(session.JOB_IDS_SESSION_ALL, JobControlAction.RESUME)
    becomes(session, job, JobState.RUNNING)
    for wait in (lambda: session.wait(job, 0), lambda: session.wait(session.JOB_IDS_SESSION_ANY, 0.1)):
        with pytest.raises(errors.ExitTimeoutException, match="code 23"):
            wait()
    with pytest.raises(errors.ExitTimeoutException):
        session.synchronize([job], session.TIMEOUT_NO_WAIT)
    session.control(job, JobControlAction.TERMINATE)
    session.synchronize(job, session.TIMEOUT_WAIT_FOREVER, False)
    session.control(job, JobControlAction.TERMINATE)
    info = session.wait(job, 0)
    assert info.hasSignal and info.terminatedSignal.startswith("SIG") and not info.hasExited
    assert info.resourceUsage["term_reason"] == "TERM_OWNER"


def test_a_job_that_is_ended_before_it_runs_was_aborted(session: Session) -> None:
    job = session.runJob(template("true", startTime="2099/01/01 00:00"))
    session.control(job, JobControlAction.HOLD)
    becomes(session, job, JobState.USER_ON_HOLD)
    session.control(job, JobControlAction.RELEASE)
    becomes(session, job, JobState.QUEUED_ACTIVE)
    session.control(job, JobControlAction.TERMINATE)
    info = session.wait(job, PATIENCE_S)
    assert (info.wasAborted, info.hasExited, info.hasSignal, info.exitStatus) == (True, False, False, 126)


@pytest.mark.parametrize(
    ("attributes", "kind", "text"),
    [
        ({"nativeSpecification": "-q nowhere"}, errors.DeniedByDrmException, "nowhere: No such queue"),
        ({"nativeSpecification": "-gpu nonsense"}, errors.DeniedByDrmException, "Bad GPU requirement"),
        ({"jobCategory": "nothing"}, errors.DeniedByDrmException, "nothing"),
        ({"deadlineTime": "2020/01/01 00:00"}, errors.DeniedByDrmException, "over already"),
    ],
)
def test_what_the_cluster_refuses(
    session: Session, attributes: dict[str, object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        session.runJob(template("true", **attributes))


def test_jobs_that_there_are_not(session: Session) -> None:
    calls: list[Callable[[str], object]] = [
        session.wait,
        session.jobStatus,
        session.synchronize,
        lambda job: session.control(job, "terminate"),
        lambda job: session.control(job, "hold"),
    ]
    for call in calls:
        for job in ("999999", "999999[3]", "train"):
            with pytest.raises(errors.InvalidJobException):
                call(job)


def test_threads_share_the_session(session: Session) -> None:
    found: list[str] = []

    def work() -> None:
        own = session.runJob(template("true"))
        assert session.wait(own, PATIENCE_S).jobId == own

    def take() -> None:
        found.append(session.wait(session.JOB_IDS_SESSION_ANY, PATIENCE_S).jobId)

    jobs = session.runBulkJobs(template("true"), 1, 6, 1)
    takers = [threading.Thread(target=take) for _ in jobs]
    for thread in takers:
        thread.start()
    for thread in takers:
        thread.join()
    assert sorted(found) == sorted(jobs)
    workers = [threading.Thread(target=work) for _ in range(6)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    with pytest.raises(errors.InvalidJobException):
        session.wait(session.JOB_IDS_SESSION_ANY)


def test_who_waits_hears_that_the_session_is_closed(session: Session, live: Live) -> None:
    job = session.runJob(template("sleep", 600))
    raised: list[Exception] = []

    def wait() -> None:
        try:
            session.wait(job)
        except errors.NoActiveSessionException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    becomes(session, job, JobState.RUNNING)
    Session.exit()
    thread.join(PATIENCE_S)
    assert len(raised) == 1
    Session.initialize()
    assert session.jobStatus(job) == JobState.RUNNING
    session.control(job, JobControlAction.TERMINATE)
    assert session.wait(job, PATIENCE_S).hasSignal


def test_a_child_has_no_session(session: Session) -> None:
    child = os.fork()
    if child == 0:
        try:
            Session.exit()
        except errors.NoActiveSessionException:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_waits_outlast_the_master(session: Session, live: Live) -> None:
    job = session.runJob(template("sleep", 3))
    becomes(session, job, JobState.RUNNING)
    live.kill("master")
    threading.Timer(0.5, live.up).start()
    assert session.wait(job, PATIENCE_S).exitStatus == 0
