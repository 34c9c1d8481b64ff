"""Slurm's commands against a master: what they ask, print, and exit with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import pending, running

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.cli.registry import SLURM_COMMANDS
from gsched.cli.slurm.facts.node_facts import node_state
from gsched.cli.slurm.job_states import CODES, reason_of, state_of
from gsched.model.jobs.job import AttemptResult
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.view import HostView, QueueView, StartForecast

NewCall = Callable[..., FakeCall]


def test_squeue_lists_what_has_not_ended(master: FakeMaster, call: NewCall) -> None:
    master.views = [
        running(8, spec=spec("train.sh"), allocation=allocation(slots=4)),
        pending(9, pending_reasons=(PendingReason(coded("dependency.not_satisfied")),)),
    ]
    listing = call("squeue", "-o", "%i|%t|%D|%C|%R")
    assert listing.run() == 0
    head, *lines = listing.out.splitlines()
    assert head == "JOBID|ST|NODES|CPUS|NODELIST(REASON)"
    assert lines[0].startswith("9|PD|1|") and lines[0].endswith("|(Dependency)")
    assert lines[1].startswith("8|R|1|4|")


def test_an_element_is_told_by_slurms_index(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(element_id(7, 1), spec=spec("x", indices="1-3", index_shift=1))]
    listing = call("squeue", "-h", "-o", "%i %F %K")
    assert listing.run() == 0 and listing.out == "7_0 7 0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "%"), "squeue: error: --format: '%' is no field"),
        (("-O", "JobID,nope"), "squeue: error: Invalid job format specification: nope"),
        (("-S", "@"), "squeue: error: Invalid sort specification: @"),
        (("-t", "BORED"), "squeue: error: Invalid job state specified: BORED"),
        (("-j", "x"), "squeue: error: Invalid job id x"),
        (("job",), "squeue: error: Unrecognized option: job"),
        (("--yaml",), "squeue: error: --yaml: --json is there"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_1(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], said: str
) -> None:
    listing = call("squeue", *words)
    assert listing.run() == 1
    assert listing.err.startswith(said) and listing.err.count("\n") == 1


def test_a_job_that_nobody_knows(master: FakeMaster, call: NewCall) -> None:
    master.views = []
    listing = call("squeue", "-j", "99")
    assert listing.run() == 1 and listing.err == "squeue: error: Invalid job id specified\n"


@pytest.mark.parametrize(
    ("state", "result", "told", "reason"),
    [
        ("DONE", AttemptResult(exit_code=0), "COMPLETED", "None"),
        ("EXIT", AttemptResult(exit_code=3), "FAILED", "NonZeroExitCode"),
        ("EXIT", AttemptResult(signal=9, term_reason="TERM_RUNLIMIT"), "TIMEOUT", "TimeLimit"),
        ("EXIT", AttemptResult(signal=9, term_reason="TERM_MEMLIMIT"), "OUT_OF_MEMORY", "OutOfMemory"),
        ("EXIT", AttemptResult(signal=9, oom_kills=1), "OUT_OF_MEMORY", "OutOfMemory"),
        ("EXIT", AttemptResult(signal=2, term_reason="TERM_OWNER"), "CANCELLED", "None"),
        ("EXIT", AttemptResult(host_down=True), "NODE_FAIL", "NodeDown"),
        ("EXIT", None, "CANCELLED", "None"),
        ("SSUSP", None, "SUSPENDED", "None"),
        ("UNKWN", None, "RUNNING", "None"),
    ],
)
def test_states(state: str, result: AttemptResult | None, told: str, reason: str) -> None:
    job = running(8, state=state, result=result)
    assert (state_of(job), reason_of(job)) == (told, reason)
    assert told in CODES


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pending.suspended", "JobHeldUser"),
        ("pending.reserved_for", "Priority"),
        ("limit.user_full", "AssocGrpJobsLimit"),
        ("pending.no_slot", "Resources"),
        ("queue.inactivated", "PartitionInactive"),
    ],
)
def test_reasons(code: str, reason: str) -> None:
    assert reason_of(pending(9, pending_reasons=(PendingReason(coded(code)),))) == reason


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"status": "ok"}, "idle"),
        ({"status": "ok", "njobs": 2, "slots_free": 2}, "mixed"),
        ({"status": "closed_Full", "njobs": 4, "slots_free": 0}, "allocated"),
        ({"status": "closed_Adm", "closed_by": "root"}, "drained"),
        ({"status": "closed_Adm", "closed_by": "root", "njobs": 1}, "draining"),
        ({"status": "unavail"}, "down"),
    ],
)
def test_states_of_nodes(fields: dict[str, object], state: str) -> None:
    assert node_state(HostView(name="n1", **fields)) == state  # type: ignore[arg-type]


def test_sinfo_groups_nodes_by_state(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [
        *(HostView(name=f"n{number}", status="ok", max_slots=4) for number in (1, 2, 3)),
        HostView(name="n4", status="closed_Adm", closed_by="root", max_slots=4),
    ]
    master.queue_views = [QueueView(name="normal", priority=30), QueueView(name="short", priority=40, run_limit_s=900)]
    listing = call("sinfo", "-o", "%R %a %l %D %t %N")
    assert listing.run() == 0
    assert listing.out.splitlines() == [
        "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST",
        "normal up infinite 3 idle n[1-3]",
        "normal up infinite 1 drain n4",
        "short up 15:00 3 idle n[1-3]",
        "short up 15:00 1 drain n4",
    ]


def test_help_and_version(call: NewCall) -> None:
    for name in SLURM_COMMANDS:
        told = call(name, "--help")
        assert told.run() == 0 and told.out.startswith(f"{name}: ")
        told = call(name, "--version")
        assert told.run() == 0 and told.out.startswith("gsched ")


def test_sbatch_tells_when_a_job_could_start(master: FakeMaster, call: NewCall) -> None:
    """Slurm 22.05 says it on its error output: Job N to start at TIME using K processors on nodes X in partition P."""
    planned = PlannedStart(at=0.0, hosts=("n1", "n2"))
    master.forecast = StartForecast(planned=planned, job_id=7, queue="normal", slots=8, is_alone=True)
    later = call("sbatch", "--test-only", "--wrap", "hostname", env={"TZ": "UTC"})
    assert (later.run(), later.out) == (0, "")
    first, second = later.err.splitlines()
    assert first == (
        "sbatch: Job 7 to start at 1970-01-01T00:00:00 using 8 processors on nodes n[1-2] in partition normal"
    )
    assert second == "sbatch: other jobs come before it; this is as if it were the only one"
    assert not master.submissions


def test_sbatch_says_that_a_start_is_not_known_or_refused(master: FakeMaster, call: NewCall) -> None:
    reasons = (PendingReason(coded("dependency.not_satisfied")),)
    master.forecast = StartForecast(reasons=reasons, job_id=7, queue="normal", slots=1)
    unknown = call("sbatch", "--test-only", "--wrap", "hostname")
    assert unknown.run() == 0
    first, second = unknown.err.splitlines()
    assert first == "sbatch: Job 7 to start at N/A using 1 processors on nodes (null) in partition normal"
    assert second.startswith("sbatch: ")
    master.refusal = "no host has 99 GPUs."
    refused = call("sbatch", "--test-only", "--wrap", "hostname")
    assert refused.run() == 1
    assert refused.err.startswith("sbatch: error: allocation failure: ") and refused.err.count("\n") == 1


SCRIPT = b"#!/bin/sh\n#SBATCH -J theirs -n 2 --dependency=afterok:7_0\n#SBATCH --gres=gpu:1 -p gpu\nhostname\n"


def test_gsub_reads_a_script_of_slurm(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(element_id(7, 1), spec=spec("x", indices="1-3", index_shift=1))]
    gsub = call("gsub", "-W", "10", "job.sh", "an argument")
    gsub.files["job.sh"] = SCRIPT
    assert gsub.run() == 0, gsub.err
    assert gsub.out == "Job <220> is submitted to queue <gpu>.\n"
    (sent,) = master.submissions
    assert (sent.spec.name, sent.spec.slots, sent.spec.gpu_req) == ("theirs", 2, "num=1:j_exclusive=yes")
    assert (sent.spec.run_limit_s, sent.spec.dependency, sent.spec.front_end) == (600, "done(7[1])", "slurm")
    assert (sent.script, sent.spec.script_words) == (SCRIPT, ("an argument",))
    assert sent.spec.output_file == "slurm-%J.out" and b"SLURM_NTASKS=2" in sent.environment
