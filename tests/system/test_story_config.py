"""The walk-through: a cluster that is taught its GPUs by editing its files, while jobs run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

ONE_GPU = "rusage[ngpus_excl_p=1]"
SEED_RESOURCES = """
Begin Resource

RESOURCENAME  TYPE     INTERVAL  INCREASING  CONSUMABLE  DESCRIPTION # Keywords
ngpus         Numeric  60        N           N           (Number of GPUs)
ngpus_shared     Numeric  60        N           N           (Number of GPUs in Shared Mode)
ngpus_excl_t  Numeric  60        N           Y           (Number of GPUs in Exclusive thread Mode)
ngpuprohibited Numeric  60        N           N           (Number of GPUs in Prohibited Mode)
ngpus_excl_p  Numeric  60        N           Y           (Number of GPUs in Exclusive process Mode)

End Resource
"""
SEED_MAP = """
Begin ResourceMap
RESOURCENAME            LOCATION
ngpus                   ([default])
ngpus_shared               ([default])
ngpus_excl_t            ([default])
ngpuprohibited           ([default])
ngpus_excl_p            ([default])
End ResourceMap
"""
CHECKING = "\nChecking configuration files ...\n\n"


def names(cluster: Cluster) -> str:
    """The names in the file's own form: `file:line: what`, without the folder."""
    return f"{cluster.conf}/"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@contextmanager
def changed(cluster: Cluster, name: str, old: str, new: str) -> Iterator[None]:
    """A file with `old` replaced, applied; put back and applied again afterwards."""
    path = cluster.conf / name
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    cluster.run("gadmin", "reconfig")
    try:
        yield
    finally:
        path.write_text(before)
        cluster.run("gadmin", "reconfig")


