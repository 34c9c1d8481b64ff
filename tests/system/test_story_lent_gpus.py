"""Lent GPUs through real daemons: a job of 2 to 4 GPUs gives some back to whoever needs them, and gets them again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

GROWING = "=Begin Parameters\nGPU_GROW_INTERVAL = 1\nEnd Parameters\n"
COUNTING = """\
#!/bin/sh
# Counts until there is a file `enough`; at the signal it writes down how far it has come, and ends with 99.
n=$(cat count 2>/dev/null || echo 0)
echo "begins $n $GSCHED_ATTEMPT $CUDA_VISIBLE_DEVICES" >> told
save() {
    while [ -e "hold.$GSCHED_ATTEMPT" ]; do sleep 0.1; done
    echo "saves $n $GSCHED_ATTEMPT" >> told
    echo $n > count.new; mv count.new count; exit 99
}
trap save TERM
while [ ! -e enough ]; do sleep 0.1 & wait $!; n=$((n + 1)); done
echo "ends $n $GSCHED_ATTEMPT" >> told
"""


TRAINING = """\
# Ranks that add up what they have; at the signal the first one saves, asks for another run, and all leave.
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import stand_in_all_reduce
asked = []
signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))
stand_in_all_reduce.main()
while not asked and not os.path.exists("enough"):
    time.sleep(0.05)
if asked and os.environ["GSCHED_RANK"] == "0":
    subprocess.run([os.environ["GSCHED_BINDIR"] + "/gsched", "requeue-me"], check=True)
