"""lsb.applications: profiles are read like queues, and refused by name where they cannot be honoured."""

from __future__ import annotations

import pytest
from config_texts import check

from gsched.config.parameters.job_surroundings import env_vars, shown_env_vars
from gsched.model.queues.application import Application


def profile(*lines: str) -> Application:
    checked = check({"lsb.applications": "\n".join(["Begin Application", "NAME = a", *lines, "End Application", ""])})
    assert checked.errors == []
    return checked.config.applications["a"]


def test_a_profile_says_what_jobs_have_in_common():
    found = profile(
        "TASKLIMIT = 2 4 8",
        "RUNLIMIT = 1:30",
        "RUNTIME = 10",
        "MEMLIMIT = 4096",
        "RES_REQ = rusage[mem=100]",
        "RERUNNABLE = Y",
        "PRE_EXEC = /bin/check",
        "POST_EXEC = /bin/clean $LSB_JOBID",
        'JOB_STARTER = env A=1 "%USRCMD"',
        "MAX_JOB_REQUEUE = 3",
    )
    assert (found.task_limit, found.run_limit_s, found.estimate_s) == ((2, 4, 8), 5400, 600)
    assert (found.limits, found.res_req, found.rerunnable) == ({"MEMLIMIT": 4096.0}, "rusage[mem=100]", True)
    assert (found.pre_exec, found.post_exec) == ("/bin/check", "/bin/clean $LSB_JOBID")
    assert (found.job_starter, found.max_requeue) == ('env A=1 "%USRCMD"', 3)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "Begin Application\nRUNLIMIT = 5\nEnd Application\n",
            "lsb.applications:1: the application profile has no NAME",
        ),
        (
            "Begin Application\nNAME = a\nHOSTLIMIT_PER_JOB = 4\nEnd Application\n",
            "lsb.applications:3: HOSTLIMIT_PER_JOB is not supported yet: span[ptile=SLOTS] or -nnodes say how many "
            "hosts a job has",
        ),
        (
            "Begin Application\nNAME = a\nEnd Application\nBegin Application\nNAME = a\nEnd Application\n",
            "lsb.applications:4: application profile a is defined twice (first at lsb.applications:1)",
        ),
        (
            "Begin Queue\nEnd Queue\n",
            "lsb.applications:1: unknown section Queue in lsb.applications; it holds Application",
        ),
    ],
)
def test_what_is_wrong_is_named(text, error):
    assert error in check({"lsb.applications": text}).errors


def test_the_default_profile_must_exist():
    checked = check({"lsb.params": "Begin Parameters\nDEFAULT_APPLICATION = nosuch\nEnd Parameters\n"})
    assert checked.errors == ["lsb.params:2: DEFAULT_APPLICATION: profile nosuch is not defined in lsb.applications"]


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A='x'", {"A": "x"}),
        ("A = 'one two', B='' ,A='$HOME, as it is'", {"A": "$HOME, as it is", "B": ""}),
        ("\"A='x',B='y'\"", {"A": "x", "B": "y"}),
    ],
)
def test_variables_of_a_profile(text: str, variables: dict[str, str]) -> None:
    checked = check({"lsb.applications": f"Begin Application\nNAME = a\nENV_VARS = {text}\nEnd Application\n"})
    assert checked.errors == []
    assert checked.config is not None and checked.config.applications["a"].env_vars == variables
    assert env_vars(shown_env_vars(variables)) == variables


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A=x", "'A=x' does not begin with NAME='value' and a comma or nothing behind it"),
        ("A='x' B='y'", "'A='x' B='y'' does not begin with NAME='value'"),
        ("A='x',", "nothing stands behind the comma after A"),
        ("2A='x'", "'2A='x'' does not begin with"),
        ("LSB_JOBID='7'", "LSB_JOBID is set by gsched itself"),
        ("CUDA_VISIBLE_DEVICES='0'", "CUDA_VISIBLE_DEVICES is set by gsched itself"),
    ],
)
def test_what_is_no_variable_is_named(text: str, error: str) -> None:
    (told,) = check({"lsb.applications": f"Begin Application\nNAME = a\nENV_VARS = {text}\nEnd Application\n"}).errors
    assert f"lsb.applications:3: ENV_VARS: {error}" in told, told
