"""What programs written for LSF write and read, replayed: their submissions run, their questions are answered.

Each text is what the program named beside it sends; the regular expressions are how it takes the answer apart.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system

SUBMITTED = re.compile(r"Job <(\d+)> is submitted to (?:default )?queue <(\w+)>\.\n")


class Names:
    """The commands of `gsched names lsf` for a shared cluster with GPUs that jobs may share."""

    def __init__(self, cluster: Cluster) -> None:
        self.folder = cluster.folder / "work"
        self.folder.mkdir()
        self.host = cluster.run("gid").stdout.split()[-1]
        cluster.run("gsched", "names", "lsf", str(cluster.folder / "bin"))
        self.env = {"PATH": f"{cluster.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC"}
        self._cluster = cluster

    def run(self, line: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """A line of a shell, as these programs run them."""
        return subprocess.run(
            ["bash", "-c", line],
            input=stdin,
            env={**self.env, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def submit(self, line: str, stdin: str = "") -> str:
        """Job number; the sentence must be all of standard output."""
        done = self.run(line, stdin.format(host=self.host, folder=self.folder))
        found = SUBMITTED.fullmatch(done.stdout)
        assert done.returncode == 0 and found is not None, done.stdout + done.stderr
        return found[1]

    def ends(self, job: str) -> str:
        """STAT of the finished job, or of an array's elements."""

        def states() -> set[str]:
            return set(self.run(f"bjobs -a -noheader -o stat {job}").stdout.split())

        self._cluster.until(lambda: states() <= {"DONE", "EXIT"}, f"job {job} does not end")
        return " ".join(sorted(states()))


@pytest.fixture(scope="module")
def lsf(module_cluster: Callable[..., Cluster]) -> Names:
    return Names(module_cluster("--sim-gpus", "2:shared"))


def script(*directives: str) -> str:
    return "".join(["#!/bin/bash\n", *(f"#BSUB{each}\n" for each in directives), "exit 0\n"])


SCRIPTS = {
    "Nextflow": script(
        *(" -o .command.log", " -q normal", " -n 2", ' -R "span[hosts=1]"', " -W 60:05", " -M 512MB"),
        *(' -R "select[mem>=100MB] rusage[mem=100MB]"', ' -R "select[tmp>=1MB] rusage[tmp=1MB]"', " -J nf-name"),
    ),
    "Nextflow's array": script(" -o /dev/null", ' -J "nf-name[1-3]"'),
    "clustermq": script(
        *("-J cmq[1-2]", "-n 1", "-o %J.%I.log", "-M 100", "-R rusage[mem=50]", "-R span[ptile=1]"),
    ),
    "batchspawner": script(
        ' -R "select[type==any]"    # any kind of host', ' -R "span[hosts=1]"    # one of them', " -J spawned"
    ),
    "AiiDA": script(
        *(" -rn", " -J job", " -o out", " -e err", " -q normal", " -n 1", ' -m "{host}"', " -W 00:10", " -M 100000"),
    ),
    "Galaxy": script(" -o out", " -J galaxy", " -n 1", " -R \"select[hname!='elsewhere']\"", ' -R "rusage[mem=50]"'),
    "BLAH": script(' -R "select[ngpus>0] rusage[ngpus_shared=1]"', " -J blah", " -W 10", " -P p"),
    "Arvados": script(
        *(" -o out", " -J arvados", " -n 1", " -D 1000MB", ' -R "rusage[mem=100MB:tmp=1MB] span[hosts=1]"'),
        *(' -R "select[mem>=100MB]"', ' -R "select[tmp>=1MB]"', ' -R "select[ncpus>=1]"', " -We 5", " -gpu num=1"),
    ),
    "MaestroWF": script(" -nnodes 1", " -q normal", " -W 00:05", " -J maestro", " -o out", " -e err"),
    "ReFrame": script(
        *(" -J rfm_Hello", " -o rfm_job.out", " -e rfm_job.err", " -nnodes 1", " -W 2"),
        ' -gpu "num=1"',
    ),
    # The directives of its template behind the blanks of the program's own text are none.
    "ipyparallel": "#!/bin/sh\n#BSUB -J ipengine[1-2]\n#BSUB -q normal\n#BSUB -o ipengine.log\n#BSUB -e ipengine.log\n"
    "\n    #BSUB -J ipengine-1\n    #BSUB -env all\n    exit 0\n",
    "DPDispatcher": script(
        *(" -e %J.err", " -o %J.out", " -n 2", " -R 'span[ptile=2]'", " -q normal"),
        " -gpu 'num=1:mode=shared:j_exclusive=yes'",
    ),
    "jobqueues": script(
        *(" -J run_12345", ' -q "normal"', " -n 1", ' -gpu "num=1:mode=shared"', " -M 200", " -cwd {folder}"),
        *(" -outdir {folder}", " -o lsf.%J.out", " -e lsf.%J.err"),
    ),
    "FireWorks": script(" -n 1", " -W 00:05", " -q normal", " -J fw", " -o fw-%J.out", " -e fw-%J.error"),
    "law": script(" -q normal", " -J law", " -o stdout.txt", " -e stderr.txt", " -gpu num=1"),
    "scripts of the wild": script(
        *(" -q short", " -q normal", ' -gpu "num=1"', ' -R "rusage[mem=1GB]"', " -oo out -eo err # two at once", ""),
    ),
}


