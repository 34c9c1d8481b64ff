"""Values of programs: numbers of numpy, whole floats, paths and sequences count, the rest is refused by name."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from threading import TIMEOUT_MAX
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from gsched.api import values
from gsched.api.named import number_of, numbers_of
from gsched.api.options import refuses_unknown_options
from gsched.api.request import RequestReader
from gsched.base.errors import GschedError
from gsched.model.views.view import Submission


@pytest.fixture
def desk(tmp_path: Path) -> RequestReader:
    return RequestReader(str(tmp_path))


def asked(desk: RequestReader, **request: Any) -> Submission:
    return desk.submission({"command": "true", **request})  # type: ignore[typeddict-item]


def refusal(desk: RequestReader, **request: Any) -> str:
    with pytest.raises(GschedError) as caught:
        desk.submission(request)  # type: ignore[arg-type]
    return caught.value.text


TWO = [2, 2.0, np.int64(2), np.uint8(2), np.float32(2.0), np.array(2), Fraction(2), Decimal(2)]


@pytest.mark.parametrize("two", TWO, ids=lambda two: f"{type(two).__name__}-{two}")
def test_whole_numbers_of_any_kind_count(desk: RequestReader, two: Any) -> None:
    spec = asked(desk, gpus=two, slots=two, array=two, priority=two, after=two).spec
    assert (spec.gpu_req, spec.slots, spec.indices) == ("num=2", 2, "1-2")
    assert (spec.priority, spec.dependency) == (2, "done(2)")
    assert number_of(two) == 2
    assert asked(desk, slots=(two, 4)).spec.max_slots == 4


def test_a_range_of_gpus_counts(desk: RequestReader) -> None:
    assert asked(desk, gpus="2..8").spec.gpu_req == "num=2..8"


def test_sequences_and_paths_count(desk: RequestReader, tmp_path: Path) -> None:
    assert asked(desk, array=[1, 4, 7]).spec.indices == asked(desk, array=np.array([1, 4, 7])).spec.indices == "1,4,7"
    assert asked(desk, array=range(1, 8, 3)).spec.indices == "1-7:3"
    assert asked(desk, slots=np.array([2, 8])).spec.max_slots == 8
    assert asked(desk, after=np.array([3, 5])).spec.dependency == "done(3) && done(5)"
    jobs = [SimpleNamespace(id=7), SimpleNamespace(job_id=np.int64(9))]
    assert asked(desk, after=jobs).spec.dependency == "done(7) && done(9)"
    spec = asked(desk, output=tmp_path / "out", cwd=tmp_path, name=Path("train"), project=2026).spec
    assert (spec.output_file, spec.cwd, spec.name, spec.project) == (
        str(tmp_path / "out"),
        str(tmp_path),
        "train",
        "2026",
    )
    assert asked(desk, hold=np.bool_(True)).spec.hold
    assert asked(desk, run_limit=np.timedelta64(90, "s")).spec.run_limit_s == 120
    block = asked(desk, env={"N": np.int64(4), "WHERE": tmp_path}).environment
    assert b"N=4\0" in block and f"WHERE={tmp_path}\0".encode() in block


class Word(str, Enum):  # noqa: UP042 - programs have such enumerations
    ALPHA = "alpha"


@pytest.mark.parametrize("word", [np.str_("alpha"), Word.ALPHA], ids=["numpy", "enumeration"])
def test_texts_of_other_kinds_become_plain_ones(desk: RequestReader, word: Any) -> None:
    made = asked(
        desk, command=word, name=word, project=word, queue=[word], hosts=word, output=word, cwd=word, env={word: word}
    )
    spec = made.spec
    assert (spec.command, spec.name, spec.project, spec.queue, spec.output_file) == (*["alpha"] * 4, "alpha")
    assert msgspec.json.encode(spec)  # a text of another kind could not be sent
    assert b"alpha=alpha\0" in made.environment
    made = asked(desk, command=["echo", word], run_limit=np.str_("1:30"), gpus=np.str_("num=2"), array=np.str_("1-3"))
    assert msgspec.json.encode(made.spec) and made.spec.command == "echo alpha"
    assert desk.submission({"script": np.str_("echo alpha\n")}).script == b"echo alpha\n"


def test_several_jobs_or_the_one_job() -> None:
    one = SimpleNamespace(id=7)
    assert numbers_of("jobs", one) == numbers_of("jobs", 7.0) == numbers_of("jobs", [np.int64(7)]) == [7]
    assert numbers_of("jobs", np.array([7, 8])) == numbers_of("jobs", range(7, 9)) == [7, 8]
    assert numbers_of("jobs", ()) == []
    for wrong, told in (
        ("17", "jobs='17': a job or a list of jobs is wanted"),
        (None, "jobs=None: a job or"),
        ([1.5], "1.5 names"),
    ):
        with pytest.raises(GschedError, match=re.escape(told)):
            numbers_of("jobs", wrong)  # type: ignore[arg-type]


def test_seconds_to_wait() -> None:
    assert [values.seconds("timeout", each) for each in (None, 0, np.float64(1.5), Decimal(3))] == [None, 0.0, 1.5, 3.0]
    assert values.seconds("timeout", float("inf")) == TIMEOUT_MAX  # what a thread can wait at the most
    for wrong in ("3", True, -1, float("nan"), [], 2j):
        with pytest.raises(GschedError, match="a number of seconds, at least 0, is wanted"):
            values.seconds("timeout", wrong)


def test_an_unknown_option_of_a_method_has_the_nearest_name() -> None:
    class Asked:
        @refuses_unknown_options
        def jobs(self, names: str, *, queue: str = "") -> str:
            return names + queue

    assert Asked().jobs("a", queue="b") == Asked().jobs(names="a", queue="b") == "ab"
    for option, told in {
        "quee": "jobs has no option 'quee'; did you mean 'queue'?",
        "self": "no option 'self'$",
    }.items():
        with pytest.raises(GschedError, match=re.sub(r"[?]", r"\\?", told)):
            Asked().jobs("a", **{option: "b"})  # type: ignore[arg-type]


def test_words_of_a_command(desk: RequestReader) -> None:
    words = ["train.py", "--lr", 0.1, "--seed", np.int64(3), Path("a b")]
    assert asked(desk, command=words).spec.command == "train.py --lr 0.1 --seed 3 'a b'"
    assert asked(desk, command=Path("/opt/a b")).spec.command == "'/opt/a b'"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"gpu": 1}, "submit has no option 'gpu'; did you mean 'gpus'?"),
        ({"nmae": "x"}, "submit has no option 'nmae'; did you mean 'name'?"),
        ({"quxxz": 1}, "submit has no option 'quxxz'"),
        ({"gpus": 1.5}, "gpus=1.5: a whole number or a text such as '2..8' or 'num=2:mode=shared' is wanted"),
        ({"gpus": True}, "gpus=True: a whole number"),
        ({"gpus": float("nan")}, "gpus=nan: a whole number"),
        ({"slots": [2, "x"]}, "slots='x': a whole number is wanted, this is of type str"),
        ({"slots": {"min": 2}}, "slots={'min': 2}: a whole number, or the least and the most, is wanted"),
        ({"slots": 2 + 1j}, "slots=(2+1j): a whole number, or"),
        ({"array": object()}, "array=<object object"),
        ({"array": []}, "array=[]: there is at least one index"),
        ({"array": [1, 2.5]}, "array=2.5: a whole number is wanted"),
        ({"priority": "high"}, "priority='high': a whole number is wanted"),
        ({"after": 2.5}, "2.5 names no job"),
        ({"after": [None]}, "None names no job"),
        ({"name": b"x"}, "name=b'x': a whole number or a text is wanted, this is of type bytes"),
        ({"queue": 3}, "queue=3: a text or a list of texts is wanted"),
        ({"queue": ["a", 3]}, "queue=3: a text is wanted"),
        ({"requirement": {"mem": 3}}, "requirement={'mem': 3}: a text or a list of texts is wanted"),
        ({"options": "-x"}, None),
        ({"options": ["-M", 4]}, "options=4: a text is wanted"),
        ({"output": 3}, "output=3: a path is wanted"),
        ({"cwd": 3}, "cwd=3: a path is wanted"),
        ({"hold": "yes"}, "hold='yes': True or False is wanted"),
        ({"overwrite": 1}, "overwrite=1: True or False is wanted"),
        ({"run_limit": 90}, "run_limit=90: is that minutes or seconds?"),
        ({"run_limit": []}, "run_limit=[]: timedelta(minutes=...)"),
        ({"env": ["A=1"]}, "env=['A=1']: a dict of variables is wanted"),
        ({"env": {3: "x"}}, "env=3: a name of a variable is wanted"),
        ({"env": {"A": 1.5}}, "env['A']=1.5: a whole number or a text is wanted"),
        ({"command": ["echo", None]}, "command=None: a text, a path or a number is wanted"),
        ({"command": 3}, "command=3: a line for the shell, a path or a list of words is wanted"),
        ({"command": b"echo"}, "command=b'echo': a line for the shell"),
        ({"name": None}, "submit: name=None: leave the option out instead"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_refused_by_name(desk: RequestReader, request_: dict[str, Any], text: str | None) -> None:
    if text is None:
        assert asked(desk, **request_).spec.exclusive
        return
    assert refusal(desk, **{"command": "true", **request_}).startswith(text)


def test_a_script_is_a_text_or_the_path_of_its_file(desk: RequestReader, tmp_path: Path) -> None:
    file = tmp_path / "job.txt"
    file.write_text("#BSUB -J filed\necho hello\n")
    for script in (file, file.read_text(), file.read_bytes()):
        done = desk.submission({"script": script})
        assert (done.spec.name, done.script) == ("filed", file.read_bytes())
    assert desk.submission({"script": Path("job.txt"), "cwd": tmp_path}).spec.name == "filed"
    meant = "is the name of a file: give Path("
    assert meant in refusal(desk, script=str(file))
    assert meant in refusal(desk, script="job.txt", cwd=tmp_path)
    assert meant in refusal(desk, script="not-there.sh")
    assert refusal(desk, script=tmp_path / "none").endswith("/none: No such file or directory")
    assert refusal(desk, script=3).startswith("script=3: the text of a script, or the Path of its file, is wanted")
    assert desk.submission({"script": "hostname\n"}).script == b"hostname\n"


def test_whole_timedeltas_are_minutes_rounded_up(desk: RequestReader) -> None:
    assert asked(desk, run_limit=timedelta(seconds=61)).spec.run_limit_s == 120
    assert asked(desk, run_limit="1:30").spec.run_limit_s == 5400
