"""Parameters of LSF that queues, application profiles and the cluster set alike."""

from __future__ import annotations

import pytest
from config_texts import BASE, Checked, check

from gsched.config.files.queue_parameters import shown_parameters
from gsched.model.queues.preempt_sparing import SparedTime, Sparing

LINES = (
    "SUCCESS_EXIT_VALUES = 3  20-22\nLOCAL_MAX_PREEXEC_RETRY = 4\nMAX_PREEXEC_RETRY = 9\n"
    "LOCAL_MAX_PREEXEC_RETRY_ACTION = exit\nNO_PREEMPT_RUN_TIME = 1:30\nNO_PREEMPT_FINISH_TIME = 20%\n"
    "MAX_JOB_PREEMPT = 3\n"
    "NO_PREEMPT_INTERVAL = 5\n"
)
SPARING = Sparing(SparedTime(5400.0), SparedTime(20.0, is_percent=True), 3, 300)


def queue(lines: str) -> str:
    return f"{BASE['lsb.queues']}Begin Queue\nQUEUE_NAME = q\n{lines}End Queue\n"


def test_a_queue_and_a_profile_set_them_alike() -> None:
    warned = "JOB_WARNING_ACTION = sigurg\nJOB_ACTION_WARNING_TIME = 2\n"
    profile = f"Begin Application\nNAME = a\nESTIMATED_RUNTIME = 5\n{LINES}End Application\n"
    checked = check({"lsb.queues": queue(LINES + warned), "lsb.applications": profile})
    assert (checked.errors, checked.notes) == ([], check().notes)
    assert checked.config is not None
    found, application = checked.config.queues["q"], checked.config.applications["a"]
    for read in (found, application):
        assert (read.success_exit_values, read.max_preexec_retry, read.preexec_exit) == ("3 20-22", 4, True)
        assert read.sparing == SPARING
    assert (found.warning_signal, found.warning_s, application.estimate_s) == ("URG", 120, 300)
    assert dict(shown_parameters(found)) == {
        "SUCCESS_EXIT_VALUES": "3 20-22",
        "LOCAL_MAX_PREEXEC_RETRY": "4",
        "LOCAL_MAX_PREEXEC_RETRY_ACTION": "EXIT",
        "JOB_WARNING_ACTION": "URG",
        "JOB_ACTION_WARNING_TIME": "2 min",
        "NO_PREEMPT_RUN_TIME": "90 min",
        "NO_PREEMPT_FINISH_TIME": "20%",
        "MAX_JOB_PREEMPT": "3",
        "NO_PREEMPT_INTERVAL": "5 min",
    }


def test_the_cluster_sets_whom_nobody_preempts() -> None:
    lines = "NO_PREEMPT_RUN_TIME = 90\nNO_PREEMPT_FINISH_TIME = 20 %\nNO_PREEMPT_INTERVAL = 5\n"
    lines += "MAX_JOB_PREEMPT = 3\nJOB_INCLUDE_POSTPROC = Y\n"
    checked = check({"lsb.params": f"Begin Parameters\n{lines}End Parameters\n"})
    assert checked.errors == []
    assert checked.config is not None and checked.config.params.sparing == SPARING
    assert any("JOB_INCLUDE_POSTPROC has no effect: a job has ended when" in note for note in checked.notes)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("SUCCESS_EXIT_VALUES = 3 256", "SUCCESS_EXIT_VALUES: '256' is neither an exit code from 1 to 255 nor a range"),
        ("SUCCESS_EXIT_VALUES = 9-3", "SUCCESS_EXIT_VALUES: '9-3' is neither an exit code from 1 to 255 nor a range"),
        ("SUCCESS_EXIT_VALUES = 0", "SUCCESS_EXIT_VALUES: '0' is neither an exit code from 1 to 255 nor a range"),
        ("LOCAL_MAX_PREEXEC_RETRY_ACTION = kill", "LOCAL_MAX_PREEXEC_RETRY_ACTION: 'kill' is neither SUSPEND nor EXIT"),
        ("NO_PREEMPT_RUN_TIME = 101%", "NO_PREEMPT_RUN_TIME: '101' is not"),
        ("NO_PREEMPT_FINISH_TIME = soon", "NO_PREEMPT_FINISH_TIME: "),
        ("JOB_WARNING_ACTION = CHKPNT", "JOB_WARNING_ACTION: 'CHKPNT' is not supported yet: CHKPNT_SIGNAL asks jobs"),
        ("JOB_WARNING_ACTION = touch a", "JOB_WARNING_ACTION: 'touch a' is not the name of a signal that a job can"),
        ("JOB_WARNING_ACTION = KILL", "JOB_WARNING_ACTION: 'KILL' is not the name of a signal that a job can catch"),
        ("JOB_ACTION_WARNING_TIME = 0", "JOB_ACTION_WARNING_TIME: '0': a run limit is at least one minute"),
    ],
)
def test_what_is_wrong_is_named(line: str, error: str) -> None:
    (told,) = check({"lsb.queues": queue(f"{line}\n")}).errors
    assert f"lsb.queues:7: {error}" in told, told