@pytest.mark.parametrize("program", SCRIPTS)
def test_scripts_on_standard_input(lsf: Names, program: str) -> None:
    assert lsf.ends(lsf.submit("bsub", SCRIPTS[program])) == "DONE"


LINES = {
    "Snakemake": (
        "bsub -J 'Snakemake_rule_one:x=a,y=b___(f0e1-2d)' -o log -e log -env all -P p -q normal -W 5 -n 2 "
        '-R rusage[mem=100.0] -R span[hosts=1] -cwd . "exit 0"'
    ),
    "Snakemake's profile": "bsub -M 100 -n 1 -R 'select[mem>100] rusage[mem=100] span[hosts=1]' -o o -e e -J s ./ok.sh",
    "Toil": (
        'bsub -cwd . -J toil_job_1 -R "select[mem>200MB] rusage[mem=200MB]" -M 200MB -n 1 -o "%J_out.log" '
        '-e "%J_err.log" "exit   0 "'
    ),
    "Cromwell": "bsub -J cromwell -cwd . -o out -e err /usr/bin/env bash ok.sh",
    "MATLAB": 'bsub -J "m[1-2]" -o out -env "none" -n 1 "exit 0"',
    "Luigi": "bsub -q normal -n 1 -M 100 -R rusage[mem=100] -W 5 -J task -o out -e err ./ok.sh",
    "Parsl": "bsub nodes.sh",
    "MyQueue": (
        "bsub -J sleep -W 00:10 -n 1 -o sleep.%J.out -e sleep.%J.err -R 'rusage[mem=1G]' -R 'span[hosts=1]' "
        "<<EOF\n#!/bin/bash -l\n(touch mq-0 && touch mq-1) || (touch mq-2; exit 1)\nEOF"
    ),
    "nipype": "bsub -q normal -gpu num=1 -o batch.log -e batch.log -J a0.w.ann sh ok.sh",
    "TorchX without memory": """bsub -P APP -J name -n 1 -R "span[hosts=1]]" << EOF\nexit 0\nEOF""",
    "TorchX": (
        'bsub -P APP -J name -m $(lsid | tail -1 | cut -d" " -f5) -cwd . -oo out -eo err -n 1 '
        '-R "span[hosts=1] rusage[mem=100]" -gpu "num=1:mode=shared:j_exclusive=yes" <<EOF\nexit 0\nEOF'
    ),
}


@pytest.mark.parametrize("program", LINES)
def test_command_lines(lsf: Names, program: str) -> None:
    (lsf.folder / "ok.sh").write_text("#!/bin/sh\nexit 0\n")
    (lsf.folder / "ok.sh").chmod(0o755)
    (lsf.folder / "nodes.sh").write_text(script(" -W 5", " -J p.1", " -o out", " -e err", " -nnodes 1"))
    assert lsf.ends(lsf.submit(LINES[program])) == "DONE"


@pytest.fixture(scope="module")
def jobs(lsf: Names) -> dict[str, str]:
    """One that ended well, one that did not, one that runs, one that waits."""
    found = {
        "done": lsf.submit("bsub -J done-a1b2 -o done.out exit 0"),
        "exit": lsf.submit("bsub -J exit-a1b2 -o exit.out exit 3"),
    }
    for job in found.values():
        lsf.ends(job)
    found["run"] = lsf.submit("bsub -J run-a1b2 -P APP -W 10 -o /dev/null sleep 300")
    found["pend"] = lsf.submit("bsub -H -J pend-a1b2 -o /dev/null sleep 300")
    lsf._cluster.until(
        lambda: lsf.run(f"bjobs -noheader -o stat {found['run']}").stdout == "RUN\n", "the job does not run"
    )
    return found


