"""lsf.conf and the lsb.* files: parameters, queues, slots, users."""

from __future__ import annotations

import pytest
from config_texts import BASE, check, with_lines

from gsched.model.config import GpuFence, GpuUnrequested, Params, Timing
from gsched.model.hosts.host import ComputeMode
from gsched.model.hosts.kept_output import KeptOutput


def params(*lines: str):
    """BASE with these lines in lsb.params, from line 2 on."""
    return check({"lsb.params": "\n".join(["Begin Parameters", *lines, "End Parameters"])})


def queue(*lines: str):
    """BASE with one queue, normal; `lines` from line 3 on."""
    return check({"lsb.queues": "\n".join(["Begin Queue", "QUEUE_NAME = normal", *lines, "End Queue"])})


def hosts(*lines: str):
    """BASE with these lines in lsb.hosts' section Host, from line 2 on."""
    return check({"lsb.hosts": "\n".join(["Begin Host", *lines, "End Host"])})


def test_defaults_of_everything():
    config = check({"lsb.params": None, "lsb.hosts": None}).config
    assert config.params == Params(root_may_submit=False)
    assert config.timing == Timing()
    assert config.gpu_provider == "nvml"
    assert config.hosts["h1"].max_slots is None
    assert (config.locations.run_dir, config.locations.spool_dir) == ("/run/gsched", "/var/spool/gsched")


def test_all_parameters_of_lsf_conf():
    checked = check(
        with_lines(
            "lsf.conf",
            "GSCHED_RUNDIR='/run/my cluster/'",
            "GSCHED_SPOOLDIR=/sp",
            "GSCHED_GPU_PROVIDER=sim:/inv",
            "GSCHED_GPU_FENCE=Required",
            'LSB_RESOURCE_ENFORCE="gpu"',
            "GSCHED_GPU_INTERVAL=0.5",
            "GSCHED_GPU_USE_INTERVAL=30",
            "GSCHED_ELIM_RESTART=2",
            "GSCHED_COMMAND_WAIT=0",
            "GSCHED_HOST_LOST=16",
            "LSF_ROOT_USER=y",
            "LSF_MASTER_LIST=h2",
            "LSF_CONFDIR=/conf",
            "LSF_UNIT_FOR_LIMITS=MB",
            "GSCHED_KEPT_OUTPUT_MIB=64",
            "LSF_LIM_PORT=7869",
        )
    )
    assert checked.errors == []
    assert checked.config.kept_output == KeptOutput(run_mib=64)
    assert checked.notes == ["lsf.conf:19: note: LSF_LIM_PORT has no effect: there is no LIM"]
    config = checked.config
    assert (config.locations.run_dir, config.locations.spool_dir) == ("/run/my cluster", "/sp")
    assert (config.gpu_provider, config.gpu_fence, config.master_host) == ("sim:/inv", GpuFence.REQUIRED, "h2")
    assert (config.timing.gpu_probe_s, config.timing.elim_restart_s, config.timing.command_wait_s) == (0.5, 2.0, 0.0)
    assert config.timing.gpu_use_s == 30.0
    assert (config.params.host_lost_after_s, config.params.root_may_submit) == (16.0, True)