def test_half_a_warning_is_noted() -> None:
    notes = check({"lsb.queues": queue("JOB_WARNING_ACTION = URG\n")}).notes
    assert any("JOB_WARNING_ACTION has no effect: JOB_WARNING_ACTION and JOB_ACTION" in each for each in notes)


def test_post_execution_commands_always_belong_to_the_job() -> None:
    text = "Begin Application\nNAME = a\nJOB_INCLUDE_POSTPROC = N\nEnd Application\n"
    (error,) = check({"lsb.applications": text}).errors
    assert "JOB_INCLUDE_POSTPROC is not supported yet: a post-execution command is part of the job" in error


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("[mem=100,2G] [lic=5]", {"mem": (100.0, 2048.0), "lic": (0.0, 5.0)}),
        ("mem = 2000", {"mem": (0.0, 2000.0)}),
    ],
)
def test_what_rusage_may_ask_for(text: str, limits: dict[str, tuple[float, float]]) -> None:
    checked = check({"lsb.queues": queue(f"RESRSV_LIMIT = {text}\n")})
    assert checked.errors == []
    assert checked.config is not None and checked.config.queues["q"].reserve_limits == limits


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[mem]", "'[mem]' is not of the form [RESOURCE=[LEAST,]MOST]"),
        ("[ut=1]", "'ut' is no resource that jobs can reserve"),
        ("[nothing=1]", "'nothing' is no resource that jobs can reserve"),
        ("[mem=2,1]", "mem: 2 is more than 1"),
        ("[mem=2] [mem=1]", "mem is limited twice"),
        ("[lic=x]", "'x' is not a number"),
    ],
)
def test_what_is_no_limit_of_rusage_is_named(text: str, error: str) -> None:
    (told,) = check({"lsb.queues": queue(f"RESRSV_LIMIT = {text}\n")}).errors
    assert f"lsb.queues:7: RESRSV_LIMIT: {error}" in told


def test_for_what_a_job_is_ended_instead_of_suspended() -> None:
    checked = check({"lsb.queues": queue("TERMINATE_WHEN = load Window\n")})
    assert checked.errors == []
    assert checked.config is not None and checked.config.queues["q"].terminate_when == ("LOAD", "WINDOW")
    checked = check({"lsb.queues": queue("TERMINATE_WHEN = PREEMPT LOAD\n")})
    assert checked.config is not None and checked.config.queues["q"].terminate_when == ("PREEMPT", "LOAD")
    (error,) = check({"lsb.queues": queue("TERMINATE_WHEN = LOADS\n")}).errors
    assert "TERMINATE_WHEN: 'LOADS' is none of LOAD, WINDOW and PREEMPT" in error