def test_states_of_many_jobs_at_once(lsf: Names, jobs: dict[str, str]) -> None:
    ids = " ".join(jobs.values())
    # Parsl, Galaxy, Snakemake: exactly two words a line.
    for question in (f"bjobs -noheader -o 'jobid stat' {ids}", "bjobs -noheader -o 'jobid stat' -aJ '*a1b2*'"):
        answer = lsf.run(question)
        assert answer.returncode == 0 and answer.stderr == ""
        states = dict(line.split() for line in answer.stdout.splitlines())
        assert states == {jobs["done"]: "DONE", jobs["exit"]: "EXIT", jobs["run"]: "RUN", jobs["pend"]: "PSUSP"}
    # PSI/J and Toil: JSON with these keys, texts, and nothing for what is not there.
    answer = lsf.run(f"bjobs -o 'JOBID STAT EXIT_REASON KILL_REASON SUSPEND_REASON' -json -a {ids}")
    for record in json.loads(answer.stdout)["RECORDS"]:
        assert [record[key] for key in ("EXIT_REASON", "KILL_REASON", "SUSPEND_REASON")] == ["", "", ""]
    answer = lsf.run(f"bjobs -json -o 'jobid user exit_code stat exit_reason pend_reason' {ids}")
    codes = {record["JOBID"]: record["EXIT_CODE"] for record in json.loads(answer.stdout)["RECORDS"]}
    assert codes == {job: "3" if name == "exit" else "" for name, job in jobs.items()}


def test_a_table_that_programs_split_at_blanks(lsf: Names, jobs: dict[str, str]) -> None:
    # Nextflow: words by the header's column numbers.
    header, *lines = (line.split() for line in lsf.run("bjobs -w -q normal").stdout.splitlines())
    states = {line[header.index("JOBID")]: line[header.index("STAT")] for line in lines}
    assert states == {jobs["run"]: "RUN", jobs["pend"]: "PSUSP"}
    # Open OnDemand: these columns in this order, each of one word up to the name.
    header, line = lsf.run(f"bjobs -a -w -W {jobs['run']}").stdout.splitlines()
    columns = (
        "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME SUBMIT_TIME PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME "
    )
    assert header.split()[:15] == f"{columns}FINISH_TIME".split()
    assert re.fullmatch(r"\d\d/\d\d-\d\d:\d\d:\d\d", line.split()[7])