NO_ROOM = "what fits the one has no room in the other"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("GSCHED_GPU_PROVIDER=cuda", "GSCHED_GPU_PROVIDER: 'cuda' is none of nvml, none and sim:FOLDER"),
        ("GSCHED_GPU_PROVIDER=sim:inv", "GSCHED_GPU_PROVIDER: 'inv' is not an absolute path"),
        ("GSCHED_GPU_FENCE=maybe", "GSCHED_GPU_FENCE: 'maybe' is none of Y, N and required"),
        ('LSB_RESOURCE_ENFORCE="gpu memory"', "LSB_RESOURCE_ENFORCE: 'memory' is not supported yet; gpu is"),
        ("GSCHED_MPS_CONTROL=bin/mps", "GSCHED_MPS_CONTROL: 'bin/mps' is neither a path from / on nor the name of a"),
        ("GSCHED_RUNDIR=run", "GSCHED_RUNDIR: 'run' is not an absolute path"),
        ("GSCHED_RUNDIR=/run/$USER", "GSCHED_RUNDIR: '/run/$USER': variables and '..' are not replaced"),
        (
            f"GSCHED_RUNDIR=/{'x' * 91}",
            "GSCHED_RUNDIR: the path has 92 bytes; sockets lie in it, so at most 91 are possible",
        ),
        ("GSCHED_KEPT_OUTPUT_USER_MIB=all", "GSCHED_KEPT_OUTPUT_USER_MIB: 'all' is not a whole number from 1 to"),
        ("GSCHED_KEPT_OUTPUT_MIB=0", "GSCHED_KEPT_OUTPUT_MIB: '0' is not a whole number from 1 to"),
        ("GSCHED_GPU_INTERVAL=0", "GSCHED_GPU_INTERVAL: '0' is not a number of seconds from 0.05"),
        ("GSCHED_GPU_INTERVAL=1e400", "GSCHED_GPU_INTERVAL: '1e400' is too large"),
        ("GSCHED_GPU_USE_INTERVAL=0", "GSCHED_GPU_USE_INTERVAL: '0' is not a number of seconds from 0.05"),
        ("GSCHED_HOST_LOST=15", "a host would be lost between two reports: GSCHED_HOST_LOST (15 s) must be longer"),
        ("LSF_ROOT_USER=sometimes", "LSF_ROOT_USER: 'sometimes' is neither Y nor N"),
        ("LSF_MASTER_LIST=client", "LSF_MASTER_LIST: client is not a server host of lsf.cluster"),
        (
            'LSF_MASTER_LIST="h1 h2"',
            "LSF_MASTER_LIST: several masters are for a shared cluster: LSB_MBD_PORT is not set",
        ),
        ('LSF_MASTER_LIST="h1 h1"', "LSF_MASTER_LIST: h1 is named twice"),
        ('LSF_MASTER_LIST=" "', "LSF_MASTER_LIST: it names no host"),
        ("LSF_MANAGEMENT_LIST=client", "LSF_MANAGEMENT_LIST: client is not a server host of lsf.cluster"),
        ("LSF_CONFDIR=/etc", "LSF_CONFDIR: all files are read from /conf; another folder is not supported yet"),
        ("LSF_UNIT_FOR_LIMITS=pages", "LSF_UNIT_FOR_LIMITS: 'pages' is none of KB, MB, GB, TB, PB, EB and ZB"),
        ("LSF_GPU_AUTOCONFIG=N", "LSF_GPU_AUTOCONFIG is not supported yet: agents always look for GPUs by themselves"),
        ("LSF_RES_RLIMIT_UNLIM=c", "LSF_RES_RLIMIT_UNLIM is not supported yet"),
        ("GSCHED_RUN_DIR=/x", "unknown parameter GSCHED_RUN_DIR in lsf.conf; did you mean GSCHED_RUNDIR?"),
        ("lsf_logdir=/x", "unknown parameter lsf_logdir in lsf.conf; did you mean LSF_LOGDIR?"),
        ("LSF_LOGDIR=/x", "LSF_LOGDIR is set twice (first at line 2)"),
        ("QWERTY=1", "unknown parameter QWERTY in lsf.conf"),
    ],
)
def test_a_line_of_lsf_conf_that_is_refused(line, error):
    errors = check(with_lines("lsf.conf", line)).errors
    assert len(errors) == 1
    assert errors[0].startswith(f"lsf.conf:4: {error}")


@pytest.mark.parametrize(("word", "wanted"), [("y", GpuFence.ON), ("N", GpuFence.OFF), ("required", GpuFence.REQUIRED)])
def test_what_the_fence_may_be(word, wanted):
    assert check(with_lines("lsf.conf", f"GSCHED_GPU_FENCE={word}")).config.gpu_fence is wanted


def test_lsfs_word_asks_for_the_fence():
    assert check(with_lines("lsf.conf")).config.gpu_fence is GpuFence.ON
    assert check(with_lines("lsf.conf", "LSB_RESOURCE_ENFORCE=gpu")).config.gpu_fence is GpuFence.ON


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["GSCHED_KEPT_OUTPUT_MIB=20480"], KeptOutput(run_mib=20480, user_mib=20480)),
        (["GSCHED_KEPT_OUTPUT_MIB=102400"], KeptOutput(run_mib=102400, user_mib=102400, host_mib=102400)),
        (["GSCHED_KEPT_OUTPUT_USER_MIB=512"], KeptOutput(run_mib=512, user_mib=512)),
        (["GSCHED_KEPT_OUTPUT_HOST_MIB=5000"], KeptOutput(user_mib=5000, host_mib=5000)),
        (["GSCHED_KEPT_OUTPUT_HOST_MIB=500"], KeptOutput(run_mib=500, user_mib=500, host_mib=500)),
        (["GSCHED_KEPT_OUTPUT_USER_MIB=99999"], KeptOutput(user_mib=99999, host_mib=99999)),
    ],
)
def test_limits_of_kept_output_that_are_not_set_fit_those_that_are(lines, wanted):
    assert check(with_lines("lsf.conf", *lines)).config.kept_output == wanted


