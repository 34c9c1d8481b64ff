"""`from gsched import Cluster` against real daemons: its document's examples, and what they do not show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched
from gsched import api
from tests.support.reports import printed_in

DOCUMENT = (Path(__file__).parents[3] / "docs" / "python.md").read_text()


def test_examples_of_the_document(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_ENVDIR", str(live.conf))
    namespace: dict[str, object] = {"folder": tmp_path}
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), namespace)


def test_reasons_say_when_they_were_found(cluster: gsched.Cluster, live: Live) -> None:
    both = "rusage[ngpus_excl_p=2]"
    before = live.job(cluster.submit("true", requirement=both).id).submitted_at
    first, second = (cluster.submit("sleep 600", requirement=both) for _ in range(2))
    live.starts(first.id)
    live.why_pending(second.id)
    found_at = second.reasons_at
    assert found_at is not None and found_at >= before
    second.kill()
    first.kill()


@pytest.mark.smoke
def test_options_mean_what_gsubs_mean(cluster: gsched.Cluster, live: Live, tmp_path: Path) -> None:
    first = cluster.submit("true", hold=True)
    job = cluster.submit(
        ["echo", "two words", "$HOME"],
        name="all of them",
        queue="night",
        slots=1,
        requirement=["select[mem>1]", "rusage[mem=1]"],
        hosts=live.host,
        project="p1",
        group="/sweep",
        after=[first],
        run_limit=timedelta(seconds=61),
        output=tmp_path / "out.%J",
        error="err",
        overwrite=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "ONLY": "1"},
        options=["-M", "2GB"],
    )
    spec = job.view().spec
    assert (spec.name, spec.queue, spec.hosts, spec.project) == ("all of them", "night", (live.host,), "p1")
    assert (spec.group, spec.run_limit_s, spec.cwd) == ("/sweep", 120, str(tmp_path))
    assert spec.dependency == f"done({first})" and spec.limits["MEMLIMIT"] == 2048
    assert spec.output_overwrite and spec.error_overwrite and "mem>1" in spec.res_req and "mem=1" in spec.res_req
    first.resume()
    assert job.wait(PATIENCE_S).succeeded
    assert printed_in(job.output()) == "two words $HOME\n"
    assert job.queue == "night"


def test_a_script_with_directives(cluster: gsched.Cluster) -> None:
    job = cluster.submit(
        script="#!/bin/sh\n#BSUB -J of-the-script -n 1\necho $0 ran; printenv ONLY\n", env={"ONLY": "1"}
    )
    assert job.wait(PATIENCE_S).name == "of-the-script"
    assert job.output().endswith("ran\n1\n")


def test_environments_of_one_call_are_told_apart(cluster: gsched.Cluster) -> None:
    here = dict(os.environ)
    requests = (api.JobRequest(command="echo $SEED", env={**here, "SEED": seed}) for seed in "1122")
    jobs = cluster.submit_many(requests)
    cluster.wait(jobs, PATIENCE_S)
    assert [job.output() for job in jobs] == ["1\n", "1\n", "2\n", "2\n"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "nowhere"}, "nowhere: No such queue"),
        ({"colour": "red"}, "'colour'"),
        ({"run_limit": 30}, "minutes or seconds"),
        ({"priority": 7}, "Job priority control undefined"),
        ({"name": None}, "name=None"),
        ({"gpus": "nonsense"}, "Bad GPU requirement"),
        ({"script": "true"}, "not both"),
        ({"options": ["-K"]}, "-K"),
        ({"after": ["12"]}, "names no job"),
    ],
)
def test_what_is_wrong_is_named(cluster: gsched.Cluster, options: dict[str, object], text: str) -> None:
    before = cluster.client().last_event()
    with pytest.raises(gsched.GschedError, match=re.escape(text)):
        cluster.submit("true", **options)
    with pytest.raises(gsched.GschedError, match=re.escape(text)):
        cluster.submit_many(["true", "true"], **options)
    assert not [event for event in cluster.events(follow=False, after=before) if event.kind == "job_submitted"]


def test_the_line_of_a_script_that_the_master_finds_wrong_is_named(cluster: gsched.Cluster) -> None:
    script = "#!/bin/sh\n#BSUB -q nowhere\ntrue\n"
    with pytest.raises(gsched.GschedError, match=r"^line 2 of the script: nowhere: No such queue$"):
        cluster.submit(script=script)
    with pytest.raises(gsched.GschedError, match=r"^elsewhere: No such queue$"):
        cluster.submit(script=script, queue="elsewhere")


QUESTIONS: list[tuple[str, tuple[object, ...], dict[str, object], str]] = [
    ("jobs", (), {"user": 3}, "user=3: a text is wanted"),
    ("jobs", (), {"queue": Path("normal")}, "queue="),
    ("jobs", (), {"states": "PENDING"}, "states='PENDING' is no state of a job; did you mean 'PEND'?"),
    ("jobs", (), {"finished": "yes"}, "finished='yes': True or False"),
    ("jobs", (), {"ids": "12"}, "ids='12': a job or a list of jobs"),
    ("jobs", (), {"usr": "ann"}, "jobs has no option 'usr'; did you mean 'user'?"),
    ("history", (), {"user": 3}, "user=3: a text is wanted"),
    ("history", (), {"sinse": 3}, "history has no option 'sinse'; did you mean 'since'?"),
    ("hosts", (3,), {}, "a host=3: a text is wanted"),
    ("queues", (None,), {}, "a queue=None: a text is wanted"),
    ("events", (), {"after": "x", "follow": False}, "after='x': a whole number"),
    ("events", (), {"jobs": "12"}, "jobs='12': a job or a list of jobs"),
    ("wait", ([],), {"timeout": "x"}, "timeout='x': a number of seconds"),
    ("as_completed", (3,), {}, "jobs=3: a list of jobs"),
    ("kill", ([],), {"sig": 9}, "kill has no option 'sig'; did you mean 'signal'?"),
    ("kill", ([12],), {"signal": "KILL"}, "signal='KILL': a whole number"),
    ("stop", ("12",), {}, "jobs='12': a job or a list of jobs"),
]


@pytest.mark.parametrize(("call", "args", "options", "text"), QUESTIONS, ids=lambda value: str(value)[:30])
def test_what_is_wrong_in_a_question_is_named(
    cluster: gsched.Cluster, call: str, args: tuple[object, ...], options: dict[str, object], text: str
) -> None:
    with pytest.raises(gsched.GschedError, match=re.escape(text)):
        list(getattr(cluster, call)(*args, **options) or ())


def test_one_job_is_as_good_as_a_list_of_it(cluster: gsched.Cluster) -> None:
    job = cluster.submit("sleep 600", hold=True)
    assert cluster.kill(job) == {}
    (end,) = cluster.wait(job, timeout=np.float64(PATIENCE_S))
    assert (end.job_id, end.state) == (job.id, "EXIT")
    assert [each.job_id for each in cluster.jobs(ids=job, user=np.str_("all"))] == [job.id]
    assert job.id in cluster.kill(job.id)  # it has finished already
    with pytest.raises(gsched.GschedError, match="timeout='x': a number of seconds"):
        job.wait(timeout="x")  # type: ignore[arg-type]
    with pytest.raises(gsched.GschedError, match="wait has no option 'time_out'; did you mean 'timeout'"):
        job.wait(time_out=3)


def test_jobs_that_are_not_there(cluster: gsched.Cluster) -> None:
    ghost = cluster.job(4711)
    for ask in (ghost.wait, ghost.view, ghost.kill, ghost.stop, ghost.resume):
        with pytest.raises(api.NotFound, match="4711"):
            ask()
    with pytest.raises(api.NotFound, match="4711"):
        cluster.wait([cluster.submit("true"), ghost], PATIENCE_S)


def test_time_limits_name_who_is_late(cluster: gsched.Cluster) -> None:
    slow = cluster.submit("sleep 600", hold=True)
    quick = cluster.submit("true")
    quick.wait(PATIENCE_S)
    with pytest.raises(TimeoutError, match=f"Job <{slow}> has not finished"):
        slow.wait(0.01)
    assert next(cluster.as_completed([slow, quick], PATIENCE_S))[0] == quick
    with pytest.raises(TimeoutError, match=f"jobs {slow} have not"):
        list(cluster.as_completed([slow], 0.01))
    with pytest.raises(TimeoutError, match=f"jobs {slow} have not"):
        cluster.wait([quick, slow], 0.01)
    slow.kill()
    end = slow.wait(PATIENCE_S)
    assert (end.state, end.exit_code) == ("EXIT", 126)
    with pytest.raises(gsched.JobFailed, match="was ended before it started: TERM_OWNER, job killed by owner"):
        slow.result()


@pytest.mark.smoke
def test_ends_are_told_as_they_are(cluster: gsched.Cluster) -> None:
    killed = cluster.submit("kill -USR1 $$")
    assert killed.wait(PATIENCE_S).exit_code == 128 + signal.SIGUSR1
    with pytest.raises(gsched.JobFailed, match=rf"Job <{killed}> .* was ended by signal 10"):
        killed.result()
    array = cluster.submit("true", name="gone", array="1-5%1", hold=True)
    array.kill()
    assert array.wait(PATIENCE_S).counts == {"EXIT": 5}
    with pytest.raises(gsched.JobFailed, match=rf"Job <{array}> \(gone\): 5 of 5 elements failed"):
        array.result()
    element = cluster.job(array.elements()[2].job_id)
    assert str(element) == f"{array}[3]"
    assert element.wait(PATIENCE_S).state == "EXIT"


def test_an_element_that_is_waited_for_ends_with_its_array(cluster: gsched.Cluster) -> None:
    array = cluster.submit("true", name="held", array=3, hold=True)
    waiting = cluster.job(array.elements()[1].job_id).future()
    assert not waiting.done()
    array.kill()
    assert waiting.result(PATIENCE_S).state == "EXIT"


def test_many_threads_share_a_cluster(cluster: gsched.Cluster) -> None:
    states: list[str] = []

    def work() -> None:
        job = cluster.submit("true")
        states.append(job.wait(PATIENCE_S).state)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states == ["DONE"] * 12


def test_closing_ends_the_wait_and_not_the_job(live: Live) -> None:
    cluster = gsched.Cluster(live.conf)
    job = cluster.submit("sleep 600")
    future = job.future()
    cluster.close()
    with pytest.raises(api.Unavailable, match="closed"):
        future.result(PATIENCE_S)
    with pytest.raises(api.Unavailable, match="closed"):
        job.wait()
    with gsched.Cluster(live.conf) as other:
        again = other.job(job.id)
        assert again.state in ("PEND", "RUN")
        again.kill()
        again.wait(PATIENCE_S)


def test_a_forked_process_is_told_to_make_its_own(cluster: gsched.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(api.BadRequest, match=f"made by process {here}"):
        cluster.submit("true")


def test_no_cluster_there(tmp_path: Path) -> None:
    with pytest.raises(api.Unavailable, match="no cluster is known in"):
        gsched.Cluster(tmp_path)


def test_importing_costs_nothing() -> None:
    look = "import gsched, sys; print('grpc' in sys.modules); gsched.Cluster; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="Clutser"):
        gsched.Clutser  # noqa: B018


def test_who_waits_survives_the_master(cluster: gsched.Cluster, live: Live) -> None:
    events = cluster.events()
    job = cluster.submit("until [ -e end ]; do sleep 0.05; done", cwd=live.folder)
    other = cluster.submit("true", hold=True)
    futures = cluster.futures([job, other])
    live.starts(job.id)
    live.kill("master")
    live.up()
    (live.folder / "end").touch()
    assert futures[0].result(PATIENCE_S).succeeded
    other.kill()
    assert futures[1].result(PATIENCE_S).exit_code == 126
    ends = (event.job_id for event in events if event.kind == "job_finished")
    assert [next(ends), next(ends)] == [job.id, other.id]
