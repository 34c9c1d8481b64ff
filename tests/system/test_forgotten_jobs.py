"""Jobs that nobody remembers any more (CLEAN_PERIOD): what asks for them is answered by the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster as Live

import gsched
from gsched.base.errors import NotFound
from gsched.base.ids import element_id

SCRIPT = "#!/bin/sh\n#BSUB -J scripted\necho from the script\n"


class Forgotten:
    """A cluster and jobs that it has forgotten."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live = live
        self.folder = folder
        # Asked from before the jobs on: while they are there they must be kept.
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 86400\nEnd Parameters\n")
        self.written = live.submit("-o", str(folder / "out.%J"), "-J", "written", "echo hello")
        self.failed = live.submit("-gpu", "num=1", "exit 7")
        self.array = live.submit("-J", "sweep[1-3]", "-o", "/dev/null", "exit $((LSB_JOBINDEX == 2))")
        self.scripted = int(live.run("gsub", stdin=SCRIPT).stdout.split("<")[1].split(">")[0])
        self.killed = live.submit("-H", "true")
        live.run("gkill", str(self.killed))
        elements = (element_id(self.array, index) for index in (1, 2, 3))
        live.wait(self.written, self.failed, *elements, self.scripted, self.killed)
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 0\nEnd Parameters\n")
        live.until(self._are_forgotten, "the jobs are still remembered")

    def _are_forgotten(self) -> bool:
        done = self.live.run("gjobs", "-a", "-u", "all", check=False)
        return done.returncode == 255 or not done.stdout


@pytest.fixture(scope="module")
def jobs(module_cluster: Callable[..., Live], tmp_path_factory: pytest.TempPathFactory) -> Forgotten:
    return Forgotten(module_cluster("--sim-gpus", "2:exclusive_process"), tmp_path_factory.mktemp("forgotten"))


def test_a_program_gets_results(jobs: Forgotten) -> None:
    with gsched.Cluster(jobs.live.conf) as cluster:
        written, failed, array = cluster.job(jobs.written), cluster.job(jobs.failed), cluster.job(jobs.array)
        end = written.result(60)
        assert (end.succeeded, end.host, end.name) == (True, jobs.live.host, "written")
        assert written.state == "DONE" and "\nhello\n" in written.output()
        with pytest.raises(gsched.api.JobFailed, match=rf"Job <{jobs.failed}> \(exit 7\) on .* ended with exit code 7"):
            failed.result(60)
        assert array.wait(60).counts == {"DONE": 2, "EXIT": 1}
        assert cluster.job(element_id(jobs.array, 2)).wait(60).exit_code == 1
        assert [view.state for view in array.elements()] == ["DONE", "EXIT", "DONE"]
        assert cluster.job(jobs.killed).wait(60).state == "EXIT"
        ends = cluster.wait([jobs.scripted, jobs.written, jobs.array], 60)
        assert [end.state for end in ends] == ["DONE", "DONE", "EXIT"]
        with pytest.raises(NotFound, match=r"Job <9999> is not found"):
            cluster.job(9999).wait(60)


def test_a_program_reads_the_history(jobs: Forgotten) -> None:
    with gsched.Cluster(jobs.live.conf) as cluster:
        assert [view.job_id for view in cluster.history(ids=[jobs.failed, jobs.written])] == [jobs.written, jobs.failed]
        everything = {view.job_id: view.state for view in cluster.history()}
        assert everything[jobs.failed] == "EXIT" and everything[element_id(jobs.array, 3)] == "DONE"
        assert {view.job_id for view in cluster.history(states=["DONE"])} < everything.keys()
        kinds = [event.kind for event in cluster.job(jobs.written).history()]
        assert kinds[0] == "job_submitted" and "job_finished" in kinds and kinds[-1] == "job_forgotten"
        assert [event.kind for event in cluster.job(jobs.array).history()] == ["job_submitted"]
        with pytest.raises(NotFound):
            cluster.job(9999).history()


def test_commands_answer_or_name_the_one_that_does(jobs: Forgotten) -> None:
    live = jobs.live
    long = live.run("gjobs", "-l", str(jobs.written)).stdout
    assert f"Job <{jobs.written}>, Job Name <written>" in long and "Done successfully" in long
    plain = live.run("gjobs", str(jobs.written), check=False)
    assert (plain.returncode, plain.stderr) == (255, f"Job <{jobs.written}> is not found\n"), "as of LSF"
    assert live.run("gjobs", "-script", str(jobs.scripted)).stdout == SCRIPT
    peek = live.run("gpeek", str(jobs.written), check=False)
    where = jobs.folder / f"out.{jobs.written}"
    assert peek.stderr == f"Job <{jobs.written}> : Job has already finished; its output is in {where}\n"
    of_array = live.run("gpeek", str(jobs.array), check=False)
    element = f"name one of its elements, as in '{jobs.array}[1]'"
    assert (of_array.returncode, of_array.stderr) == (255, f"Job <{jobs.array}> : a job array; {element}\n")
    again = live.run("grequeue", "-d", str(jobs.written), check=False)
    assert again.returncode == 255 and f"`ghist -l {jobs.written}` tells what it ran" in again.stderr
    assert "ghist" not in live.run("grequeue", "-d", "9999", check=False).stderr
    for command in ("gpeek", "gjobs"):
        done = live.run(command, *(["-l"] if command == "gjobs" else []), "9999", check=False)
        assert (done.returncode, done.stderr) == (255, "Job <9999> is not found\n")


def test_what_a_host_keeps_is_shown(jobs: Forgotten) -> None:
    with gsched.Cluster(jobs.live.conf) as cluster:
        assert cluster.job(jobs.scripted).output() == "from the script\n"
    assert "from the script" in jobs.live.run("gpeek", str(jobs.scripted)).stdout