def test_limits_of_kept_output_that_leave_a_run_no_room():
    lines = ("GSCHED_KEPT_OUTPUT_MIB=64", "GSCHED_KEPT_OUTPUT_USER_MIB=63", "GSCHED_KEPT_OUTPUT_HOST_MIB=62")
    assert check(with_lines("lsf.conf", *lines)).errors == [
        f"lsf.conf:5: GSCHED_KEPT_OUTPUT_USER_MIB=63 is less than GSCHED_KEPT_OUTPUT_MIB=64: {NO_ROOM}",
        f"lsf.conf:6: GSCHED_KEPT_OUTPUT_HOST_MIB=62 is less than GSCHED_KEPT_OUTPUT_USER_MIB=63: {NO_ROOM}",
    ]
    lines = ("GSCHED_KEPT_OUTPUT_MIB=64", "GSCHED_KEPT_OUTPUT_HOST_MIB=62")
    assert check(with_lines("lsf.conf", *lines)).errors == [
        f"lsf.conf:5: GSCHED_KEPT_OUTPUT_HOST_MIB=62 is less than GSCHED_KEPT_OUTPUT_MIB=64: {NO_ROOM}"
    ]


def test_two_wishes_that_contradict_each_other():
    errors = check(with_lines("lsf.conf", "GSCHED_GPU_FENCE=N", "LSB_RESOURCE_ENFORCE=gpu")).errors
    assert errors == ["lsf.conf:5: LSB_RESOURCE_ENFORCE asks for what GSCHED_GPU_FENCE=N turns off"]


def test_folders_that_are_not_set():
    checked = check({"lsf.conf": "LSF_LOGDIR=/x\n"})
    assert checked.errors == ["lsf.conf: LSB_SHAREDIR is not set"]
    assert "lsf.conf: note: LSF_SERVERDIR is not set: elims and esubs are looked for in /etc" in checked.notes


def test_all_parameters_of_lsb_params():
    checked = params(
        "Default_Queue = normal",
        "DEFAULT_PROJECT = p1",
        "JOB_ACCEPT_INTERVAL = 2",
        "MBD_SLEEP_TIME = 3",
        "SBD_SLEEP_TIME = 1",
        "CLEAN_PERIOD = 60",
        "MAX_JOBID = 999999",
        "JOB_TERMINATE_INTERVAL = 0.5",
        "GPU_SHARED_JOBS = 4",
        "GPU_UNREQUESTED = auto=1",
    )
    assert (checked.errors, checked.notes) == ([], [])
    assert checked.config.params == Params(
        default_queues=("normal",),
        default_project="p1",
        master_sleep_s=3.0,
        job_accept_interval_s=6.0,
        clean_period_s=60,
        max_job_id=999999,
        job_terminate_interval_s=0.5,
        gpu_shared_jobs=4,
        gpu_unrequested=GpuUnrequested.AUTO,
        root_may_submit=False,
    )
    assert checked.config.timing.usage_sample_s == 1.0