"""
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:default")


def counting(folder: Path) -> tuple[str, ...]:
    """What is submitted in that folder."""
    folder.mkdir()
    script = folder / "count.sh"
    script.write_text(COUNTING)
    script.chmod(0o755)
    return ("-cwd", str(folder), "-gpu", "num=2..4", "--signal", "TERM@60", "./count.sh")


def told(folder: Path, word: str) -> list[list[str]]:
    """What each attempt has written of that: how far it was, its number, its GPUs."""
    path = folder / "told"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [line[1:] for line in lines if line[0] == word]


def begins(cluster: Cluster, folder: Path, attempt: int) -> None:
    cluster.until(lambda: len(told(folder, "begins")) == attempt, f"attempt {attempt} does not begin")


def test_it_shrinks_for_a_job_that_waits_grows_again_and_ends_with_a_right_result(cluster: Cluster) -> None:
    folder = cluster.folder / "lent"
    with cluster.files_as_they_are():
        cluster.configure(lsb_params=GROWING)
        lender = cluster.submit(*counting(folder))
        begins(cluster, folder, 1)
        owner = cluster.submit("-gpu", "num=2", "while [ ! -e lent/go ]; do sleep 0.1; done")
        begins(cluster, folder, 2)
        cluster.becomes(owner, "RUN")
        shown = cluster.run("gjobs", "-l", str(lender)).stdout
        assert "2..4 GPUs, has 2 (0 lent)" in shown and "Its number of GPUs has changed 1 time;" in shown
        (folder / "go").touch()
        begins(cluster, folder, 3)
        (folder / "enough").touch()
        views = cluster.wait(lender, owner)
    assert [view.state for view in views] == ["DONE", "DONE"]
    starts, saves, ends = (told(folder, word) for word in ("begins", "saves", "ends"))
    assert [len(start[2].split(",")) for start in starts] == [4, 2, 4]
    assert [start[0] for start in starts] == ["0", *(save[0] for save in saves)]
    assert len(ends) == 1 and int(ends[0][0]) >= int(saves[-1][0])
    history = cluster.run("ghist", "-UF", str(lender)).stdout
    assert f"it goes on with 2 of its 4 GPUs: job {owner} needs lent ones" in history
    assert "it goes on with 4 GPUs instead of 2: so many are idle" in history
    assert "Failed" not in history
    assert "Restarted 0 times" in cluster.run("gjobs", "-l", str(lender)).stdout
    assert f"Job {lender}, which gives 2 lent GPU(s) back to it" in cluster.run("ghist", "-UF", str(owner)).stdout


def test_a_master_that_is_killed_while_it_saves_forgets_nothing(cluster: Cluster) -> None:
    folder = cluster.folder / "killed"
    lender = cluster.submit(*counting(folder))
    begins(cluster, folder, 1)
    (folder / "hold.1").touch()
    owner = cluster.submit("-gpu", "num=1", "while [ ! -e killed/enough ]; do sleep 0.1; done")
    cluster.until(lambda: "give" in cluster.run("ghist", "-UF", str(owner)).stdout, "nothing is given back")
    cluster.kill("master")
    (folder / "hold.1").unlink()
    cluster.up()
    begins(cluster, folder, 2)
    cluster.becomes(owner, "RUN")
    (folder / "enough").touch()
    views = cluster.wait(lender, owner)
    assert [view.state for view in views] == ["DONE", "DONE"]
    starts, saves = told(folder, "begins"), told(folder, "saves")
    assert [len(start[2].split(",")) for start in starts] == [4, 3]
    assert [start[0] for start in starts] == ["0", saves[0][0]] and len(saves) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("-gpu", "num=2..4"),
        ("-gpu", "num=4..2", "--signal", "TERM@5"),
        ("-gpu", "num=2..4/task", "--signal", "TERM@5"),
        ("-gpu", "num=2..4:glink=yes", "--signal", "TERM@5"),
        ("-gpu", "num=2..4", "-n", "2", "--signal", "TERM@5"),
        ("-gpu", "num=2..4", "-I"),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Cluster, words: tuple[str, ...]) -> None:
    refused = cluster.run("gsub", *words, "true", check=False)
    assert refused.returncode == 255 and len(refused.stderr.strip().splitlines()) == 1, refused.stderr


def test_it_keeps_its_gpus_when_nobody_waits_for_them_any_more(cluster: Cluster) -> None:
    folder = cluster.folder / "kept"
    lender = cluster.submit(*counting(folder))
    begins(cluster, folder, 1)
    (folder / "hold.1").touch()
    owner = cluster.submit("-gpu", "num=1", "true")
    waits = f"Job <{lender}>, which gives lent GPUs back to it, saves its state until"
    cluster.until(lambda: waits in cluster.run("gjobs", "-p", str(owner)).stdout, "it is not said who gives back")
    explained = cluster.run("gjobs", "-p4", str(owner)).stdout
    assert f"when job {lender} of" in explained and explained.count("gives 1 GPU back") == 2, explained
    cluster.run("gkill", str(owner))
    history = cluster.run("ghist", "-UF", str(lender)).stdout
    assert "No job needs its lent GPUs any more: it keeps them, and is not ended after its time to save" in history
    assert "is not ended then" in cluster.run("gjobs", "-UF", str(lender)).stdout
    (folder / "hold.1").unlink()
    begins(cluster, folder, 2)
    (folder / "enough").touch()
    (view,) = cluster.wait(lender)
    assert view.state == "DONE" and view.resizes == 0
    assert [len(start[2].split(",")) for start in told(folder, "begins")] == [4, 4]


def test_one_that_is_killed_while_it_saves_is_said_to_be_killed(cluster: Cluster) -> None:
    folder = cluster.folder / "ended"
    lender = cluster.submit(*counting(folder))
    begins(cluster, folder, 1)
    (folder / "hold.1").touch()
    owner = cluster.submit("-gpu", "num=1", "true")
    cluster.until(lambda: "give" in cluster.run("ghist", "-UF", str(owner)).stdout, "nothing is given back")
    cluster.run("gkill", str(lender))
    ended, started = cluster.wait(lender, owner)
    assert (ended.state, started.state) == ("EXIT", "DONE")
    assert ended.result is not None and ended.result.term_reason == "TERM_OWNER"


def test_one_that_is_stopped_while_it_saves_waits_until_it_is_resumed(cluster: Cluster) -> None:
    folder = cluster.folder / "stopped"
    lender = cluster.submit(*counting(folder))
    begins(cluster, folder, 1)
    (folder / "hold.1").touch()
    owner = cluster.submit("-gpu", "num=1", "true")
    cluster.until(lambda: "give" in cluster.run("ghist", "-UF", str(owner)).stdout, "nothing is given back")
    cluster.run("gstop", str(lender))
    cluster.becomes(lender, "USUSP")
    (folder / "hold.1").unlink()
    cluster.becomes(lender, "PSUSP")
    (view,) = cluster.wait(owner)
    assert view.state == "DONE" and len(told(folder, "saves")) == len(told(folder, "begins")) == 1
    (folder / "enough").touch()
    cluster.run("gresume", str(lender))
    (view,) = cluster.wait(lender)
    assert view.state == "DONE" and len(told(folder, "begins")) == 2


def test_training_by_torchrun_goes_on_with_as_many_ranks_as_it_has_gpus(cluster: Cluster) -> None:
    """With a stand-in for torchrun, which the signal would end as the real one (test_launch_clients)."""
    folder = cluster.folder / "ranks"
    folder.mkdir()
    (folder / "torchrun").symlink_to(SUPPORT / "stand_in_launchers.py")
    (folder / "train.py").write_text(TRAINING)

    def ranks() -> list[str]:
        """What each attempt's ranks were told: how many they are, and the sum that they agree on."""
        lines = (folder / "out").read_text().splitlines() if (folder / "out").exists() else []
        return [f"{words[3]} {words[-1]}" for words in map(str.split, lines) if words[:1] == ["rank"]]

    with cluster.files_as_they_are():
        cluster.configure(lsb_params=GROWING)
        environment = ("-env", f"all, PATH={folder}:{cluster.env['PATH']}")
        words = (
            "-cwd",
            str(folder),
            "-o",
            str(folder / "out"),
            "-gpu",
            "num=2..4",
            "--signal",
            "USR2@60",
            *environment,
        )
        lender = cluster.submit(*words, "--launch", "torch", shlex.join((sys.executable, "train.py", str(SUPPORT))))
        cluster.until(lambda: ranks() == ["4 10"] * 4, "its ranks do not begin")
        owner = cluster.submit("-gpu", "num=2", "while [ ! -e ranks/go ]; do sleep 0.1; done")
        cluster.until(lambda: ranks()[4:] == ["2 3"] * 2, "it does not go on with two ranks")
        (folder / "go").touch()
        cluster.until(lambda: ranks()[6:] == ["4 10"] * 4, "it does not go on with four ranks")
        (folder / "enough").touch()
        views = cluster.wait(lender, owner)
    assert [view.state for view in views] == ["DONE", "DONE"] and views[0].resizes == 2
