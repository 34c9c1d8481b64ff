"""The files of LSF 10.1 as it is installed, and all its parameters: noted or "not supported yet", never unknown."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
from config_texts import BASE, Checked, check, with_lines

from gsched.config.configuration import check_texts
from gsched.config.grammar import lsf_names, lsf_topics, unsupported

FOLDER = Path(__file__).parent / "lsf101"


def installed(**changes: str) -> Checked:
    texts = {path.name: path.read_text() for path in FOLDER.iterdir()} | changes
    loaded = check_texts("/usr/share/lsf/conf", texts)
    return Checked(loaded.config, loaded.problems)


def test_the_files_that_lsf_is_installed_with_bring_notes_alone() -> None:
    checked = installed()
    assert checked.errors == []
    assert checked.config is not None
    assert checked.config.locations.server_dir == "/usr/share/lsf/etc"
    assert [name for name, queue in checked.config.queues.items() if queue.nice == 19] == ["idle", "normal"]
    assert checked.config.queues["short"].res_req == "select[type==any] rusage[mem=1GB]"
    told = "\n".join(checked.notes)
    for name in ("PRODUCTS", "ABS_RUNLIMIT", "MAX_SBD_FAIL", "LSF_STRICT_RESREQ", "LSF_GPU_AUTOCONFIG", "LSB_SBD_PORT"):
        assert f"note: {name} has no effect: " in told
    assert "lsb.modules: note: not read: there is one scheduler, which takes no plug-ins" in told


@pytest.mark.parametrize(
    ("name", "line", "error"),
    [
        ("lsf.conf", "LSF_ENABLE_EGO=Y", "LSF_ENABLE_EGO is not supported yet"),
        ("lsf.conf", "LSF_STRICT_RESREQ=N", "LSF_STRICT_RESREQ is not supported yet: requirements are always read"),
        ("lsf.conf", 'LSF_HPC_EXTENSIONS="SHORT_EVENTFILE TASK_SWAPLIMIT"', "LSF_HPC_EXTENSIONS is not supported yet"),
        ("lsf.conf", "LSB_MEMLIMIT_ENFORCE=n", "LSB_MEMLIMIT_ENFORCE is not supported yet"),
        ("lsf.conf", "LSB_ENABLE_HPC_ALLOCATION=N", "LSB_ENABLE_HPC_ALLOCATION is not supported yet"),
        ("lsf.conf", "EGO_DEFINE_NCPUS=cores", "EGO_DEFINE_NCPUS is not supported yet: MXJ in lsb.hosts says"),
        ("lsf.conf", "LSF_PROXYD_HOSTS=hosta", "LSF_PROXYD_HOSTS is not supported yet"),
        ("lsf.conf", "LSB_QQQQ_OF_LATER=Y", "LSB_QQQQ_OF_LATER is not supported yet, or it is no parameter of LSF"),
        ("lsf.conf", "QQQQ_OF_LATER=Y", "unknown parameter QQQQ_OF_LATER in lsf.conf"),
        ("lsf.conf", "LSF_LOG_MASC=LOG_INFO", "unknown parameter LSF_LOG_MASC in lsf.conf; did you mean LSF_LOG_MASK?"),
    ],
)
def test_what_would_be_otherwise_is_refused(name: str, line: str, error: str) -> None:
    errors = check(with_lines(name, line)).errors
    assert len(errors) == 1 and error in errors[0]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lsf.conf", "LSB_MEMLIMIT_ENFORCE=y"),
        ("lsf.conf", "LSB_JOB_MEMLIMIT=Y"),
        ("lsf.conf", "LSB_JOB_CPULIMIT=y"),
        ("lsf.conf", "LSB_SUB_COMMANDNAME=Y"),
        ("lsf.conf", "LSB_ENABLE_HPC_ALLOCATION=Y"),
        ("lsf.conf", "LSF_ENABLE_EXTSCHEDULER=Y"),
        ("lsf.conf", "LSB_QUERY_ENH=Y"),
        ("lsf.conf", "LSF_CALL_LIM_WITH_TCP=Y"),
        ("lsf.conf", 'LSB_DEBUG_MBD="LC_EXEC LC_TRACE"'),
        ("lsf.conf", "LSF_TIME_LIM=1"),
        ("lsf.conf", "LSF_ENABLE_PERF_METRICS_LOG=Y"),
        ("lsb.params", "PARALLEL_SCHED_BY_SLOT = Y"),
        ("lsb.params", "ACCT_ARCHIVE_AGE = 30"),
        ("lsb.params", "JOB_INFO_MEMORY_CACHE_SIZE = 200"),
        ("lsb.params", "SCHED_METRIC_ENABLE = Y"),
    ],
)
def test_what_is_so_anyway_or_harms_nobody_is_a_note(name: str, line: str) -> None:
    text = BASE["lsf.conf"] + line if name == "lsf.conf" else f"Begin Parameters\n{line}\nEnd Parameters\n"
    checked = check({name: text})
    assert checked.errors == []
    assert [note for note in checked.notes if re.split("[ =]", line)[0] + " has no effect: " in note]


@pytest.mark.parametrize(
    ("name", "so", "other"),
    [
        ("lsf.conf", "LSB_MOD_ALL_JOBS=Y", "LSB_MOD_ALL_JOBS=N"),
        ("lsf.conf", "LSB_DISABLE_LIMLOCK_EXCL=Y", "LSB_DISABLE_LIMLOCK_EXCL=N"),
        ("lsf.conf", "LSB_SIGSTOP=SIGSTOP", "LSB_SIGSTOP=SIGTSTP"),
        ("lsf.conf", "LSF_GPU_RESOURCE_IGNORE=Y", "LSF_GPU_RESOURCE_IGNORE=N"),
        ("lsf.conf", "LSF_BIND_JOB=NONE", "LSF_BIND_JOB=BALANCE"),
        ("lsf.conf", "LSF_MANAGE_MIG=N", "LSF_MANAGE_MIG=Y"),
        ("lsf.conf", "LSB_REQUEUE_TO_BOTTOM=0", "LSB_REQUEUE_TO_BOTTOM=1"),
        ("lsb.params", "SECURE_JOB_INFO_LEVEL = 0", "SECURE_JOB_INFO_LEVEL = 1"),
        ("lsb.params", "RUN_TIME_DECAY = N", "RUN_TIME_DECAY = Y"),
        ("lsb.params", "FAIRSHARE_ADJUSTMENT_FACTOR = 0.0", "FAIRSHARE_ADJUSTMENT_FACTOR = 1"),
        ("lsb.queues", "PREEMPT_DELAY = 0", "PREEMPT_DELAY = 60"),
        ("lsb.queues", "MEMLIMIT_TYPE = JOB", "MEMLIMIT_TYPE = PROCESS TASK"),
        ("lsb.queues", "RC_HOSTS = none", "RC_HOSTS = awshost"),
        ("lsb.queues", "PLAN = N", "PLAN = Y"),
        ("lsb.applications", "BIND_JOB = NONE", "BIND_JOB = PACK"),
        ("lsb.applications", "USE_PAM_CREDS = n", "USE_PAM_CREDS = y"),
    ],
)
def test_a_value_that_asks_for_what_is_so_is_a_note_and_another_is_refused(name: str, so: str, other: str) -> None:
    around = {
        "lsf.conf": BASE["lsf.conf"] + "{}\n",
        "lsb.params": "Begin Parameters\n{}\nEnd Parameters\n",
        "lsb.queues": BASE["lsb.queues"] + "Begin Queue\nQUEUE_NAME = q\n{}\nEnd Queue\n",
        "lsb.applications": "Begin Application\nNAME = a\n{}\nEnd Application\n",
    }[name]
    parameter = re.split("[ =]", so)[0]
    checked = check({name: around.format(so)})
    assert checked.errors == []
    assert [note for note in checked.notes if f"{parameter} has no effect: " in note]
    (error,) = check({name: around.format(other)}).errors
    assert f"{parameter} is not supported yet: " in error


def test_names_that_came_with_a_fix_pack_are_known() -> None:
    text = "Begin Parameters\nALLOCATION_PLANNER = Y\nPROXYD_POLICIES = QUERY[max=9]\nEnd Parameters\n"
    checked = check({"lsb.params": text})
    (error,) = checked.errors
    assert "ALLOCATION_PLANNER is not supported yet: RESERVATION says how starts are planned" in error
    assert any("PROXYD_POLICIES has no effect: each user has a share" in note for note in checked.notes)


def test_each_name_that_means_nothing_has_its_reason_and_each_reason_its_name() -> None:
    tables = [
        (lsf_names.CONF, unsupported.REFUSED_CONF | unsupported.WITHOUT_EFFECT_CONF),
        (lsf_names.CLUSTER, unsupported.REFUSED_CLUSTER | unsupported.WITHOUT_EFFECT_CLUSTER),
        (lsf_names.PARAMS, unsupported.REFUSED_PARAMS | unsupported.WITHOUT_EFFECT_PARAMS),
        (lsf_names.QUEUE, unsupported.REFUSED_QUEUE | unsupported.WITHOUT_EFFECT_QUEUE),
        (lsf_names.APPLICATION, unsupported.REFUSED_APPLICATION | unsupported.WITHOUT_EFFECT_APPLICATION),
    ]
    known = set().union(*(names for names, _ in tables))
    for names, reasons in tables:
        assert [name for name in sorted(names) if not reasons[name]] == []
    words = [word for words in (*lsf_topics.NOTED, *lsf_topics.REFUSED) for word in words.split()]
    assert len(words) == len(set(words))
    idle = [word for word in words if not any(fnmatch.fnmatchcase(name, word) for name in known)]
    assert idle == []


def sections() -> list[tuple[str, str]]:
    """(file, text with every name of LSF that means nothing here)."""

    def lines(names: frozenset[str], sign: str = " = ") -> str:
        return "".join(f"{name}{sign}xyzzy\n" for name in sorted(names))

    params = f"Begin Parameters\n{lines(lsf_names.PARAMS)}End Parameters\n"
    profile = f"Begin Application\nNAME = a\n{lines(lsf_names.APPLICATION)}End Application\n"
    return [
        ("lsf.conf", BASE["lsf.conf"] + lines(lsf_names.CONF, "=")),
        ("lsf.cluster.c1", BASE["lsf.cluster.c1"] + f"Begin Parameters\n{lines(lsf_names.CLUSTER)}End Parameters\n"),
        ("lsb.params", params),
        ("lsb.queues", f"{BASE['lsb.queues']}Begin Queue\nQUEUE_NAME = q\n{lines(lsf_names.QUEUE)}End Queue\n"),
        ("lsb.applications", profile),
    ]


@pytest.mark.parametrize(("name", "text"), sections())
def test_every_parameter_of_lsf_is_known(name: str, text: str) -> None:
    wanted = len(re.findall("xyzzy", text))
    told: list[str] = []
    lines = text.splitlines(keepends=True)
    before = next(number for number, line in enumerate(lines) if "xyzzy" in line)
    after = [line for line in lines[before:] if "xyzzy" not in line]
    for start in range(0, wanted, 100):  # a file's problems are listed up to 200
        part = [line for line in lines[before:] if "xyzzy" in line][start : start + 100]
        checked = check({name: "".join([*lines[:before], *part, *after])})
        told += [each for each in (*checked.errors, *checked.notes) if each.startswith(f"{name}:")]
    assert [each for each in told if "unknown parameter" in each] == []
    words = " not supported yet", " has no effect"
    assert len([each for each in told if any(word in each for word in words)]) == wanted


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lsf.conf", 'LSF_LOCAL_RESOURCES="[resource linux]"'),
        ("lsb.applications", "RTASK_GONE_ACTION = KILLJOB_TASKEXIT"),
        ("lsb.applications", "DJOB_COMMFAIL_ACTION = KILL_TASKS"),
    ],
)
def test_what_asks_for_something_that_would_not_happen_is_an_error(name: str, line: str) -> None:
    text = f"Begin Application\nNAME = a\n{line}\nEnd Application\n"
    if name == "lsf.conf":
        text = f"{BASE[name]}{line}\n"
    (error,) = check({name: text}).errors
    assert f"{line.split('=')[0].strip()} is not supported yet: " in error


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('GPU_REQ = "num=1"', "gpu_req", "num=1"),
        ('RES_REQ="select[mem>1 && gpu]"', "res_req", "select[mem>1 && gpu]"),
        ('GPU_REQ = "num=1:gmodel=Tesla#16G"  # comment', "gpu_req", "num=1:gmodel=Tesla#16G"),
        (
            'RES_REQ = "rusage[ngpus_physical=1:gmodel=Tesla#16G]"  # comment',
            "res_req",
            "rusage[ngpus_physical=1:gmodel=Tesla#16G]",
        ),
        ("NICE = 20", "nice", 19),
        ('NICE = "5"', "nice", 5),
        ('DESCRIPTION = "a queue"', "description", '"a queue"'),
        ('DESCRIPTION = 5" disks # "comment"', "description", '5" disks # "comment"'),
    ],
)
def test_values_of_queues_as_lsf_takes_them(line: str, field: str, value: object) -> None:
    text = f"{BASE['lsb.queues']}Begin Queue\nQUEUE_NAME = q\n{line}\nEnd Queue\n"
    checked = check({"lsb.queues": text})
    assert checked.errors == []
    assert getattr(checked.config.queues["q"], field) == value


def test_the_model_in_the_gpu_requirement_of_the_cluster_may_have_its_memory() -> None:
    checked = check({"lsf.conf": f'{BASE.get("lsf.conf", "")}LSB_GPU_REQ="num=1:gmodel=Tesla#16G"  # comment\n'})
    assert checked.errors == [] and "gmodel=Tesla#16G" in checked.config.params.gpu_req


def test_an_application_profile_knows_the_older_name_of_its_slots() -> None:
    checked = check({"lsb.applications": "Begin Application\nNAME = a\nPROCLIMIT = 1 2 4\nEnd Application\n"})
    assert checked.errors == [] and checked.config.applications["a"].task_limit == (1, 2, 4)
    both = "Begin Application\nNAME = a\nPROCLIMIT = 4\nTASKLIMIT = 4\nEnd Application\n"
    (error,) = check({"lsb.applications": both}).errors
    assert "PROCLIMIT is the older name of TASKLIMIT; only one of them may be set" in error