@pytest.mark.parametrize(("word", "mode"), [("hide", GpuUnrequested.HIDE), ("Allow", GpuUnrequested.ALLOW)])
def test_what_a_job_sees_that_asked_for_no_gpu(word, mode):
    assert params(f"GPU_UNREQUESTED = {word}").config.params.gpu_unrequested is mode


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("DEFAULT_QUEUE = normla", "DEFAULT_QUEUE: queue normla is not defined in lsb.queues; did you mean normal?"),
        ("DEFAULT_QUEUE = normal idle", "DEFAULT_QUEUE: queue idle is not defined in lsb.queues"),
        ("DEFAULT_PROJECT = a b", "DEFAULT_PROJECT: 'a b' is not one word"),
        ("JOB_ACCEPT_INTERVAL = -1", "JOB_ACCEPT_INTERVAL: '-1' is not a number from 0 to 1000000"),
        ("MAX_JOBID = 0", "MAX_JOBID: '0' is not a whole number from 1 to 2147483646"),
        ("CLEAN_PERIOD = 1h", "CLEAN_PERIOD: '1h' is not a whole number from 0 to 1000000000"),
        ("GPU_SHARED_JOBS = 0", "GPU_SHARED_JOBS: '0' is not a whole number from 1 to 1024"),
        ("GPU_CLEAN_PROBES = 0", "GPU_CLEAN_PROBES: '0' is not a whole number from 1 to 1000000"),
        (
            "GPU_FATAL_XIDS = 48 lost",
            "GPU_FATAL_XIDS: 'lost' is no number of an XID (wanted: numbers such as 48 79, or none)",
        ),
        ("GPU_HEALTH_CHECK = check", "GPU_HEALTH_CHECK: 'check' is not an absolute path"),
        ("GPU_HEALTH_TIMEOUT = 0", "GPU_HEALTH_TIMEOUT: '0' is not a number from 1 to 3600"),
        ("GPU_HEALTH_INTERVAL = -1", "GPU_HEALTH_INTERVAL: '-1' is not a number from 0 to 8760"),
        ("GPU_MAX_TEMPERATURE = 90C", "GPU_MAX_TEMPERATURE: '90C' is not a whole number from 1 to 200"),
        ("GPU_UNREQUESTED = auto=2", "GPU_UNREQUESTED: 'auto=2' is none of hide, allow and auto=1"),
        ("JOB_GROUP_IDLE_TTL = 5", "JOB_GROUP_IDLE_TTL is not supported yet"),
        ("CLEANPERIOD = 5", "unknown parameter CLEANPERIOD in lsb.params; did you mean CLEAN_PERIOD?"),
    ],
)
def test_a_line_of_lsb_params_that_is_refused(line, error):
    errors = params(line).errors
    assert len(errors) == 1
    assert errors[0].startswith(f"lsb.params:2: {error}")


def test_parameters_without_effect_are_noted():
    assert params("MBD_SLEEP_TIME = 10", "MAX_JOB_NUM = 5").notes == [
        "lsb.params:2: note: MBD_SLEEP_TIME has no effect: it is the unit of JOB_ACCEPT_INTERVAL, which is 0, "
        "and of MAX_RESERVE_TIME, which no queue sets",
        "lsb.params:3: note: MAX_JOB_NUM has no effect: events are kept in a database, not in files that are switched",
    ]


def test_all_parameters_of_a_queue():
    checked = queue(
        "PRIORITY = 40",
        "DESCRIPTION = any = text, really",
        "NICE = -5",
        "HOSTS = h3 h1",
        "USERS = alice bob alice",
        "QJOB_LIMIT = 10",
        "UJOB_LIMIT = 4",
        "HJOB_LIMIT = 0",
        "RUNLIMIT = 30 1:30",
        "RES_REQ = select[mem>100] \\",
        "          rusage[mem=50]",
    )
    assert (checked.errors, checked.notes) == ([], [])
    read = checked.config.queues["normal"]
    assert (read.priority, read.nice, read.description) == (40, -5, "any = text, really")
    assert (read.hosts, read.users) == (("h3", "h1"), ("alice", "bob"))
    assert (read.job_limit, read.user_limit, read.host_limit) == (10, 4, 0)
    assert (read.default_run_limit_s, read.run_limit_s) == (1800, 5400)
    assert read.res_req == "select[mem>100] rusage[mem=50]"
    assert read.source == "/conf/lsb.queues:1"