def test_one_job_in_many_words(lsf: Names, jobs: dict[str, str]) -> None:
    # AiiDA: fourteen fields, one of them twice.
    fields = "id stat exit_reason exec_host user slots max_req_proc exec_host queue finish_time start_time %complete"
    question = f"bjobs -noheader -o '{fields} submit_time name delimiter=\"|\"' {jobs['run']} {jobs['pend']}"
    running, waiting = (line.split("|") for line in lsf.run(question).stdout.splitlines())
    assert (len(running), running[1], running[3], running[7]) == (14, "RUN", lsf.host, lsf.host)
    assert re.fullmatch(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d L", running[9]) and running[11].split()[0].endswith("%")
    assert waiting[9:12] == ["-", "-", "-"]
    # batchspawner: two words, one blank.
    assert lsf.run(f'bjobs -a -noheader -o "STAT EXEC_HOST" {jobs["run"]}').stdout == f"RUN {lsf.host}\n"
    # TorchX
    told = lsf.run('bjobs -noheader -a -P APP -o "proj name stat exit_code"').stdout
    assert "APP run-a1b2 RUN -" in told.splitlines()
    assert re.fullmatch(r"\S+ \d+ 2\n", lsf.run('bhosts -noheader -o "hname max ng"').stdout)


def test_what_is_not_there(lsf: Names, jobs: dict[str, str]) -> None:
    unknown = lsf.run("bjobs 999999")
    assert (unknown.returncode, unknown.stderr) == (255, "Job <999999> is not found\n")
    ended = lsf.run(f"bkill {jobs['done']}")
    assert (ended.returncode, ended.stderr) == (255, f"Job <{jobs['done']}>: Job has already finished\n")
    assert lsf.run("bkill 999999").stderr == "Job <999999>: No matching job found\n"
    # Cromwell: exit code 0 as long as a finished job is remembered.
    assert lsf.run(f"bjobs {jobs['done']}").returncode == 0
    strict = lsf.run("bjobs -q night", LSB_BJOBS_CONSISTENT_EXIT_CODE="Y")
    assert strict.returncode == 255 and lsf.run("bjobs -q night").returncode == 0


def test_killing_by_name(lsf: Names) -> None:
    # clustermq
    job = lsf.submit("bsub -J 'kill-me[1-2]' -o /dev/null sleep 300")
    killed = lsf.run("bkill -J kill-me")
    assert killed.returncode == 0 and "is being terminated" in killed.stdout, killed.stderr
    assert lsf.ends(job) == "EXIT"


# -- monitors and accounting ------------------------------------------------------------------------------------------

LISTINGS = {
    "lsfMonitor": (
        *(
            "bqueues -w",
            "bqueues -l",
            "bhosts -w",
            "bhosts -l",
            "lsload",
            "lsload -l",
            "lshosts -w",
            "busers all",
            "lsid",
        ),
        *("badmin showconf mbd all", "bjobs -u all -w"),
    ),
    "IBM's chatops": ("lsid", "lsload", "bjobs -u all -o stat -noheader"),
    "Toil": ("bparams -a", "lsadmin showconf lim"),
}


@pytest.mark.parametrize("program", LISTINGS)
def test_listings(lsf: Names, jobs: dict[str, str], program: str) -> None:
    for line in LISTINGS[program]:
        done = lsf.run(line)
        assert done.returncode == 0 and done.stdout, f"{line}: {done.stderr}"


def test_ibms_exporter_of_metrics(lsf: Names, jobs: dict[str, str]) -> None:
    unit = {"LSB_UNIT_FOR_JOBS_DISPLAY": "M"}
    (host,) = json.loads(lsf.run("bhosts -o all -R select[mg] -json", **unit).stdout)["RECORDS"]
    assert (host["HOST_NAME"], float(host["NGPUS"])) == (lsf.host, 2.0)
    assert float(host["AVAILABLE_MEM"].replace("M", "")) > 0
    assert json.loads(lsf.run("bhosts -o all -R select[!mg] -json", **unit).stdout)["RECORDS"] == []
    (load,) = json.loads(lsf.run('lsload -o "*" -R select[mg] -json').stdout)["RECORDS"]
    assert load["status"] == "ok" and all(float(load[size].replace("M", "")) >= 0 for size in ("tmp", "swp", "mem"))
    assert 0 <= float(load["ut"].replace("%", "")) <= 100 and float(load["r1m"]) >= 0
    queues = json.loads(lsf.run('bqueues -json -o "queue_name:12 njobs pend run susp rsv ususp ssusp status"').stdout)[
        "RECORDS"
    ]
    assert {"normal", "short"} <= {queue["QUEUE_NAME"] for queue in queues}
    words = lsf.run("badmin showstatus").stdout.split()
    assert (words[21], words[23]) == ("1", "1")
    assert int(words[33]) >= 4 and int(words[41]) >= 2


def test_accounts_as_toil_and_ehive_read_them(lsf: Names, jobs: dict[str, str]) -> None:
    done, failed = (lsf.run(f"bacct -l {jobs[which]}").stdout for which in ("done", "exit"))
    assert "Completed <done>" in done and "Completed <exit>" in failed
    records = lsf.run(f"bacct -l {jobs['done']} {jobs['exit']}").stdout.split("-" * 78 + "\n")
    assert [re.findall(r"^Job <(\d+)>", each, re.MULTILINE) for each in records[1:3]] == [
        [jobs["done"]],
        [jobs["exit"]],
    ]
    assert all(re.search(r"CPU_T .* MEM +SWAP\n +[\d.]+ ", each) for each in records[1:3])
    assert f"Job <{jobs['done']}>" in lsf.run("bacct -l -C .-1:, -u all").stdout
    nothing = lsf.run("bacct -l 999999")
    assert (nothing.returncode, nothing.stderr) == (255, "No matching job found\n")


def test_administrators_words(lsf: Names) -> None:
    closed = lsf.run(
        f"badmin hclose -C disk {lsf.host}; badmin hopen {lsf.host}; badmin qinact night; badmin qact night"
    )
    assert closed.stderr == f"Close <{lsf.host}> ...... done\nOpen <{lsf.host}> ...... done\n"
    assert closed.stdout == "Queue <night> is inactivated\nQueue <night> is activated\n"
    told = lsf.run(f"badmin hhist {lsf.host}").stdout
    assert re.search(
        rf"^\w+ \w+ [ \d]+ [\d:]+: Host <{lsf.host}> closed by administrator <\w+> disk\.$", told, re.MULTILINE
    )
    assert "Queue <night> activated by user or administrator" in lsf.run("badmin qhist night").stdout
    assert "mbatchd started on host" in lsf.run("badmin mbdhist").stdout
    restarted = lsf.run("badmin mbdrestart -f && badmin hrestart")
    assert restarted.stdout == "MBD restart initiated\n"
    assert restarted.stderr.endswith(f"Restart slave batch daemon on <{lsf.host}> ...... done\n")
    refused = lsf.run("badmin perfmon view -json")
    assert refused.returncode == 255 and refused.stderr.startswith("badmin: perfmon is not supported; gadmin metrics ")