@pytest.mark.parametrize(
    "name",
    ["LSB_BJOBS_FORMAT", "LSB_BHOSTS_FORMAT", "LSB_BQUEUES_FORMAT", "LSB_BUSERS_FORMAT", "LSF_LSLOAD_FORMAT"],
)
def test_formats_of_commands_may_stand_in_lsf_conf(name: str) -> None:
    assert check({"lsf.conf": f'{BASE["lsf.conf"]}{name}="name:8"\n'}).errors == []


def test_folders_of_jobs_are_paths_with_patterns_and_are_never_removed() -> None:
    lines = "DEFAULT_JOB_CWD = /scratch/%U/%J\nDEFAULT_JOB_OUTDIR = out\nJOB_CWD_TTL = 2147483647\n"
    checked = check({"lsb.params": f"Begin Parameters\n{lines}End Parameters\n"})
    assert checked.errors == []
    assert checked.config is not None
    assert (checked.config.params.default_job_cwd, checked.config.params.default_job_outdir) == (
        "/scratch/%U/%J",
        "out",
    )
    assert any("JOB_CWD_TTL has no effect: folders of jobs are never removed" in note for note in checked.notes)
    wrong = "Begin Application\nNAME = a\nJOB_CWD = $HOME/run\nOUTDIR = out\nJOB_CWD_TTL = 24\nEnd Application\n"
    first, second = check({"lsb.applications": wrong}).errors
    assert "lsb.applications:3: JOB_CWD: '$HOME/run': variables are not replaced; %H is the home directory" in first
    assert "lsb.applications:5: JOB_CWD_TTL is not supported yet: folders of jobs are never removed" in second


def test_how_long_commands_around_jobs_may_take() -> None:
    lines = "JOB_PREPROC_TIMEOUT = 5\nJOB_POSTPROC_TIMEOUT = 0\n"
    profile = "Begin Application\nNAME = a\nJOB_POSTPROC_TIMEOUT = 3\nEnd Application\n"
    checked = check({"lsb.params": f"Begin Parameters\n{lines}End Parameters\n", "lsb.applications": profile})
    (error,) = checked.errors
    assert "lsb.params:3: JOB_POSTPROC_TIMEOUT: '0' is not a whole number from 1 to 1000000" in error
    checked = check(
        {"lsb.params": "Begin Parameters\nJOB_PREPROC_TIMEOUT = 5\nEnd Parameters\n", "lsb.applications": profile}
    )
    assert checked.config is not None
    params, found = checked.config.params, checked.config.applications["a"]
    assert (params.pre_timeout_s, params.post_timeout_s) == (300, None)
    assert (found.pre_timeout_s, found.post_timeout_s) == (None, 180)


def test_what_runs_on_each_host_keeps_its_quotes() -> None:
    lines = "HOST_PRE_EXEC = 'mount' /scratch\nHOST_POST_EXEC = umount /scratch\n"
    checked = check(
        {"lsb.queues": queue(lines), "lsb.applications": f"Begin Application\nNAME = a\n{lines}End Application\n"}
    )
    assert checked.errors == []
    assert checked.config is not None
    for read in (checked.config.queues["q"], checked.config.applications["a"]):
        assert (read.host_pre_exec, read.host_post_exec) == ("'mount' /scratch", "umount /scratch")


def params(lines: str, conf: str = "") -> Checked:
    return check({"lsb.params": f"Begin Parameters\n{lines}End Parameters\n", "lsf.conf": BASE["lsf.conf"] + conf})


def test_names_of_the_cluster_that_say_who_may_and_for_how_long() -> None:
    checked = params(
        "MAX_PENDING_JOBS = 7\nMAX_JOB_REQUEUE = 3\nENABLE_USER_RESUME = Y\nJOB_POSITION_CONTROL_BY_ADMIN = Y\n"
        "CLEAN_PERIOD = 600\nCLEAN_PERIOD_DONE = 60\nDEFAULT_JOBGROUP = /%p/%u\n"
    )
    assert checked.errors == [] and checked.config is not None
    found = checked.config.params
    assert (found.max_pending, found.max_requeue, found.users_resume, found.only_admins_move) == (7, 3, True, True)
    assert (found.clean_period_s, found.clean_period_done_s, found.default_job_group) == (600, 60, "/%p/%u")