def test_hosts_and_users_of_a_queue():
    read = queue("HOSTS = all", "USERS = all", "RUNLIMIT = 5").config.queues["normal"]
    assert (read.hosts, read.users, read.default_run_limit_s, read.run_limit_s) == (None, None, None, 300)
    assert queue("HOSTS = all ~h2").config.queues["normal"].hosts == ("h1", "h3")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("PRIORITY = 0", "PRIORITY: '0' is not a whole number from 1 to 2147483646"),
        ("NICE = 21", "NICE: '21' is not a whole number from -20 to 20"),
        ("HOSTS = h1 h9", "HOSTS: host h9 is not defined in lsf.cluster, nor a group of lsb.hosts"),
        ("HOSTS = client", "HOSTS: host client is a client (server 0) and runs no jobs"),
        ("HOSTS = all h1", "HOSTS: 'all h1' is neither a list of hosts nor of the form all ~HOST ..."),
        ("HOSTS = all ~h1 ~h2 ~h3", "HOSTS: 'all ~h1 ~h2 ~h3' leaves no host"),
        ("USERS = all bob", "USERS: 'all bob': beside all only ~NAME may stand"),
        ("QJOB_LIMIT = -1", "QJOB_LIMIT: '-1' is not a whole number from 0"),
        ("RUNLIMIT = 10 5", "RUNLIMIT: the default 10 exceeds the maximum 5"),
        ("RUNLIMIT = 10/h1", "RUNLIMIT: '10/h1': a limit normalized by a host is not supported yet"),
        ("RUNLIMIT = 1 2 3", "RUNLIMIT: '1 2 3' is not of the form [default] maximum"),
        ("RUNLIMIT = soon", "RUNLIMIT: 'soon' is not a run limit of the form [hours:]minutes"),
        ("RES_REQ = select[mem>", "RES_REQ: Bad resource requirement syntax"),
        ("RES_REQ = select[nosuch]", "RES_REQ: Bad resource name: nosuch"),
        (
            "RES_REQ = rusage[tokens=1]",
            "RES_REQ: Bad resource name: tokens is not consumable and cannot be reserved by rusage: set CONS",
        ),
        ("PRIORTY = 5", "unknown parameter PRIORTY in section Queue; did you mean PRIORITY?"),
        ("QUEUE_NAME = other", "QUEUE_NAME is set twice (first at line 2)"),
    ],
)
def test_a_line_of_a_queue_that_is_refused(line, error):
    errors = queue(line).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.queues:3: {error}")


@pytest.mark.parametrize("claim", ["ngpus_excl_p=1", "ngpus_shared=1"])
def test_a_queue_may_claim_gpus_whatever_consumable_says(claim):
    rows = [
        "Begin Resource",
        "RESOURCENAME TYPE INTERVAL CONSUMABLE",
        "ngpus_excl_p Numeric 60 Y",
        "ngpus_shared Numeric 60 N",
    ]
    text = f"Begin Queue\nQUEUE_NAME = normal\nRES_REQ = rusage[{claim}]\nEnd Queue\n"
    assert check({**with_lines("lsf.shared", *rows, "End Resource"), "lsb.queues": text}).errors == []


def test_queues_without_names_twice_and_none_at_all():
    text = (
        "Begin Queue\nPRIORITY = 1\nEnd Queue\nBegin Queue\nQUEUE_NAME = default\nEnd Queue\n" + BASE["lsb.queues"] * 2
    )
    assert check({"lsb.queues": text}).errors == [
        "lsb.queues:1: the queue has no QUEUE_NAME",
        "lsb.queues:5: QUEUE_NAME: 'default' is a reserved word and cannot be the name of a queue",
        "lsb.queues:11: queue normal is defined twice (first at lsb.queues:7)",
    ]
    assert check({"lsb.queues": "# nothing\n"}).errors == [
        "lsb.queues: no queue is defined (Begin Queue ... End Queue)"
    ]
    only = {"lsb.params": None, "lsb.queues": "Begin Queue\nQUEUE_NAME = q\nEnd Queue\n"}
    assert check(only).errors == ["lsb.params: DEFAULT_QUEUE is not set and there is no queue normal"]


def test_slots_of_hosts():
    checked = hosts(
        "HOST_NAME MXJ JL/U GPU_MODE DISPATCH_WINDOW r1m # Keywords",
        "h1 16 2 exclusive_process () ()",
        "h2 () - EXCLUSIVE_THREAD - -",
        "default ! () () () ()",
    )
    assert checked.errors == []
    read = checked.config.hosts
    assert (read["h1"].max_slots, read["h1"].user_slots) == (16, 2)
    assert read["h1"].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    assert (read["h2"].max_slots, read["h2"].user_slots) == (-1, None)
    assert read["h2"].compute_mode is ComputeMode.EXCLUSIVE_THREAD
    assert (read["h3"].max_slots, read["h3"].compute_mode) == (None, None)
    assert read["h1"].resources == ("gpu",)


