"""`gadmin estimates --table`: figures of a table of gsched sim, and one line for what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gsched.app.commands.explaining.explain_words import estimates
from gsched.app.commands.explaining.start_tables import starts_in_table
from gsched.base.errors import BadRequest

HEAD = "job,user,queue,gpus,submit_s,start_s\n"


def table(folder: Path, text: str) -> str:
    path = folder / "my jobs.csv"
    path.write_text(text, "utf-8")
    return str(path)


def test_figures_as_lines_and_as_json(tmp_path: Path) -> None:
    rows = [f"{number},ann,normal,1.0,{number * 1000},{number * 1000 + 100}\n" for number in range(30)]
    path = table(tmp_path, HEAD + "".join(rows) + "31,ann,normal,1.0,5,\n")
    found = json.loads(CliRunner().invoke(estimates, ["--table", path, "--json"]).output)
    assert found["waited"] == 30 and found["estimated"] == 20
    assert (found["inside_p90"], found["median_error_s"], found["within_minute"]) == (1.0, 0.0, 1.0)
    shown = CliRunner().invoke(estimates, ["--table", path])
    assert shown.exit_code == 0
    assert shown.output.splitlines()[:2] == [
        "Jobs that had to wait: 30; estimated when they were submitted: 20",
        "Started by their p90: 100.0 % (85 to 95 % is the goal)",
    ]


def test_none_that_waited(tmp_path: Path) -> None:
    path = table(tmp_path, HEAD + "1,ann,normal,0,5,5\n")
    assert CliRunner().invoke(estimates, ["--table", path]).output.splitlines() == [
        "Jobs that had to wait: 0; estimated when they were submitted: 0"
    ]
    assert json.loads(CliRunner().invoke(estimates, ["--table", path, "--json"]).output)["inside_p90"] is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", ":1: there is no column user"),
        ("", ":1: there is no column user"),
        (HEAD + "1,ann,normal,1,5,six\n", ":2: gpus, submit_s and start_s are not all numbers"),
        (HEAD + "1,ann,normal,1,5,6\n2,ann,normal,1,7,6\n", ":3: a job that starts before it is submitted"),
        (HEAD + "1,ann,normal,1,5,inf\n", ":2: a job that starts before it is submitted, or at no time"),
        (HEAD + "1,ann\n", ""),
    ],
)
def test_what_is_no_table_of_starts(tmp_path: Path, text: str, told: str) -> None:
    path = table(tmp_path, text)
    if not told:
        assert list(starts_in_table(path)) == []
        return
    with pytest.raises(BadRequest) as refused:
        list(starts_in_table(path))
    assert told in refused.value.text and refused.value.text.startswith(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.csv: cannot be read as a table: No such file"):
        list(starts_in_table(str(tmp_path / "none.csv")))
    with pytest.raises(BadRequest, match="-u and --table cannot be given together"):
        CliRunner().invoke(estimates, ["--table", "x", "-u", "ann"], catch_exceptions=False)
