"""`gsched sim` as a person types it: what is printed, what is written, and one line for what is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from gsched.app import entry
from gsched.app.commands.simulation import simulation_words
from gsched.sim import scenarios
from gsched.sim.scenarios import play
from gsched.sim.simulation import SimulationTables

JOBS = "arrives_s,runs_s,gpus,user\n0,100,2,ann\n0,100,1,bob\n"
GSCHED = (sys.executable, "-m", "gsched.app.entry")


def sim(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command and the simulations that it starts, all in this process: to import all that takes one a second."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("GSCHED")]:
            patch.delenv(name)
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["gsched", "sim", *words])
        patch.setattr(scenarios, "_in_a_process", lambda task, _: played(task))
        try:
            entry.gsched()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def played(task: bytes) -> SimulationTables:
    """What a process for one of several simulations answers."""
    scenario, workload, skip_refused = pickle.loads(task)
    return play(scenario, workload, skip_refused=skip_refused)


def typed(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The same in processes of their own, as a person has it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GSCHED")}
    command = [*GSCHED, "sim", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a folder"
    place.mkdir()
    (place / "jobs.csv").write_text(JOBS)
    return place


def test_text_csv_and_json_say_the_same(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--csv", "out", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "GPUs in use                    75.0 %\n" in done.stdout
    assert "Wait, p95                      1:40\n" in done.stdout
    with (folder / "out" / "jobs.csv").open(newline="") as file:
        jobs = list(csv.DictReader(file))
    assert [row["start_s"] for row in jobs] == ["0.0", "100.0"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        *("jobs.csv", "queues.csv", "series.csv", "users.csv")
    ]
    told = json.loads(typed("1x2:4", "jobs.csv", "--json", folder=folder).stdout)
    assert told["schema"] == 1
    assert told["summary"]["gpu_use"] == 0.75
    assert [row["start_s"] for row in told["jobs"]] == [0.0, 100.0]
    assert [row["user"] for row in told["users"]] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1x2", "none.csv"), "gsched: none.csv: cannot be read: No such file or directory"),
        (("1y2", "jobs.csv"), "gsched: 1y2: cannot be read: No such file or directory"),
        (("1x1", "jobs.csv"), "gsched: jobs.csv:2: No host can ever provide"),
        (("1x2", "jobs.csv", "--set", "lsb.queues:normal.PRIORTY=1"), "gsched: --set lsb.queues:normal.PRIORTY=1: "),
        (("1x2", "jobs.csv", "--alone"), "gsched: --alone needs --set or --add-hosts\n"),
        (("1x2", "jobs.csv", "--alone", "--sweep", "a=1,2"), "gsched: --alone cannot be given with --sweep\n"),
        (("1x2", "jobs.csv", "--chart-format", "svg"), "gsched: --chart-format needs --charts\n"),
        (("1x2", "jobs.csv", "--config", "none"), "gsched: none: cannot be read: No such file or directory"),
        (("1x2", "jobs.csv", "--sweep", "a.b.c:x=1,2"), "gsched: --sweep a.b.c:x=1: wanted is "),
        (("1x2", "jobs.csv", "--sweep", "x.y:a=1,2"), "gsched: --sweep x.y:a=1: values of x.y cannot be changed here"),
        (("1x2", "jobs.csv", "--sweep", "lsb.queues:x.NICE=1,2"), "gsched: --sweep lsb.queues:x.NICE=1: lsb.queues "),
        (("1x2", "jobs.csv", "--sweep", "GPU_PLACEMENT=pack,a"), "gsched: --sweep GPU_PLACEMENT=a: lsb.params: "),
        (("1x2", "openb:"), "gsched: openb: without a path: openb:FILE is wanted, a list of OpenB's tasks\n"),
        (("1x2", "jobs.csv", "--seed", "2"), "gsched: --seed has no effect on jobs.csv: random:JOBS and openb:FILE "),
        (("1x2", "--history", "state", "--seed", "2"), "gsched: --seed has no effect on state: random:JOBS and "),
    ],
)
def test_what_is_wrong_is_one_line_and_writes_nothing(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = sim(*words, "--csv", "out", folder=folder)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1, done.stderr
    assert [path.name for path in folder.iterdir()] == ["jobs.csv"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("1x2:4", "jobs.csv"), "jobs.csv"),
        (("1x2:4", "../a folder/jobs.csv", "--sweep", "GPU_PLACEMENT=pack,scarce"), "../a folder/jobs.csv"),
        (("users.csv", "random:3"), "users.csv"),
        (("1x2", "openb:fill.csv"), "fill.csv"),
    ],
)
def test_tables_never_take_the_place_of_what_is_read(folder: Path, words: tuple[str, ...], name: str) -> None:
    (folder / "users.csv").write_text("host,slots,gpus\na,4,2\n")
    (folder / "fill.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\n")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    done = sim(*words, "--csv", ".", folder=folder)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == f"gsched: --csv .: a table would take the place of {name}, which is read\n"
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


def test_progress_is_told_when_it_is_asked_for(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--progress", folder=folder)
    assert done.returncode == 0
    assert done.stderr.endswith("2 of 2 jobs (100 %), 3:20 of virtual time\n")  # a slow machine tells of the first, too


@pytest.mark.slow
def test_change_is_shown_beside_what_there_was(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--add-hosts", "1x1:4", "--csv", "out", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.partition("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["GPUs"] == ["GPUs", "2", "3", "+1"]
    assert lines["bob"] == ["bob", "1", "1:40", "0s", "-1:40", "2.00", "1.00"]
    assert done.stdout.endswith("Shorter waits: bob. Longer waits: nobody.\n")
    assert {"before-jobs.csv", "after-jobs.csv", "changes.csv"} < {path.name for path in (folder / "out").iterdir()}
    told = json.loads(sim("1x2:4", "jobs.csv", "--add-hosts", "1x1:4", "--json", folder=folder).stdout)
    assert told["before"]["summary"]["gpus"] == 2 and told["after"]["summary"]["gpus"] == 3
    assert told["users"][0] | {"user": "bob", "wait_change_s": -100.0} == told["users"][0]
    assert typed("1x2:4", "jobs.csv", "--add-hosts", "1x1:4", folder=folder).stdout == done.stdout
    alone = sim("1x2:4", "jobs.csv", "--add-hosts", "1x1:4", "--alone", folder=folder)
    assert "GPUs                           3\n" in alone.stdout


def test_sweep_has_a_row_for_each_value(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--sweep", "lsb.queues:normal.UJOB_LIMIT=0,1", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split()[0] for line in done.stdout.splitlines()]
    assert rows == ["lsb.queues:normal.UJOB_LIMIT", "0", "1"]
    for wrong in ("A", "A=1", "A=1,"):
        refused = sim("1x2:4", "jobs.csv", "--sweep", wrong, folder=folder)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (255, "", 1)


def test_tables_of_an_earlier_run_do_not_stay(folder: Path) -> None:
    out, sweep = folder / "out", ("--sweep", "lsb.queues:normal.UJOB_LIMIT=0,1")
    plain = {"jobs.csv", "queues.csv", "series.csv", "users.csv"}
    both = {f"{which}-{name}" for which in ("before", "after") for name in plain} | {"changes.csv"}
    (out).mkdir()
    (out / "sweep.csv").write_text("mine\n")
    for words, written in (((), plain), (("--add-hosts", "1x1:4"), both), (sweep, {"sweep.csv"}), ((), plain)):
        done = sim("1x2:4", "jobs.csv", *words, "--csv", "out", folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert {path.name for path in out.iterdir()} - {"sweep.csv"} == written - {"sweep.csv"}
        is_kept = (out / "sweep.csv").exists() and (out / "sweep.csv").read_text() == "mine\n"
        assert is_kept or "sweep.csv" in written or words == ()
    assert not (out / "sweep.csv").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("lsb.queues:night.PRIORITY=60", "no job of the workload goes to the queue night"),
        ("CLEAN_PERIOD=60", "nothing that is simulated depends on it"),
        ("lsf.conf:LSB_MAILTO=!U@example.org", "nothing that is simulated depends on it"),
        ("GPU_PLACEMENT=pack", "that is so already"),
        ("MAX_JOB_ARRAY_SIZE=70", "nothing comes out otherwise with this workload"),
    ],
)
def test_setting_that_cannot_matter_is_said(folder: Path, setting: str, said: str) -> None:
    done = sim("1x2:4", "jobs.csv", "--set", setting, folder=folder)
    assert (done.returncode, done.stderr) == (0, f"note: --set {setting}: {said}\n")


def test_sweep_that_cannot_matter_is_said(folder: Path) -> None:
    for swept, said in (("lsb.queues:night.PRIORITY=20,60", True), ("lsb.queues:normal.UJOB_LIMIT=0,1", False)):
        done = sim("1x2:4", "jobs.csv", "--sweep", swept, folder=folder)
        assert done.returncode == 0 and bool(done.stderr) == said, done.stderr


def test_setting_that_matters_is_not_remarked_on(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--set", "lsb.queues:normal.UJOB_LIMIT=0", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["png", "svg"])
def test_charts_are_drawn_and_the_same_each_time(folder: Path, form: str) -> None:
    """The second time in another process, where sets have another order."""
    words = ("1x2:4", "jobs.csv", "--chart-format", form)
    begins = {"png": b"\x89PNG", "svg": b"<?xml"}[form]
    drawn = []
    for run, out in ((sim, "one"), (typed, "two")):
        done = run(*words, "--charts", out, folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        drawn.append({path.name: path.read_bytes() for path in (folder / out).iterdir()})
    assert set(drawn[0]) == {f"gpus.{form}", f"waiting.{form}", f"waits.{form}"}
    assert all(content.startswith(begins) for content in drawn[0].values())
    assert drawn[0] == drawn[1]
    swept = sim(*words, "--charts", "three", "--sweep", "lsb.queues:normal.UJOB_LIMIT=1,2", folder=folder)
    assert (swept.returncode, [path.name for path in (folder / "three").iterdir()]) == (0, [f"sweep.{form}"])


def test_charts_without_matplotlib_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulation_words, "find_spec", lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest)
    )
    done = sim("1x2", "jobs.csv", "--charts", "out", folder=folder)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == "gsched: --charts needs matplotlib: pip install 'gsched[sim]'\n"


def test_python_has_the_same_as_columns(folder: Path) -> None:
    from gsched import simulate

    found = simulate("1x2:4", folder / "jobs.csv", settings=["lsb.queues:normal.PRIORITY=40"], add_hosts=["1x1:4"])
    assert found.summary["gpus"] == 3
    assert found.jobs["wait_s"] == [0.0, 0.0]
    assert len({len(column) for column in found.jobs.values()}) == 1


def test_program_of_the_document_runs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/simulate.md", "exec"), {})


def test_either_work_or_a_history(folder: Path) -> None:
    for words in (("1x2",), ("1x2", "jobs.csv", "--history", ".")):
        done = sim(*words, folder=folder)
        assert (done.returncode, done.stderr) == (255, "gsched: wanted is either a WORKLOAD or --history STATE\n")
    none = sim("1x2", "--history", "no where", folder=folder)
    assert none.returncode == 255 and none.stderr.startswith("gsched: there is no store ") and none.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "gsched: wanted is a CLUSTER, 4x8xH100 say, or --history STATE\n"),
        (("--history", "nowhere"), "gsched: there is no store "),
        (("--history", "nowhere", "--set", "A=1"), "gsched: --set needs a CLUSTER: "),
        (("--history", "nowhere", "--csv", "out"), "gsched: --csv needs a CLUSTER: "),
        (("--history", "nowhere", "--from", "soon"), "gsched: Bad time specification: 'soon' is not of the form "),
        (("--history", "x", "--from", "2026-11-20", "--to", "2026-11-19"), "gsched: --to 2026-11-19 is before --from"),
        (("1x2", "jobs.csv", "--from", "2026-11-20"), "gsched: --from and --to are of a history: --history STATE\n"),
    ],
)
def test_what_cannot_be_decided_again_is_one_line(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = sim(*words, folder=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (255, "", 1)
    assert done.stderr.startswith(said), done.stderr


def test_tasks_of_openb_fill_a_cluster(folder: Path) -> None:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,65536,2,T4\n")
    (folder / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,1024,1,500,T4\n")
    done = sim("nodes.csv", "openb:pods.csv", "--csv", "out", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Placed                              4\n" in done.stdout
    assert "Allocated when 130 % are asked for  100.00 %\n" in done.stdout
    with (folder / "out" / "fill.csv").open(newline="") as file:
        curve = list(csv.DictReader(file))
    told = json.loads(sim("nodes.csv", "openb:pods.csv", "--json", folder=folder).stdout)
    assert told["fill"]["allocated_at_100_percent"] == 1.0
    assert [float(row["allocated_share"]) for row in curve] == [row["allocated_share"] for row in told["curve"]]
    for words, said in (
        (("openb:none.csv",), "gsched: none.csv: cannot be read: "),
        (("openb:jobs.csv",), "gsched: jobs.csv:1: no column cpu_milli"),
        (("openb:pods.csv", "--sweep", "GPU_PLACEMENT=pack,scarce"), "gsched: --sweep cannot be given with openb:PATH"),
        (("openb:pods.csv", "--from", "2026-11-20"), "gsched: --from and --to are of a history"),
    ):
        refused = sim("nodes.csv", *words, folder=folder)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (255, "", 1)
        assert refused.stderr.startswith(said), refused.stderr