def refusal(cluster: Cluster, *words: str) -> str:
    """What gsub answers to a submission that must be refused: one line, exit code 255, no job."""
    done = cluster.run("gsub", *words, "true", check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.endswith(". Job not submitted.\n")
    assert done.stderr.count("\n") == 1
    return done.stderr.removesuffix(". Job not submitted.\n")


def column(cluster: Cluster, name: str) -> tuple[str, str] | None:
    """Total and Reserved of a column of `ghosts -l`, None if there is no such column."""
    lines = cluster.run("ghosts", "-l").stdout.splitlines()
    for number, line in enumerate(lines):
        found = re.search(rf"(?<!\S){name}(?!\S)", line)
        if found and lines[number + 1].startswith(" Total"):
            total, reserved = (lines[number + below][: found.end()].split()[-1] for below in (1, 2))
            return total, reserved
    return None


@pytest.fixture(scope="module")
def bare(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process", "--bare")


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """A cluster with four exclusive GPUs, given back as it was."""
    yield shared
    shared.end_jobs()
    shared.run("gsched", "sim-gpu", "0-3", "compute_mode=exclusive_process")
    shared.until(lambda: column(shared, "ngpus_excl_p") == ("4.0", "0.0"), "the GPUs are not exclusive again")


def test_a_check_of_the_files_notes_users_that_there_are_not(bare: Cluster) -> None:
    append(bare.conf / "lsb.queues", "Begin Queue\nQUEUE_NAME = extra\nUSERS = nobody-of-that-name\nEnd Queue\n")
    checked = bare.run("gadmin", "ckconfig")
    assert "note: USERS: there is no user or user group nobody-of-that-name" in checked.stderr
    assert checked.stderr.endswith("No errors found.\n\n")


@pytest.mark.smoke
def test_a_bare_cluster_is_taught_its_gpus_while_a_job_runs(bare: Cluster) -> None:
    daemons = {name: bare.pid(name) for name in ("master", "door", f"agent-{bare.host}")}
    assert column(bare, "ngpus") is None
    said = refusal(bare, "-R", ONE_GPU)
    assert said == f"Bad resource name: ngpus_excl_p at position 8 of <{ONE_GPU}>"
    running = bare.submit("sleep", "600")
    bare.starts(running)

    append(bare.conf / "lsf.shared", SEED_RESOURCES)
    append(bare.conf / "lsf.cluster.private", SEED_MAP)
    checked = bare.run("gadmin", "ckconfig")
    assert checked.stderr.startswith(CHECKING)
    assert checked.stderr.endswith("No errors found.\n\n")
    assert column(bare, "ngpus") is None  # only looked at
    applied = bare.run("gadmin", "reconfig")
    assert applied.stderr.startswith(CHECKING)
    assert applied.stderr.endswith("No errors found.\n\n")
    assert applied.stdout == "Reconfiguration initiated\n"

    bare.until(lambda: column(bare, "ngpus_excl_p") == ("4.0", "0.0"), "no GPUs")
    assert column(bare, "ngpus") == ("4.0", "0.0")
    assert [view.state for view in bare.wait(bare.submit("-R", "select[ngpus>0] " + ONE_GPU, "true"))] == ["DONE"]
    assert bare.job(running).state == "RUN"
    assert {name: bare.pid(name) for name in daemons} == daemons


def test_the_gpu_stanzas_pasted_below_those_of_gsched_up(cluster: Cluster) -> None:
    """What says the same twice is noted, and a reconfig notes nothing that it has noted before."""
    silent = CHECKING + "No errors found.\n\n"
    assert cluster.run("gadmin", "reconfig").stderr == silent
    with cluster.files_as_they_are():
        append(cluster.conf / "lsf.shared", SEED_RESOURCES)
        append(cluster.conf / "lsf.cluster.private", SEED_MAP)
        said = cluster.run("gadmin", "reconfig").stderr
        assert said.count("is defined again") == said.count("is mapped again") == 5
        assert "CONSUMABLE" not in said and said.endswith("No errors found.\n\n")
        assert cluster.run("gadmin", "reconfig").stderr == silent
        assert cluster.run("gadmin", "ckconfig", "-v").stderr.count("CONSUMABLE") == 2
        assert cluster.wait(cluster.submit("-R", ONE_GPU, "true"))[0].state == "DONE"


@pytest.mark.smoke
def test_every_problem_is_named_at_once_and_nothing_changes(cluster: Cluster) -> None:
    files = {path: path.read_text() for path in cluster.conf.iterdir() if path.is_file()}
    shared, params, queues = (cluster.conf / name for name in ("lsf.shared", "lsb.params", "lsb.queues"))
    places = {path: files[path].count("\n") for path in (shared, params, queues)}
    append(shared, "Begin Resource\nRESOURCENAME TYPE CONSUMEABLE\nfpga Numerc Y\nEnd Resource\n")
    append(params, "Begin Parameters\nGPU_SHARED_JOB = 2\nCLEAN_PERIOD = soon\nEnd Parameters\n")
    append(queues, "Begin Queue\nQUEUE_NAME = normal\nPRIORITY = high\nHOSTS = gpu9\nEnd Queue\n")
    wanted = [
        (shared, 2, "CONSUMEABLE"),
        (params, 2, "GPU_SHARED_JOB"),
        (params, 3, "CLEAN_PERIOD is set twice"),
        (params, 3, "CLEAN_PERIOD: 'soon'"),
        (queues, 1, "normal"),
        (queues, 3, "PRIORITY"),
        (queues, 4, "gpu9"),
    ]
    try:
        for action in ("ckconfig", "reconfig"):
            done = cluster.run("gadmin", action, check=False)
            assert done.returncode == 255
            lines = done.stderr.splitlines()
            for path, below, what in wanted:
                start = f"{path}:{places[path] + below}: "
                found = [line for line in lines if line.startswith(start) and what in line and "note:" not in line]
                assert len(found) == 1, (start, what, done.stderr)
            assert "\nThere are fatal errors: " in done.stderr
            assert "Nothing was changed." in done.stderr
            assert "Reconfiguration initiated" not in done.stdout
        # Nothing of the good part of a bad configuration is in force either.
        assert "fpga" in refusal(cluster, "-R", "select[fpga>0]")
        assert cluster.submit("-q", "normal", "true")
    finally:
        for path, text in files.items():
            path.write_text(text)
    assert cluster.run("gadmin", "reconfig").stdout == "Reconfiguration initiated\n"


def test_what_agents_read_at_their_start_is_told(cluster: Cluster) -> None:
    conf = cluster.conf / "lsf.conf"
    before = conf.read_text()
    try:
        append(conf, "GSCHED_MPS_CONTROL=/opt/mps-control\n")
        said = cluster.run("gadmin", "reconfig").stderr
    finally:
        conf.write_text(before)
    note = "GSCHED_MPS_CONTROL has changed: it takes effect when the agents are started again (gadmin hrestart all)"
    assert note in said and note in cluster.run("gadmin", "reconfig").stderr  # back again
    assert "GSCHED_MPS_CONTROL" not in cluster.run("gadmin", "reconfig").stderr


def test_a_suggestion_stands_beside_an_unknown_name(cluster: Cluster) -> None:
    params = cluster.conf / "lsb.params"
    before = params.read_text()
    params.write_text(before.replace("GPU_SHARED_JOBS", "GPU_SHARED_JOB"))
    try:
        said = cluster.run("gadmin", "ckconfig", check=False).stderr
    finally:
        params.write_text(before)
    assert re.search(
        r"lsb\.params:\d+: unknown parameter GPU_SHARED_JOB in lsb\.params; did you mean GPU_SHARED_JOBS\?", said
    )


def test_a_resource_is_unmapped_and_changed_under_a_running_job(cluster: Cluster) -> None:
    job = cluster.submit("-R", "rusage[ngpus_excl_p=2]", "sleep", "600")
    cluster.starts(job)
    held = cluster.job(job).allocation
    assert column(cluster, "ngpus_excl_p") == ("2.0", "2.0")
    with changed(cluster, "lsf.cluster.private", "ngpus_excl_p            ([default])\n", ""):
        assert column(cluster, "ngpus_excl_p") is None
        assert (cluster.job(job).state, cluster.job(job).allocation) == ("RUN", held)
        # The devices stay the job's: nobody else gets them.
        assert f"{cluster.host}:gpus=" in cluster.run("gjobs", "-l", str(job)).stdout
    assert column(cluster, "ngpus_excl_p") == ("2.0", "2.0")
    old = "ngpus_excl_p    Numeric  60        N           Y"
    with changed(cluster, "lsf.shared", old, old.replace("60", "30")[:-1] + "N"):
        assert column(cluster, "ngpus_excl_p") == ("2.0", "2.0")
        assert cluster.job(job).state == "RUN"
    cluster.run("gkill", str(job))
    cluster.wait(job)
    assert column(cluster, "ngpus_excl_p") == ("4.0", "0.0")


def test_a_waiting_job_follows_what_its_queue_asks_for(cluster: Cluster) -> None:
    holder = cluster.submit("-R", "rusage[ngpus_excl_p=4]", "sleep", "600")
    waiting = cluster.submit("-R", ONE_GPU, "true")
    cluster.why_pending(waiting)

    def combined() -> str:
        return cluster.job(waiting).spec.combined_req

    with changed(cluster, "lsb.queues", "QUEUE_NAME  = normal\n", "QUEUE_NAME  = normal\nRES_REQ = rusage[mem=17]\n"):
        cluster.until(lambda: "mem=17" in combined(), "the waiting job does not follow its queue")
        assert "mem=17" in cluster.run("gjobs", "-l", str(waiting)).stdout
        assert "mem=17" in cluster.run("ghist", "-l", str(waiting)).stdout
        assert "mem=17" not in cluster.job(holder).spec.combined_req
        cluster.kill("master")
        cluster.up()
        cluster.until(lambda: "mem=17" in combined(), "it was forgotten when the master was killed")
    cluster.until(lambda: "mem=17" not in combined(), "the waiting job does not follow its queue back")


def test_a_resource_that_no_host_has_is_refused(cluster: Cluster) -> None:
    with changed(cluster, "lsf.cluster.private", "ngpus_excl_p            ([default])\n", ""):
        said = refusal(cluster, "-R", ONE_GPU)
    assert "ngpus_excl_p" in said
    assert "ResourceMap" in said


def test_a_shared_gpu_takes_as_many_jobs_as_gpu_shared_jobs_says(cluster: Cluster) -> None:
    cluster.run("gsched", "sim-gpu", "0-3", "compute_mode=default")
    cluster.until(lambda: column(cluster, "ngpus_shared") == ("4.0", "0.0"), "the GPUs are not shared")
    all_four = ("-R", "rusage[ngpus_shared=4]", "sleep", "600")
    jobs = [cluster.submit(*all_four)]
    cluster.starts(jobs[0])
    jobs.append(cluster.submit(*all_four))
    cluster.why_pending(jobs[1])
    assert cluster.job(jobs[1]).state == "PEND"
    with changed(cluster, "lsb.params", "GPU_SHARED_JOBS = 1", "GPU_SHARED_JOBS = 2"):
        cluster.until(lambda: cluster.job(jobs[1]).state == "RUN", "the second does not run")
        jobs.append(cluster.submit(*all_four))
        cluster.why_pending(jobs[2])
        assert [cluster.job(job).state for job in jobs] == ["RUN", "RUN", "PEND"]


def test_what_is_not_consumable_is_refused_with_the_line_to_change(cluster: Cluster) -> None:
    shared = cluster.conf / "lsf.shared"
    place = shared.read_text().count("\n") + 3
    append(shared, "Begin Resource\nRESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION\n")
    append(shared, "scratch Numeric 30 N N (free GB)\nEnd Resource\n")
    append(
        cluster.conf / "lsf.cluster.private",
        "Begin ResourceMap\nRESOURCENAME LOCATION\nscratch ([default])\nEnd ResourceMap\n",
    )
    cluster.run("gadmin", "reconfig")
    said = refusal(cluster, "-R", "rusage[scratch=1]")
    assert "scratch is not consumable and cannot be reserved by rusage" in said
    assert f"set CONSUMABLE to Y in {shared}:{place}" in said


def test_what_no_host_can_ever_satisfy_is_answered_with_what_to_do(cluster: Cluster) -> None:
    assert refusal(cluster, "-R", "rusage[ngpus_excl_p=5]") == (
        "No host can ever provide ngpus_excl_p=5: "
        f"{cluster.host} has the most such GPUs, 4; ask for at most ngpus_excl_p=4"
    )
    assert refusal(cluster, "-R", "rusage[ngpus_shared=2]") == (
        "No host can ever provide ngpus_shared=2: no GPU is in Default mode; ask for ngpus_excl_p=2 instead, "
        "or have an administrator set it (nvidia-smi -c 0)"
    )
    assert "ask for ngpus_excl_p=1 instead" in refusal(cluster, "-R", "rusage[ngpus_excl_t=1]")
    cluster.run("gsched", "sim-gpu", "0-3", "compute_mode=prohibited")
    cluster.until(lambda: column(cluster, "ngpuprohibited") == ("4.0", "0.0"), "the GPUs are not prohibited")
    assert refusal(cluster, "-R", "rusage[ngpus_excl_p=1]") == (
        "No host can ever provide ngpus_excl_p=1: every GPU is in Prohibited mode; "
        "have an administrator set another (nvidia-smi -c 3)"
    )


@pytest.mark.nightly
def test_the_configured_compute_mode_is_set_again_when_the_agent_starts(module_cluster: Callable[..., Cluster]) -> None:
    cluster = module_cluster("--sim-gpus", "4:exclusive_process")
    hosts = cluster.conf / "lsb.hosts"
    text = hosts.read_text()
    text = text.replace("HOST_NAME  MXJ  JL/U", "HOST_NAME  MXJ  JL/U  GPU_MODE")
    hosts.write_text(text.replace("default    16  ()", "default    16  ()  exclusive_process"))
    assert "exclusive_process" in hosts.read_text()
    cluster.run("gadmin", "reconfig")
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.run("gsched", "sim-gpu", "0-3", "compute_mode=default")  # as a reboot of the host does
    cluster.up()
    cluster.until(lambda: column(cluster, "ngpus_excl_p") == ("4.0", "0.0"), "the mode is not set again")


@pytest.mark.parametrize(("setting", "seen"), [("hide", ""), ("allow", "unset"), ("auto=1", "one")])
def test_a_job_without_a_gpu_requirement_sees_what_gpu_unrequested_says(
    cluster: Cluster, setting: str, seen: str
) -> None:
    program = ("sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}")
    with changed(cluster, "lsb.params", "GPU_UNREQUESTED = hide", f"GPU_UNREQUESTED = {setting}"):
        job = cluster.submit("-o", "seen.%J", *program)
        assert [view.state for view in cluster.wait(job)] == ["DONE"]
        output = printed(cluster.folder / f"seen.{job}")
    value = re.fullmatch(r"(.*)\n", output)
    assert value is not None, output
    history = re.sub(r"\n {21}", "", cluster.run("ghist", "-l", str(job)).stdout)
    if seen == "one":
        assert value[1] in "0123"
        assert len(value[1]) == 1
        assert f'External Message "{cluster.host}:gpus={value[1]};"' in history
    else:
        assert value[1] == seen
    hint = 'No GPU was requested, so the job sees none; to get one: -R "select[ngpus>0] rusage[ngpus_excl_p=1]"'
    assert (hint in history) == (setting == "hide")
