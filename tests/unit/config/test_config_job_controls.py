"""JOB_CONTROLS of queues, and what application profiles have for it."""

from __future__ import annotations

import pytest
from config_texts import BASE, check

from gsched.config.files.queue_parameters import shown_parameters
from gsched.model.queues.job_controls import JobControls, signal_of


def queue(lines: str) -> str:
    return f"{BASE['lsb.queues']}Begin Queue\nQUEUE_NAME = q\n{lines}End Queue\n"


@pytest.mark.parametrize(
    ("text", "controls"),
    [
        ("SUSPEND[SIGTSTP]", JobControls(suspend="SIGTSTP")),
        ("terminate [ SIGUSR1 ]RESUME[CONT]", JobControls(terminate="SIGUSR1", resume="CONT")),
        (
            "SUSPEND[[ -e /stop ] && kill -TSTP $LSB_JOBPIDS] TERMINATE[bkill -s 'TERM' $LSB_JOBID; exit 0]",
            JobControls(
                suspend="[ -e /stop ] && kill -TSTP $LSB_JOBPIDS", terminate="bkill -s 'TERM' $LSB_JOBID; exit 0"
            ),
        ),
    ],
)
def test_signals_and_commands(text: str, controls: JobControls) -> None:
    checked = check({"lsb.queues": queue(f"JOB_CONTROLS = {text}\n")})
    assert checked.errors == []
    assert checked.config is not None
    found = checked.config.queues["q"]
    assert found.controls == controls
    assert dict(shown_parameters(found))["JOB_CONTROLS"] == controls.text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SUSPEND[CHKPNT]", "SUSPEND: CHKPNT is not supported yet: CHKPNT_SIGNAL asks jobs to save their state"),
        ("SUSPEND[SIGFOO]", "SUSPEND: there is no signal SIGFOO"),
        ("SUSPEND[]", "SUSPEND: the action is empty"),
        ("SUSPEND[SIGTSTP] SUSPEND[SIGSTOP]", "SUSPEND is given twice"),
        ("STOP[SIGTSTP]", "'STOP' is none of SUSPEND, RESUME, TERMINATE with an action in brackets behind it"),
        ("SUSPEND[kill -STOP", "the bracket behind SUSPEND is not closed"),
        ("SUSPEND[SIGTSTP] and", "'and' is not of the form NAME[ACTION]"),
        (f"SUSPEND[{'x' * 4095}]", "SUSPEND: the command has 4095 characters, 4094 are the most"),
    ],
)
def test_what_is_wrong_is_named(text: str, error: str) -> None:
    (told,) = check({"lsb.queues": queue(f"JOB_CONTROLS = {text}\n")}).errors
    assert f"lsb.queues:7: JOB_CONTROLS: {error}" in told, told


def test_a_profile_comes_before_the_queue() -> None:
    lines = "SUSPEND_CONTROL = SIGTSTP\nTERMINATE_CONTROL = echo 'gone'\n"
    checked = check(
        {
            "lsb.applications": f"Begin Application\nNAME = a\n{lines}End Application\n",
            "lsb.params": "Begin Parameters\nJOB_CONTROLS_FAIL_DEFAULT_ACTION = Y\nEnd Parameters\n",
        }
    )
    assert checked.errors == []
    assert checked.config is not None and checked.config.params.default_after_failed_control
    profile = checked.config.applications["a"].controls
    assert profile == JobControls(suspend="SIGTSTP", terminate="echo 'gone'")
    both = profile.before(JobControls(suspend="true", resume="SIGCONT"))
    assert both == JobControls(suspend="SIGTSTP", resume="SIGCONT", terminate="echo 'gone'")


def test_commands_run_on_the_first_host_alone() -> None:
    controls = JobControls(suspend="TSTP", resume="kill -CONT $LSB_JOBPIDS", defaults_on_failure=True)
    assert controls.of_part == JobControls(suspend="TSTP")
    assert JobControls(suspend="/site/stop", resume="SIGUSR1").of_part == JobControls()
    assert JobControls(resume="SIGUSR1").of_part == JobControls()
    assert JobControls(suspend="TSTP", resume="CONT").of_part == JobControls(suspend="TSTP", resume="CONT")
    assert (signal_of("TSTP"), signal_of("tstp"), signal_of("")) == (20, 0, 0)