def test_the_default_row_serves_hosts_without_a_row():
    assert hosts("HOST_NAME MXJ", "default 7").config.hosts["h2"].max_slots == 7
    assert hosts("HOST_NAME MXJ", "h1 7").config.hosts["h2"].max_slots is None
    assert hosts("HOST_NAME JL/U", "h1 7").config.hosts["h1"].max_slots is None


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("h9 1 () () ()", "host h9 is not defined in lsf.cluster"),
        ("client 1 () () ()", "host client is a client (server 0) and runs no jobs"),
        ("h2 1 () () ()", "host h2 has two rows (first at lsb.hosts:3)"),
        ("default 1 () () ()", "the row default is given twice (first at line 4)"),
        ("h1 many () () ()", "MXJ: 'many' is not a whole number from 0 to 1000000"),
        ("h1 1 x () ()", "JL/U: 'x' is not a whole number from 0 to 1000000"),
        ("h1 1 () fast ()", "GPU_MODE: 'fast' is none of default, exclusive_thread, prohibited, exclusive_process"),
        ("h1 1 () () (5:19:00-8:30)", "DISPATCH_WINDOW: '5:19:00-8:30': a day must be given at both ends or at none"),
    ],
)
def test_a_row_of_lsb_hosts_that_is_refused(row, error):
    errors = hosts("HOST_NAME MXJ JL/U GPU_MODE DISPATCH_WINDOW", "h2 1 () () ()", "default 1 () () ()", row).errors
    assert len(errors) == 1
    assert errors[0].startswith(f"lsb.hosts:5: {error}")


@pytest.mark.parametrize(
    ("cell", "cpus"),
    [("Y", ()), ("n", None), ("()", None), ("(0-2,8)", (0, 1, 2, 8)), ("(0-1 4)", (0, 1, 4)), ("(0, 3)", (0, 3))],
)
def test_which_cpus_jobs_with_affinity_may_have(cell, cpus):
    checked = hosts("HOST_NAME MXJ AFFINITY", f"h1 ! {cell}", "default ! Y")
    assert checked.errors == []
    assert (checked.config.hosts["h1"].affinity, checked.config.hosts["h2"].affinity) == (cpus, ())
    assert hosts("HOST_NAME MXJ", "default !").config.hosts["h1"].affinity is None


def test_affinity_that_is_neither_a_word_nor_a_list_of_cpus():
    (error,) = hosts("HOST_NAME MXJ AFFINITY", "h1 ! some").errors
    assert error.startswith("lsb.hosts:3: AFFINITY: 'some' is none of Y, N and a list of CPUs such as (0-3 8)")


def test_how_many_jobs_may_fail_on_a_host():
    checked = hosts("HOST_NAME MXJ EXIT_RATE", "h1 ! 20", "default ! ()")
    assert checked.errors == []
    assert (checked.config.hosts["h1"].exit_rate, checked.config.hosts["h2"].exit_rate) == (20, None)
    (error,) = hosts("HOST_NAME MXJ EXIT_RATE", "h1 ! many").errors
    assert error.startswith("lsb.hosts:3: EXIT_RATE: 'many' is not a whole number")


def test_unknown_sections_are_named():
    checked = check(
        {
            **with_lines("lsf.cluster.c1", "Begin Hosts", "End Hosts"),
            **with_lines("lsb.params", "Begin Param", "End Param"),
            **with_lines("lsb.queues", "Begin Queues", "End Queues"),
            **with_lines("lsb.hosts", "Begin Hosts", "End Hosts"),
        }
    )
    assert [error.split(" in ")[0].split(": ")[1] for error in checked.errors] == [
        "unknown section Hosts",
        "unknown section Param",
        "unknown section Queues",
        "unknown section Hosts",
    ]


def test_a_file_full_of_mistakes_is_cut_and_refused():
    checked = hosts("HOST_NAME MXJ", *(f"x{number} 1" for number in range(5000)))
    assert len(checked.errors) == 201
    assert checked.errors[-1].endswith("more than 200 problems in this file; the rest is not listed")


def test_what_is_wrong_with_a_repeated_parameter_is_said_at_once():
    errors = params("CLEAN_PERIOD = 60", "CLEAN_PERIOD = abc").errors
    assert [error.split(": ", 1)[1] for error in errors if "set twice" in error] == [
        "CLEAN_PERIOD is set twice (first at line 2)"
    ]
    assert any("'abc'" in error for error in errors)
    assert len(errors) == 2


def test_a_wrong_type_brings_no_other_complaints():
    rows = ["Begin Resource", "RESOURCENAME TYPE INTERVAL INCREASING DESCRIPTION", "odd Foo 60 N (x)", "End Resource"]
    checked = check(with_lines("lsf.shared", *rows))
    assert len(checked.errors) == 1
    assert "Foo" in checked.errors[0]
    assert not any("Boolean" in note or "INCREASING" in note for note in checked.notes)


