"""The parameters of lsb.params and lsf.conf that policies read."""

from __future__ import annotations

import pytest
from config_texts import check, with_lines

from gsched.model.config import GpuPlacement, Params
from gsched.model.hosts.exit_rates import ExitKind, ExitRates
from gsched.model.queues.preempt_sparing import Sparing


def params(*lines: str):
    """BASE with these lines in lsb.params, from line 2 on."""
    return check({"lsb.params": "\n".join(["Begin Parameters", *lines, "End Parameters"])})


def test_every_parameter_of_policies():
    checked = params(
        "MAX_JOB_ARRAY_SIZE = 5000",
        "MAX_USER_PRIORITY = 100",
        "JOB_PRIORITY_OVER_TIME = 3 / 20",
        "JOB_DEP_LAST_SUB = 1",
        "KILL_ON_INVALID_DEPENDENCY = N",
        "GPU_REQ = num=1:mode=shared",
        "GPU_REQ_MERGE = Y",
        "RESERVE_CORES_PER_GPU = 4",
        "GPU_PLACEMENT = Scarce",
        "MIN_RUN_BEFORE_PREEMPT = 90",
        "GPU_GROW_INTERVAL = 60",
        "PREEMPT_ACTION = Requeue",
        "MAX_JOB_PREEMPT = 5",
        "NO_PREEMPT_INTERVAL = 2",
        "MAX_PREEXEC_RETRY = 7",
        "LOCAL_MAX_PREEXEC_RETRY_ACTION = Exit",
        "CPU_TIME_FACTOR = 1",
        "RUN_TIME_FACTOR = 2",
        "RUN_JOB_FACTOR = 3.5",
        "COMMITTED_RUN_TIME_FACTOR = 0.5",
        "GPU_RUN_TIME_FACTOR = 4",
        "HIST_HOURS = 0",
        "ENABLE_HIST_RUN_TIME = Y",
        "ENABLE_GPU_HIST_RUN_TIME = Y",
    )
    assert (checked.errors, checked.notes) == ([], [])
    assert checked.config.params == Params(
        root_may_submit=False,
        max_array_size=5000,
        max_user_priority=100,
        priority_over_time=(3, 20),
        dependency_last_only=True,
        end_on_invalid_dependency=False,
        gpu_req="num=1:mode=shared",
        gpu_req_merge=True,
        reserve_cores_per_gpu=4,
        gpu_placement=GpuPlacement.SCARCE,
        min_run_before_preempt_s=90,
        gpu_grow_interval_s=60,
        preempt_requeue=True,
        sparing=Sparing(most=5, interval_s=120),
        max_preexec_retry=7,
        preexec_exit=True,
        factors={
            "cpu_time": 1,
            "run_time": 2,
            "run_job": 3.5,
            "committed_run_time": 0.5,
            "gpu_run_time": 4,
            "hist_hours": 0,
            "hist_run_time": True,
            "gpu_hist_run_time": True,
        },
    )


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("MAX_JOB_ARRAY_SIZE = 0", "MAX_JOB_ARRAY_SIZE: '0' is not a whole number from 1 to 2147483646"),
        ("MAX_USER_PRIORITY = 0", "MAX_USER_PRIORITY: '0' is not a whole number from 1"),
        ("JOB_PRIORITY_OVER_TIME = 3", "JOB_PRIORITY_OVER_TIME: '3' is not of the form INCREMENT/MINUTES"),
        ("JOB_PRIORITY_OVER_TIME = 3/0", "JOB_PRIORITY_OVER_TIME: '3/0' is not of the form INCREMENT/MINUTES"),
        ("JOB_DEP_LAST_SUB = 2", "JOB_DEP_LAST_SUB: '2' is neither Y nor N"),
        ("KILL_ON_INVALID_DEPENDENCY = 1", "KILL_ON_INVALID_DEPENDENCY: '1' is neither Y nor N"),
        ("GPU_REQ = nums=1", "GPU_REQ: Bad GPU requirement: "),
        ("GPU_REQ = num=1:block=yes", "GPU_REQ: 'num=1:block=yes': block=yes"),
        ("GPU_REQ_MERGE = maybe", "GPU_REQ_MERGE: 'maybe' is neither Y nor N"),
        ("RESERVE_CORES_PER_GPU = -1", "RESERVE_CORES_PER_GPU: '-1' is not a whole number from 0 to 4096"),
        ("GPU_PLACEMENT = spread", "GPU_PLACEMENT: 'spread' is neither pack nor scarce"),
        ("MIN_RUN_BEFORE_PREEMPT = soon", "MIN_RUN_BEFORE_PREEMPT: 'soon' is not a number"),
        ("GPU_GROW_INTERVAL = never", "GPU_GROW_INTERVAL: 'never' is not a number"),
        ("PREEMPT_ACTION = kill", "PREEMPT_ACTION: 'kill' is neither suspend nor requeue"),
        ("LOCAL_MAX_PREEXEC_RETRY = 0", "LOCAL_MAX_PREEXEC_RETRY: '0' is not a whole number from 1"),
        ("LOCAL_MAX_PREEXEC_RETRY_ACTION = no", "LOCAL_MAX_PREEXEC_RETRY_ACTION: 'no' is neither SUSPEND nor EXIT"),
        ("MAX_JOB_PREEMPT = 0", "MAX_JOB_PREEMPT: '0' is not a whole number from 1"),
        ("RUN_TIME_FACTOR = -0.7", "RUN_TIME_FACTOR: '-0.7' is not a number from 0 to 1000000"),
        ("HIST_HOURS = x", "HIST_HOURS: 'x' is not a number"),
        ("PREEMPTABLE_RESOURCES = ngpu", "PREEMPTABLE_RESOURCES: ngpu is not defined in lsf.shared"),
        (
            "PREEMPTABLE_RESOURCES = lic",
            "PREEMPTABLE_RESOURCES: lic is not supported yet: a job that is suspended keeps",
        ),
        ("NEW_JOB_SCHED_DELAY = 5", "NEW_JOB_SCHED_DELAY is not supported yet: it is a parameter of queues"),
    ],
)
def test_a_line_that_is_refused(line, error):
    errors = params(line).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.params:2: {error}"), errors[0]