def test_the_newer_name_and_the_nearer_file_count() -> None:
    checked = params(
        "MAX_PENDING_JOBS = 7\nMAX_PEND_JOBS = 9\nDEFAULT_JOBGROUP = /a\nCLEAN_PERIOD_DONE = 3600\n",
        "LSB_DEFAULT_JOBGROUP=/b\n",
    )
    assert checked.config is not None
    found = checked.config.params
    assert (found.max_pending, found.default_job_group, found.clean_period_done_s) == (9, "/b", None)
    assert any("CLEAN_PERIOD_DONE has no effect: it is not shorter than CLEAN_PERIOD" in note for note in checked.notes)


@pytest.mark.parametrize("text", ["a", "/a/../b", "/%x", "/a/ b"])
def test_no_path_of_a_group(text: str) -> None:
    (error,) = params(f"DEFAULT_JOBGROUP = {text}\n").errors
    assert "is not the path of a job group: /GROUP/..., with %p and %u in it" in error


def test_what_is_so_anyway_is_noted_and_the_contrary_refused() -> None:
    noted = check({"lsb.queues": queue("IGNORE_DEADLINE = Y\n")})
    assert noted.errors == [] and any("IGNORE_DEADLINE has no effect" in note for note in noted.notes)
    (error,) = check({"lsb.queues": queue("IGNORE_DEADLINE = N\n")}).errors
    assert "IGNORE_DEADLINE" in error and "a job starts while its queue is open" in error
    conf = "LSF_INTERACTIVE_STDERR=Y\nLSB_SUBK_SHOW_JOBID=Y\n"
    assert params("", conf).errors == []


def test_a_profile_has_a_niceness_of_its_own() -> None:
    checked = check({"lsb.applications": "Begin Application\nNAME = a\nNICE = 7\nEnd Application\n"})
    assert checked.config is not None and checked.config.applications["a"].nice == 7


def test_how_much_daemons_log() -> None:
    checked = params("", "LSF_LOG_MASK=log_warning\nLSB_LOG_MASK_SBD=LOG_DEBUG1\n")
    assert checked.errors == [] and checked.config is not None
    found = checked.config.log_levels
    assert [found.of(kind) for kind in ("master", "agent", "door")] == ["LOG_WARNING", "LOG_DEBUG1", "LOG_WARNING"]
    (error,) = params("", "LSB_LOG_MASK_MBD=LOUD\n").errors
    assert "LSB_LOG_MASK_MBD: 'LOUD' is no level of a log (LOG_EMERG, " in error
    assert check().config is not None and check().config.log_levels.of("agent") == "LOG_INFO"  # type: ignore[union-attr]


@pytest.mark.parametrize(("word", "kept"), [("Y", "y"), ("n", "n"), ("AUTO", "auto")])
def test_resizable_jobs_of_cluster_queue_and_profile(word: str, kept: str) -> None:
    line = f"RESIZABLE_JOBS = {word}\n"
    profile = f"Begin Application\nNAME = a\n{line}End Application\n"
    params = f"Begin Parameters\n{line}End Parameters\n"
    checked = check({"lsb.queues": queue(line), "lsb.applications": profile, "lsb.params": params})
    assert checked.errors == [] and checked.config is not None
    config = checked.config
    assert (config.queues["q"].resizable, config.applications["a"].resizable) == (kept, kept)
    assert config.params.resizable == kept


def test_resizable_jobs_takes_no_other_word() -> None:
    (error,) = check({"lsb.queues": queue("RESIZABLE_JOBS = maybe\n")}).errors
    assert "RESIZABLE_JOBS: 'maybe' is neither Y, N nor auto" in error