def test_several_default_queues():
    queues = "".join(f"Begin Queue\nQUEUE_NAME = {name}\nEnd Queue\n" for name in ("normal", "short"))
    lines = "Begin Parameters\nDEFAULT_QUEUE = short normal short\nEnd Parameters\n"
    assert check({"lsb.queues": queues, "lsb.params": lines}).config.params.default_queues == ("short", "normal")


def test_interfaces_of_hosts():
    checked = hosts("HOST_NAME MXJ INTERFACE", "h1 1 ib0", "h2 1 (eth1 mlx5_0:1 mlx5_1:1)", "default ! ()")
    assert checked.errors == []
    read = checked.config.hosts
    assert (read["h1"].interface, read["h2"].interface) == (("ib0",), ("eth1", "mlx5_0:1", "mlx5_1:1"))
    wrong = hosts("HOST_NAME MXJ INTERFACE", "h1 1 (ib0 $x)", "default ! ()").errors
    assert len(wrong) == 1 and "INTERFACE: 'ib0 $x' is no name of an interface" in wrong[0]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), ("", "")),
        (("LSB_SET_TMPDIR=n",), ("", "")),
        (("LSB_SET_TMPDIR=Y",), ("/tmp", "TMPDIR")),
        (("LSB_SET_TMPDIR=y", "LSF_TMPDIR=/var/tmp/"), ("/var/tmp", "TMPDIR")),
        (("LSB_JOB_TMPDIR=/scratch/%H",), ("/scratch/%H", "")),
        (("LSB_JOB_TMPDIR=/scratch", "LSB_SET_TMPDIR=MY_TMP"), ("/scratch", "MY_TMP")),
    ],
)
def test_where_the_temporary_directories_of_jobs_are(lines, expected):
    checked = check(with_lines("lsf.conf", *lines))
    assert (checked.config.job_tmpdir.folder, checked.config.job_tmpdir.variable) == expected
    assert not checked.notes


def test_a_temporary_directory_that_cannot_be_or_has_no_effect_is_told():
    alone = check(with_lines("lsf.conf", "LSF_TMPDIR=/var/tmp"))
    assert ["LSF_TMPDIR has no effect: jobs find their own TMPDIR" in note for note in alone.notes] == [True]
    for line, why in (
        ("LSB_SET_TMPDIR=LSB_X", "'LSB_X' is none of Y, N and the name of a variable that jobs may get"),
        ("LSB_SET_TMPDIR=/tmp", "'/tmp' is none of Y, N and the name of a variable that jobs may get"),
        ("LSB_JOB_TMPDIR=scratch", "'scratch' is not an absolute path"),
        (
            "LSB_JOB_TMPDIR=/scratch/a:b",
            "'/scratch/a:b' has a colon or comma: containers could not be given it",
        ),
        ("LSF_TMPDIR=/scratch/a,b", "'/scratch/a,b' has a colon or comma: containers could not be given it"),
        ("LSB_JOB_TMPDIR=/" + 256 * "x", "the path has 257 characters; at most 256 are possible"),
    ):
        (error,) = check(with_lines("lsf.conf", line)).errors
        assert why in error and "lsf.conf:" in error


def test_parameters_of_lsf_for_jobs_messages_and_groups():
    lines = (
        "DEFAULT_USER_GROUP = staff",
        "ENABLE_HOST_INTERSECTION = Y",
        "MAX_JOB_MSG_NUM = 0",
        "MAX_JOB_ATTA_SIZE = 2147483647",
        "PRIVILEGED_USER_FORCE_BKILL = y",
    )
    users = "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (all)\nEnd UserGroup\n"
    text = "\n".join(["Begin Parameters", *lines, "End Parameters"])
    conf = with_lines("lsf.conf", "LSB_MAX_ASKED_HOSTS_NUMBER=512")
    read = check({"lsb.params": text, "lsb.users": users, **conf}).config.params
    assert (read.default_user_group, read.host_intersection, read.only_admins_force) == ("staff", True, True)
    assert (read.max_messages, read.max_attached_kib, read.max_asked_hosts) == (0, 2147483647, 512)
    (error,) = params("DEFAULT_USER_GROUP = staf").errors
    assert error == "lsb.params:2: DEFAULT_USER_GROUP: there is no user group staf in lsb.users"