def test_what_preemption_frees_is_said():
    assert params("PREEMPTABLE_RESOURCES = ngpus_physical").notes == [
        "lsb.params:2: note: PREEMPTABLE_RESOURCES: ngpus_physical has no effect: "
        "GPUs are freed only by requeueing a job (PREEMPT_ACTION = requeue)"
    ]
    requeued = params("PREEMPTABLE_RESOURCES = lic", "PREEMPT_ACTION = requeue")
    assert requeued.errors == []
    assert requeued.notes == [
        "lsb.params:2: note: PREEMPTABLE_RESOURCES: lic has no effect: a job that is requeued frees all it held"
    ]


def test_what_lsf_conf_says_of_jobs():
    checked = check(with_lines("lsf.conf", "LSB_MAX_JOB_DISPATCH_PER_SESSION=50", 'LSB_GPU_REQ="num=2:mode=shared"'))
    assert (checked.errors, checked.notes) == ([], [])
    assert checked.config.params.max_dispatch_per_cycle == 50
    assert checked.config.params.gpu_req == "num=2:mode=shared"


def test_lsb_params_counts_before_lsf_conf():
    text = "Begin Parameters\nGPU_REQ = num=1\nEnd Parameters\n"
    checked = check({**with_lines("lsf.conf", "LSB_GPU_REQ=num=2"), "lsb.params": text})
    assert checked.notes == ["lsf.conf:4: note: LSB_GPU_REQ has no effect: GPU_REQ of lsb.params is set"]
    assert checked.config.params.gpu_req == "num=1"


@pytest.mark.parametrize("line", ["LSB_MAX_JOB_DISPATCH_PER_SESSION=0", "LSB_GPU_REQ=num=many"])
def test_a_line_of_lsf_conf_that_is_refused(line):
    assert len(check(with_lines("lsf.conf", line)).errors) == 1


def test_both_generations_of_gpu_requests_are_understood():
    assert check(with_lines("lsf.conf", "LSB_GPU_NEW_SYNTAX=extend")).notes == [
        "lsf.conf:4: note: LSB_GPU_NEW_SYNTAX has no effect: -gpu and the older ngpus_* resources are both understood"
    ]


def test_ages_of_what_is_kept():
    assert (Params().job_history_days, Params().event_history_days) == (0, 0)
    checked = params("JOB_HISTORY_DAYS = 730", "EVENT_HISTORY_DAYS = 90")
    assert checked.errors == []
    found = checked.config.params
    assert (found.job_history_days, found.event_history_days) == (730, 90)
    assert params("EVENT_HISTORY_DAYS = 90").errors == []


def test_the_size_of_what_is_kept():
    assert Params().event_history_mb == 0
    assert params("EVENT_HISTORY_SIZE = 20000").config.params.event_history_mb == 20_000
    (problem,) = params("EVENT_HISTORY_SIZE = much").errors
    assert "EVENT_HISTORY_SIZE" in problem


def test_events_are_not_kept_for_longer_than_their_jobs():
    (problem,) = params("JOB_HISTORY_DAYS = 30", "EVENT_HISTORY_DAYS = 90").errors
    assert problem.endswith("lsb.params:3: EVENT_HISTORY_DAYS = 90 is longer than JOB_HISTORY_DAYS = 30")


def test_exit_rates():
    checked = params(
        "GLOBAL_EXIT_RATE = 10",
        "JOB_EXIT_RATE_DURATION = 2",
        "EXIT_RATE_TYPE = jobexit JOBINIT",
        "ENABLE_EXIT_RATE_PER_SLOT = Y",
    )
    assert (checked.errors, checked.notes) == ([], [])
    kinds = frozenset({ExitKind.ANY, ExitKind.START})
    assert checked.config.params.exit_rates == ExitRates(most=10, within_s=120.0, kinds=kinds, per_slot=True)
    assert params("GLOBAL_EXIT_RATE = 2147483647").config.params.exit_rates == ExitRates(), "LSF's word for no limit"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("GLOBAL_EXIT_RATE = -1", "GLOBAL_EXIT_RATE: '-1' is not a whole number from 0 to 2147483647"),
        ("JOB_EXIT_RATE_DURATION = 0", "JOB_EXIT_RATE_DURATION: '0' is not a whole number from 1 to 10080"),
        ("EXIT_RATE_TYPE = DISK", "EXIT_RATE_TYPE: 'DISK' is none of JOBEXIT, JOBEXIT_NONLSF, JOBINIT, HPCINIT"),
        ("EXIT_RATE_TYPE = JOBEXIT JOBEXIT_NONLSF", "EXIT_RATE_TYPE: JOBEXIT and JOBEXIT_NONLSF exclude each other"),
    ],
)
def test_exit_rates_that_are_none(line: str, error: str):
    (found,) = params(line).errors
    assert found.startswith(f"lsb.params:2: {error}")
