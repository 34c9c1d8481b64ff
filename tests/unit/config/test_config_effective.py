"""lsb.params as it counts, and lsf.conf as programs read it: written out, both mean what was read."""

from __future__ import annotations

import msgspec
import pytest
from config_texts import check, with_lines

from gsched.base.errors import ConfigError
from gsched.cli.render.cluster.parameters import render_long
from gsched.config.effective_parameters import effective_parameters
from gsched.config.files.lsf_conf import settings_of
from gsched.model.config import ClusterConfig
from gsched.model.queues.fairshare_factors import factors_of

UNUSUAL = """
DEFAULT_QUEUE = normal
DEFAULT_PROJECT = p1
DEFAULT_JOB_CWD = /scratch/%U/%J
DEFAULT_JOB_OUTDIR = out
MBD_SLEEP_TIME = 4
SBD_SLEEP_TIME = 1.5
CPU_PEAK_SAMPLE_DURATION = 30
JOB_ACCEPT_INTERVAL = 3
CLEAN_PERIOD = 60
HOST_HISTORY_DAYS = 90
JOB_HISTORY_DAYS = 730
EVENT_HISTORY_DAYS = 365
EVENT_HISTORY_SIZE = 20000
JOB_TERMINATE_INTERVAL = 0.5
MAX_JOBID = 999999
MAX_PEND_JOBS = 5000
MAX_PEND_SLOTS = 9000
MAX_JOB_ARRAY_SIZE = 1000
MAX_USER_PRIORITY = 100
JOB_PRIORITY_OVER_TIME = 3/20
JOB_DEP_LAST_SUB = 1
KILL_ON_INVALID_DEPENDENCY = N
ORPHAN_JOB_TERM_GRACE_PERIOD = 30
EGROUP_UPDATE_INTERVAL = 90m
GPU_REQ = num=1:mode=shared
GPU_REQ_MERGE = Y
GPU_SHARED_JOBS = 4
GPU_UNREQUESTED = auto=1
GPU_PLACEMENT = scarce
GMEM_ACTION = kill
GPU_FOREIGN = kill-after:30
GPU_FOREIGN_MIB = 0
GPU_FATAL_XIDS = 48 79
GPU_CLEAN_PROBES = 5
GPU_MAX_TEMPERATURE = 90
GPU_HEALTH_CHECK = /site/check
GPU_HEALTH_TIMEOUT = 120
GPU_HEALTH_INTERVAL = 24
GPU_HOUR_PRICE = 2.5 EUR
KWH_PRICE = 0.283 EUR
DETECT_IDLE_JOB_AFTER = 7
CLEAN_PERIOD_DONE = 3
DEFAULT_JOBGROUP = /%p/%u
MAX_JOB_REQUEUE = 4
ENABLE_USER_RESUME = Y
JOB_POSITION_CONTROL_BY_ADMIN = Y
PRIVILEGED_USER_FORCE_BKILL = Y
ADVRSV_USER_LIMIT = 8
DEFAULT_USER_GROUP = staff
ENABLE_HOST_INTERSECTION = Y
MAX_JOB_MSG_NUM = 7
MAX_JOB_ATTA_SIZE = 9
EFFICIENCY_MIN_RUN = 60
RESERVE_CORES_PER_GPU = 2
PREEMPT_ACTION = requeue
MIN_RUN_BEFORE_PREEMPT = 30
GPU_GROW_INTERVAL = 60
MAX_JOB_PREEMPT = 3
NO_PREEMPT_INTERVAL = 5
RESIZABLE_JOBS = auto
RESOURCE_RESERVE_PER_TASK = Y
PREEXEC_EXCLUDE_HOST_EXIT_VALUES = 20 21
GLOBAL_EXIT_RATE = 12
JOB_EXIT_RATE_DURATION = 9
EXIT_RATE_TYPE = JOBEXIT JOBINIT
ENABLE_EXIT_RATE_PER_SLOT = Y
LOCAL_MAX_PREEXEC_RETRY = 4
JOB_PREPROC_TIMEOUT = 5
JOB_POSTPROC_TIMEOUT = 10
JOB_CONTROLS_FAIL_DEFAULT_ACTION = Y
LOCAL_MAX_PREEXEC_RETRY_ACTION = EXIT
CPU_TIME_FACTOR = 0.1
RUN_TIME_FACTOR = 0.2
RUN_JOB_FACTOR = 0.3
FAIRSHARE_JOB_COUNT = Y
COMMITTED_RUN_TIME_FACTOR = 0.4
GPU_RUN_TIME_FACTOR = 0.5
HIST_HOURS = 6
ENABLE_HIST_RUN_TIME = Y
ENABLE_GPU_HIST_RUN_TIME = Y
"""


