"""`gadmin estimates --table`: figures of a table of gsched sim, and one line for what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gsched.app.commands.explaining.explain_words import estimates
from gsched.app.commands.explaining.start_tables import starts_in_table
from gsched.base.errors import BadRequest

HEAD = "job,submit_s,start_s,told_at_s,told_p50_s,told_p90_s,told_mean_s,told_plan_s,told_limit_s\n"


def table(folder: Path, text: str) -> str:
    path = folder / "my jobs.csv"
    path.write_text(text, "utf-8")
    return str(path)


def test_figures_as_lines_and_as_json(tmp_path: Path) -> None:
    """20 of 30 jobs had something said; each starts 100 s after its submission, the last of them after its p90."""
    rows = [f"{number},{number * 1000},{number * 1000 + 100},,,,,,\n" for number in range(10)]
    for number in range(10, 30):
        at, p90 = number * 1000, 99 if number == 29 else 150
        limit = at + 110 if number % 2 else ""
        rows.append(f"{number},{at},{at + 100},{at},{at + 80},{at + p90},{at + 400},{at + 110},{limit}\n")
    path = table(tmp_path, HEAD + "".join(rows) + "31,5,,5,,,,,\n")
    found = json.loads(CliRunner().invoke(estimates, ["--table", path, "--json"]).output)
    assert (found["waited"], found["not_kept"], found["estimated"]) == (30, 10, 20)
    assert (found["inside_p90"], found["median_error_s"], found["within_minute"]) == (0.95, 20.0, 1.0)
    assert (found["mean_wait_median_error_s"], found["mean_wait_within_minute"]) == (300.0, 0.0)
    assert (found["plan_jobs"], found["plan_median_error_s"], found["run_limits_jobs"]) == (20, 10.0, 10)
    shown = CliRunner().invoke(estimates, ["--table", path])
    assert shown.exit_code == 0
    assert shown.output.splitlines() == [
        "Jobs that had to wait: 30; estimated while they waited: 20",
        "Of 10 nothing is kept: they waited for something else than a place first, or were submitted before estimates "
        "were kept",
        "Started by their p90: 95.0 % (85 to 95 % is the goal)",
        "judged by           jobs median error within 1 minute",
        "such jobs (p50)       20         20 s         100.0 %",
        "the mean wait         20        300 s           0.0 %",
        "the plan              20         10 s         100.0 %",
        "run limits alone      10         10 s         100.0 %",
    ]


def test_none_that_waited(tmp_path: Path) -> None:
    path = table(tmp_path, HEAD + "1,5,5,,,,,,\n")
    assert CliRunner().invoke(estimates, ["--table", path]).output.splitlines() == [
        "Jobs that had to wait: 0; estimated while they waited: 0"
    ]
    assert json.loads(CliRunner().invoke(estimates, ["--table", path, "--json"]).output)["inside_p90"] is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", ":1: there is no column submit_s"),
        ("", ":1: there is no column submit_s"),
        ("submit_s,start_s\n1,2\n", ":1: there is no column told_at_s"),
        (HEAD + "1,5,six,,,,,,\n", ":2: submit_s, start_s and what was told are not all numbers"),
        (HEAD + "1,5,6,5,soon,,,,\n", ":2: submit_s, start_s and what was told are not all numbers"),
        (HEAD + "1,5,6,,,,,,\n2,7,6,,,,,,\n", ":3: a job that starts before it is submitted"),
        (HEAD + "1,5,inf,,,,,,\n", ":2: a job that starts before it is submitted, or at no time"),
        (HEAD + "1,5,6,5,nan,7,,,\n", ":2: what was told of the job is no time"),
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
