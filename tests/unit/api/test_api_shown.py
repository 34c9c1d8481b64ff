"""How jobs look in notebooks and prompts, and that they can be sent to another process."""

from __future__ import annotations

import ast
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gsched
from gsched import api
from gsched.api import progress_bar
from gsched.base.errors import BadRequest, Unavailable
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.views.view import JobEnd, JobView
from gsched.wire.address import MASTER_FILE

HOSTILE = "<script>alert('&')</script>\x1b[31m\nsecond line"


def view(number: int, name: str = "train") -> JobView:
    spec = JobSpec(command="true", user="ann", queue="normal", name=name, submit_host="h", cwd="/")
    return JobView(job_id=number, spec=spec, state="RUN", submitted_at=0.0)


@pytest.fixture
def conf(folder: Path) -> Path:
    """A cluster that is known and does not answer."""
    (folder / MASTER_FILE).write_text("unix:/nowhere/master.sock\n")
    return folder


def test_names_are_no_markup_and_nothing_that_a_terminal_obeys() -> None:
    shown = gsched.table([view(7, HOSTILE)])
    html = shown._repr_html_()
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in html and "<script>" not in html
    assert "\x1b" not in html + repr(shown) and len(repr(shown).splitlines()) == 2
    assert "second line" in repr(shown)


def test_long_tables_tell_how_many_rows_are_left_out() -> None:
    shown = gsched.table(view(number) for number in range(1, 103))
    assert shown._repr_html_().count("<tr>") == 101
    assert shown._repr_html_().endswith("<p>and 2 more</p>")
    assert repr(shown).splitlines()[-1] == "and 2 more"
    assert len(shown) == 102 and shown[101].job_id == 102 and len(shown[:3]) == 3
    assert repr(gsched.table([])).split() == ["Job", "Name", "State", "Queue", "User", "Hosts", "Submitted"]


def test_what_is_no_view_is_refused() -> None:
    with pytest.raises(BadRequest, match="jobs=3: views of jobs"):
        gsched.table(3)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="jobs=12: a view of a job"):
        gsched.table([12])  # type: ignore[list-item]


def test_short_reprs() -> None:
    assert repr(view(7)) == "<JobView 7 RUN 'train'>"
    assert repr(JobEnd(job_id=7, state="EXIT", host="h", result=AttemptResult(exit_code=3))) == "<JobEnd 7 EXIT 3>"


def test_a_job_finds_its_cluster_in_another_process(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gsched.Cluster(conf) as cluster:
        job = gsched.Job(cluster, 7, queue="short", warnings=("odd",))
        one, other = pickle.loads(pickle.dumps([job, gsched.Job(cluster, 8)]))
        assert (one, one.queue, one.warnings, repr(one)) == (job, "short", ("odd",), "<gsched.Job 7>")
        assert one != other and hash(one) == hash(job)
        assert one.cluster is other.cluster is gsched.Cluster.shared(str(conf)) is not cluster
        before = one.cluster
        before.close()
        assert one.cluster is not before
        one.cluster.close()


def test_a_job_of_a_cluster_that_is_not_known_here(conf: Path) -> None:
    with gsched.Cluster(conf) as cluster:
        pickled = pickle.dumps(gsched.Job(cluster, 7))
    (conf / MASTER_FILE).unlink()
    job = pickle.loads(pickled)
    assert (str(job), job) == ("7", pickle.loads(pickled))
    with pytest.raises(Unavailable, match="no cluster is known"):
        job.wait()
    assert job._repr_html_().startswith("<code>&lt;gsched.Job 7&gt;</code> ")


def test_a_failure_can_be_sent_to_another_process() -> None:
    failure = gsched.JobFailed(JobEnd(job_id=7, state="EXIT", host="h", result=AttemptResult(exit_code=3)))
    again = pickle.loads(pickle.dumps(failure))
    assert (str(again), again.end) == (str(failure), failure.end)


def test_all_names_are_told_by_dir() -> None:
    source = ast.parse(Path(gsched.__file__).read_text())
    named = {alias.name for node in ast.walk(source) if isinstance(node, ast.ImportFrom) for alias in node.names}
    named.discard("import_module")
    assert named <= set(dir(gsched)) and {"__version__"} <= set(dir(gsched))
    for name in dir(gsched):
        assert getattr(gsched, name) is not None or name in ("__spec__", "__cached__")
    assert set(api.__all__) <= set(dir(api))


@dataclass
class Ended:
    """A Cluster whose jobs have ended."""

    ends: list[JobEnd]

    def as_completed(self, numbers: list[int], timeout: float | None) -> Any:
        assert numbers == [end.job_id for end in self.ends] and timeout == 3
        return ((end.job_id, end) for end in self.ends)


def test_progress_shows_a_bar_in_a_terminal_alone(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [JobEnd(job_id=number, state=state) for number, state in ((7, "DONE"), (8, "EXIT"))]
    for is_watched in (False, True):
        monkeypatch.setattr(progress_bar, "_is_watched", lambda shown=is_watched: shown)
        assert [end for _, end in progress_bar.with_bar(Ended(ends), [7, 8], 3)] == ends  # type: ignore[arg-type]
        told = capsys.readouterr()
        assert told.out == "" and ("2/2" in told.err and "failed=1" in told.err) is is_watched
        assert is_watched or told.err == ""
    assert list(gsched.progress([])) == []
    with pytest.raises(BadRequest, match="12 is no Job"):
        gsched.progress([12])  # type: ignore[list-item]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with gsched.Cluster(conf) as cluster, pytest.raises(gsched.GschedError, match=r"gsched\[progress\]"):
        cluster.progress([7])