def configured(*lines: str) -> ClusterConfig:
    staff = "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (all)\nEnd UserGroup\n"
    text = "\n".join(["Begin Parameters", *lines, "End Parameters", ""])
    checked = check({"lsb.params": text, "lsb.users": staff})
    assert checked.errors == [] and checked.config is not None
    return checked.config


@pytest.mark.parametrize("text", ["", UNUSUAL])
def test_what_counts_is_what_was_written(text: str) -> None:
    config = configured(*text.split("\n"))
    lines = [f"{parameter.name} = {parameter.value}" for parameter in effective_parameters(config)]
    again = configured(*lines)
    assert factors_of(again.params.factors, None, ()) == factors_of(config.params.factors, None, ())
    all_stated = msgspec.structs.replace(config.params, factors=again.params.factors)
    assert (again.params, again.timing) == (all_stated, config.timing)
    assert set(text.split("\n")) - {""} <= set(lines)


def test_default_factors_are_those_in_force_on_the_hosts() -> None:
    def shown(*lines: str) -> set[str]:
        return {f"{each.name}={each.value}" for each in effective_parameters(configured(*lines), gpu_hosts=("gpu01",))}

    assert {"GPU_RUN_TIME_FACTOR=1", "RUN_JOB_FACTOR=0.001", "CPU_TIME_FACTOR=0"} <= shown()
    assert {"GPU_RUN_TIME_FACTOR=1", "RUN_JOB_FACTOR=3", "CPU_TIME_FACTOR=0"} <= shown("RUN_JOB_FACTOR = 3")


def test_every_parameter_has_a_place() -> None:
    """Each field of Params changes what is shown, or it comes from lsf.conf."""
    shown = {name: effective_parameters(configured(*text.split("\n"))) for name, text in (("", ""), ("all", UNUSUAL))}
    assert len(shown["all"]) == len(UNUSUAL.split("\n")) - 2
    assert all(parameter not in shown["all"] for parameter in shown[""] if parameter.name != "DEFAULT_QUEUE")
    of_lsf_conf = {
        "host_lost_after_s",
        "root_may_submit",
        "max_requests_per_s",
        "max_asked_hosts",
        "max_dispatch_per_cycle",
        "job_report",
        "stdout_direct",
        "mail_to",
        "mail_program",
        "mail_server",
        "container_mounts",
        "container_images",
        "notice_ways",
        "notice_proxy",
    }
    usual, unusual = configured().params, configured(*UNUSUAL.split("\n")).params
    same = {name for name in msgspec.structs.asdict(usual) if getattr(usual, name) == getattr(unusual, name)}
    assert same - of_lsf_conf == {"default_queues", "default_application"}


def test_gparams_says_of_every_parameter_what_it_means() -> None:
    found = effective_parameters(configured(*UNUSUAL.split("\n")))
    blocks = render_long(found).split("\n\n")
    assert len(blocks) == len(found)
    assert [block for block in blocks if ":\n    " not in block] == []


def test_lsf_conf_as_programs_read_it(tmp_path) -> None:
    (tmp_path / "lsf.conf").write_text("# folders\nLSB_SHAREDIR='/s p'\nLSF_LOGDIR = /l\nGSCHED_RUNDIR=\n")
    assert settings_of(str(tmp_path)) == {
        "LSB_SHAREDIR": "/s p",
        "LSF_LOGDIR": "/l",
        "LSF_CONFDIR": str(tmp_path),
        "LSB_CONFDIR": f"{tmp_path}/lsbatch",
        "LSF_ENVDIR": str(tmp_path),
        "LSF_UNIT_FOR_LIMITS": "MB",
    }
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_of(str(tmp_path / "none"))


def test_lsf_own_place_of_the_lsb_files_is_accepted() -> None:
    assert check(with_lines("lsf.conf", "LSF_CONFDIR=/conf", "LSB_CONFDIR=/conf/lsbatch")).errors == []
    wrong = check(with_lines("lsf.conf", "LSB_CONFDIR=/elsewhere/lsbatch"))
    assert wrong.errors == [
        "lsf.conf:4: LSB_CONFDIR: all files are read from /conf; another folder is not supported yet"
    ]


def test_files_are_read_in_a_working_directory_that_is_gone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert check(with_lines("lsf.conf")).errors == []
