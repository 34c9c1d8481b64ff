"""GPU_IDLE: what each setting means, how gqueues -l shows it, and what is wrong with a bad one."""

from __future__ import annotations

import pytest
from config_texts import BASE, check

from gsched.config.files.queue_parameters import shown_parameters
from gsched.core.gpu_events.idle_gpus import is_exempt
from gsched.model.gpus.gpu_idle import IdleLimits
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.gpu_idle_policy import ExemptKind, GpuIdlePolicy, IdleAction

FILES = {
    "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (ann bob)\nEnd UserGroup\n",
    "lsb.applications": "Begin Application\nNAME = jupyter\nEnd Application\n",
}


def checked(text: str):
    queue = f"Begin Queue\nQUEUE_NAME = normal\nGPU_IDLE = {text}\nEnd Queue\n"
    return check({**FILES, "lsb.queues": queue})


def policy(text: str) -> GpuIdlePolicy:
    found = checked(text)
    assert found.errors == [] and found.config is not None
    read = found.config.queues["normal"].gpu_idle
    assert read is not None
    shown = dict(shown_parameters(found.config.queues["normal"]))["GPU_IDLE"]
    assert shown == read.text
    return read


def test_all_settings() -> None:
    read = policy(
        "window=45m util<10% memtraffic<2.5 grace=90s power<20% action=requeue ok=yes "
        "exempt=user:staff,user:eve,project:prod,app:jupyter,interactive"
    )
    assert read == GpuIdlePolicy(
        window_s=2700.0,
        limits=IdleLimits(util=10.0, traffic=2.5, power=20.0),
        grace_s=90.0,
        action=IdleAction.REQUEUE,
        exempt=(
            (ExemptKind.USER, "staff"),
            (ExemptKind.USER, "eve"),
            (ExemptKind.PROJECT, "prod"),
            (ExemptKind.APPLICATION, "jupyter"),
            (ExemptKind.INTERACTIVE, ""),
        ),
        exempt_users=frozenset({"ann", "bob", "eve"}),
        may_ask=True,
    )
    assert read.text == (
        "window=45m util<10% memtraffic<2.5% power<20% grace=90s action=requeue "
        "exempt=user:staff,user:eve,project:prod,app:jupyter,interactive ok=yes"
    )
    assert policy(read.text) == read


def test_what_is_left_out_has_its_default() -> None:
    assert policy("action=notify") == GpuIdlePolicy()
    text = "window=30m util<5% memtraffic<1% power<30% grace=10m action=notify ok=no"
    assert GpuIdlePolicy().text == text and policy(text) == GpuIdlePolicy()
    found = check({"lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nEnd Queue\n"})
    assert found.config is not None and found.config.queues["normal"].gpu_idle is None


@pytest.mark.parametrize(
    ("text", "window_s"), [("30", 1800), ("30s", 30), ("1.5h", 5400), ("2d", 172_800), ("0.5", 30), ("30d", 2_592_000)]
)
def test_times(text: str, window_s: float) -> None:
    assert policy(f"window={text}").window_s == window_s
    assert policy(f"grace={text} action=kill").grace_s == window_s


def test_a_grace_of_nothing_and_no_fakes() -> None:
    assert policy("grace=0 action=kill").grace_s == 0.0
    assert policy("power<0%").limits.power == 0.0


def test_one_look_does_not_decide() -> None:
    (error,) = checked("window=29s").errors
    few = "has fewer than 3 samples, which are 10 s apart (GSCHED_GPU_USE_INTERVAL)"
    assert error == f"lsb.queues:3: GPU_IDLE: a window of 29 s {few}"


_EXEMPT = "user:NAME, project:NAME, app:NAME and interactive are wanted, with commas between"
_TIME = "a time such as 90s, 30m or 2h is wanted (30 is 30 minutes), from"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("windwo=30m", "'windwo=30m' is not of the form window=TIME util<N%"),
        ("windwo=30m", "; did you mean window?"),
        ("util=5%", "'util=5%' is not of the form"),
        ("window<5", "'window<5' is not of the form"),
        ("kill", "'kill' is not of the form"),
        ("window=30m window=1h", "window is given twice"),
        ("window=0", f"'window=0': {_TIME} 1s to 30d"),
        ("window=31d", f"'window=31d': {_TIME} 1s to 30d"),
        ("window=-5", f"'window=-5': {_TIME} 1s to 30d"),
        ("window=30min", f"'window=30min': {_TIME} 1s to 30d"),
        ("grace=soon", f"'grace=soon': {_TIME} 0s to 30d"),
        ("util<0%", "'util<0%': a percentage is wanted, more than 0, at most 100"),
        ("util<101", "'util<101': a percentage is wanted, more than 0, at most 100"),
        ("util<x", "'util<x': 'x' is not a number"),
        ("util<", "'util<': '' is not a number"),
        ("power<-1", "'power<-1': a percentage is wanted, from 0 to 100"),
        ("action=end", "'action=end': an action is one of notify requeue kill"),
        ("ok=maybe", "'ok=maybe': yes or no is wanted"),
        ("exempt=", f"'exempt=': {_EXEMPT}"),
        ("exempt=ann", f"'exempt=ann': {_EXEMPT}"),
        ("exempt=user:", f"'exempt=user:': {_EXEMPT}"),
        ("exempt=user:ann,", f"'exempt=user:ann,': {_EXEMPT}"),
        ("exempt=interactive:x", f"'exempt=interactive:x': {_EXEMPT}"),
        ("exempt=user:all", "'exempt=user:all': 'all': all cannot stand here; name users or groups"),
        ("exempt=app:jupiter", "there is no application profile jupiter in lsb.applications; did you mean jupyter?"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(text: str, complaint: str) -> None:
    (error,) = checked(text).errors
    assert error.startswith("lsb.queues:3: GPU_IDLE: ") and complaint in error


def test_a_named_profile_need_not_stand_before_the_queue() -> None:
    """Files are read in their own order, whatever refers to what."""
    assert (BASE.get("lsb.applications") or "") == "" and policy("exempt=app:jupyter").exempt[0][1] == "jupyter"


def test_a_job_without_an_application_is_not_that_of_any() -> None:
    spec = JobSpec(command="c", user="tom", queue="normal")
    assert not is_exempt(spec, policy("exempt=app:jupyter,user:staff,project:prod,interactive"))
