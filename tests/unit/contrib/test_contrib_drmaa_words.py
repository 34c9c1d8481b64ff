"""gsched.contrib.drmaa without a cluster: names and errors, and what a job template means to gsub."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gsched.base import errors as gsched_errors
from gsched.contrib import drmaa
from gsched.contrib.drmaa import const, errors
from gsched.contrib.drmaa.gsub_words import SubmissionWords, words_of
from gsched.contrib.drmaa.installation import IMPORT_PATH
from gsched.contrib.drmaa.partial_time import as_gsub_takes_it, moment_of
from gsched.contrib.drmaa.translation import job_number, translate

NOW = datetime(2026, 11, 30, 12, 0).timestamp()
PATIENCE_S = 60


def words(indices: str = "", **attributes: Any) -> SubmissionWords:
    return words_of(drmaa.JobTemplate(**{"remoteCommand": "prog", **attributes}), NOW, indices)


# Names


PUBLIC = re.findall(
    r"\w+",
    """
    JobInfo JobTemplate Session AlreadyActiveSessionException AuthorizationException
    ConflictingAttributeValuesException DefaultContactStringException DeniedByDrmException DrmCommunicationException
    DrmsExitException DrmsInitException ExitTimeoutException HoldInconsistentStateException IllegalStateException
    InternalException InvalidAttributeFormatException InvalidContactStringException InvalidJobException
    InvalidJobTemplateException NoActiveSessionException NoDefaultContactStringSelectedException
    ReleaseInconsistentStateException ResumeInconsistentStateException SuspendInconsistentStateException
    TryLaterException UnsupportedAttributeException InvalidArgumentException InvalidAttributeValueException
    OutOfMemoryException ATTR_BUFFER BLOCK_EMAIL CONTACT_BUFFER control_action_to_string DEADLINE_TIME
    DRM_SYSTEM_BUFFER DRMAA_IMPLEMENTATION_BUFFER DURATION_HLIMIT DURATION_SLIMIT ERROR_PATH ERROR_STRING_BUFFER
    INPUT_PATH JOB_CATEGORY JOB_IDS_SESSION_ALL JOB_IDS_SESSION_ANY JOB_NAME job_state JobControlAction
    JOBNAME_BUFFER JobState JobSubmissionState JOIN_FILES JS_STATE NATIVE_SPECIFICATION NO_MORE_ELEMENTS OUTPUT_PATH
    PLACEHOLDER_HD PLACEHOLDER_INCR PLACEHOLDER_WD REMOTE_COMMAND SIGNAL_BUFFER START_TIME status_to_string
    string_to_control_action submission_state SUBMISSION_STATE_ACTIVE SUBMISSION_STATE_HOLD TIMEOUT_NO_WAIT
    TIMEOUT_WAIT_FOREVER TRANSFER_FILES V_ARGV V_EMAIL V_ENV WCT_HLIMIT WCT_SLIMIT WD
    """,
)
"""`__all__` of drmaa-python 0.7.9."""


def test_every_name_of_drmaa_python_is_there() -> None:
    assert set(PUBLIC) <= set(drmaa.__all__)
    assert all(hasattr(drmaa, name) for name in drmaa.__all__)
    assert drmaa.VERSION == (0, 7, 9) and drmaa.__version__ == "0.7.9"


def test_numbers_of_the_c_binding_lead_to_names_and_back() -> None:
    assert const.status_to_string(0x12) == const.JobState.USER_ON_HOLD
    assert const.control_action_to_string(const.string_to_control_action("release")) == "release"
    assert const.submission_state(0) == const.JobSubmissionState.HOLD_STATE


def test_errors_carry_their_number() -> None:
    assert str(errors.coded(errors.InvalidJobException, "x")) == "code 18: x"
    assert str(errors.coded(errors.ExitTimeoutException, "x")) == "code 23: x"
    assert str(errors.coded(errors.UnsupportedAttributeException, "x")) == "code 4: x"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (gsched_errors.BadRequest, errors.DeniedByDrmException),
        (gsched_errors.Conflict, errors.DeniedByDrmException),
        (gsched_errors.PermissionDenied, errors.AuthorizationException),
        (gsched_errors.ResourceExhausted, errors.TryLaterException),
        (gsched_errors.Unavailable, errors.DrmCommunicationException),
        (gsched_errors.NotFound, errors.InvalidJobException),
        (gsched_errors.Internal, errors.InternalException),
    ],
)
def test_errors_of_gsched_have_a_counterpart(
    ours: type[gsched_errors.GschedError], theirs: type[errors.DrmaaException]
) -> None:
    assert type(translate(ours("why"))) is theirs and str(translate(ours("why"))).endswith(": why")


@pytest.mark.parametrize(("text", "number"), [("12", 12), (b"12", 12), (12, 12), ("12[3]", 3 << 32 | 12)])
def test_ids_of_jobs(text: Any, number: int) -> None:
    assert job_number(text) == number


@pytest.mark.parametrize("text", ["", "x", "0", "12[0]", "12[1-3]", "12[", "-1", "99999999999", "1 2"])
def test_what_is_no_id_of_a_job(text: str) -> None:
    with pytest.raises(errors.InvalidJobException):
        job_number(text)


def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), **env}
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)


USES = "import drmaa.const, drmaa; from drmaa.errors import DrmaaException; from drmaa.session import Session"
SAME = "assert drmaa.Session is Session and drmaa.__name__ == 'gsched.contrib.drmaa', drmaa.__name__"


def test_a_folder_in_the_path_makes_it_drmaa() -> None:
    told = subprocess.run([sys.executable, "-m", "gsched.contrib.drmaa"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{IMPORT_PATH}\n" and os.listdir(IMPORT_PATH)
    path = os.pathsep.join([IMPORT_PATH, *sys.path])
    done = run(f"{USES}; {SAME}; import gsched.contrib.drmaa as d; assert d.install() is drmaa", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_import_it_at_once_find_all_names() -> None:
    program = """
import threading
found = []
def use():
    import drmaa
    from drmaa import errors
    found.append((drmaa.Session, errors.DrmaaException, drmaa.const.JobState))
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 4 and len(set(found)) == 1, found
"""
    done = run(program, PYTHONPATH=os.pathsep.join([IMPORT_PATH, *sys.path]))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_can_make_it_drmaa_and_nobody_else_does() -> None:
    done = run(f"from gsched.contrib.drmaa import install; install(); {USES}; {SAME}")
    assert (done.returncode, done.stderr) == (0, "")
    other = "import sys, types; sys.modules['drmaa'] = types.ModuleType('drmaa')"
    done = run(f"{other}; from gsched.contrib.drmaa import install; install()")
    assert done.returncode == 1 and "another drmaa has been imported already" in done.stderr


# Templates


def test_what_is_not_set_is_empty_and_what_is_set_is_kept() -> None:
    template = drmaa.JobTemplate()
    assert (template.remoteCommand, template.args, template.jobEnvironment) == ("", [], {})
    assert (template.joinFiles, template.hardWallclockTimeLimit) == (False, None)
    template.args = [10, b"de", "x"]
    template.jobEnvironment = {b"A": 1, "B": "x=y"}
    template.hardWallclockTimeLimit = "1:30"
    template.workingDirectory = b"/data"
    assert (template.args, template.jobEnvironment) == (["10", "de", "x"], {"A": "1", "B": "x=y"})
    assert (template.hardWallclockTimeLimit, template.workingDirectory) == (90, "/data")
    template.workingDirectory = None
    assert template.workingDirectory == ""
    assert "drmaa_remote_command" in template.attributeNames
    assert not {"drmaa_v_argv", "drmaa_transfer_files"} & set(template.attributeNames)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("remoteCommand", 3, errors.InvalidAttributeFormatException),
        ("args", "abc", errors.InvalidAttributeFormatException),
        ("args", 3, errors.InvalidAttributeFormatException),
        ("jobEnvironment", ["A=1"], errors.InvalidAttributeFormatException),
        ("jobEnvironment", {"A=B": "1"}, errors.InvalidAttributeFormatException),
        ("hardWallclockTimeLimit", "soon", errors.InvalidAttributeFormatException),
        ("softRunDurationLimit", 0, errors.InvalidAttributeValueException),
        ("transferFiles", "io", errors.UnsupportedAttributeException),
        ("transferFiles", const.FileTransferMode(transferErrorStream=True), errors.UnsupportedAttributeException),
    ],
)
def test_values_that_an_attribute_does_not_take(name: str, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=name):
        drmaa.JobTemplate(**{name: value})


def test_a_transfer_of_nothing_can_be_asked_for() -> None:
    assert drmaa.JobTemplate(transferFiles=const.FileTransferMode()).transferFiles == ""


def test_a_deleted_template_is_of_no_use() -> None:
    with drmaa.JobTemplate(remoteCommand="x") as template:
        assert template.remoteCommand == "x"
    for use in (template.delete, lambda: template.remoteCommand, lambda: setattr(template, "args", [])):
        with pytest.raises(errors.InvalidJobTemplateException):
            use()


# What gsub gets


def test_words_reach_the_program_as_they_are() -> None:
    asked = words(remoteCommand="/a b/prog", args=["x y", "$HOME", ">", ""])
    assert asked.command == "exec '/a b/prog' 'x y' '$HOME' '>' ''"
    assert (asked.options, asked.environment) == ([], {})


def test_attributes_are_options_and_the_native_ones_count_most() -> None:
    asked = words(
        jobName="named",
        jobCategory="deep",
        jobSubmissionState=const.SUBMISSION_STATE_HOLD,
        startTime="2027/01/02 03:04",
        deadlineTime="2027/01/03 03:04:30",
        hardWallclockTimeLimit=61,
        hardRunDurationLimit=600,
        softWallclockTimeLimit="1:00:00",
        email=["ann@here"],
        workingDirectory="/data",
        errorPath=":err",
        inputPath="somewhere:in",
        nativeSpecification='-q night -R "select[mem>1] rusage[mem=1]" -x -W 9',
    )
    assert asked.options == [
        *("-app", "deep", "-H", "-b", "2027:01:02:03:04", "-t", "2027:01:03:03:05", "-W", "2", "-We", "60"),
        *("-u", "ann@here", "-N", "-cwd", "/data", "-i", "in", "-e", "err"),
        *("-q", "night", "-R", "select[mem>1] rusage[mem=1]", "-x", "-W", "9", "-J", "named"),
    ]


def test_names_and_indices() -> None:
    assert words(jobName="a", nativeSpecification="-J b").options == ["-J", "b"]
    assert words(jobName="a", nativeSpecification="-J b", indices="1-9:2").options == ["-J", "b[1-9:2]"]
    assert words(indices="1-9:1").options == ["-J", "[1-9:1]"]


def test_blocked_mail_is_not_sent() -> None:
    asked = words(blockEmail=True, email=["ann@here", "bob@here"], nativeSpecification="-N -u bob -B -Ne -x")
    assert asked.options == ["-x"]


def test_output_goes_to_its_file_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert words(outputPath=":/d/a b.%J").command == "exec prog >>'/d/a b.'\"$LSB_JOBID\""
    assert words(outputPath="host:$drmaa_hd_ph$/o.$drmaa_incr_ph$").command == (
        'exec prog >>/home/ann/o."$LSB_JOBINDEX"'
    )
    joined = words(outputPath="/d/a:b", errorPath=":e", joinFiles=True)
    assert (joined.command, joined.options) == ("exec prog >>/d/a:b 2>&1", [])
    assert words(outputPath=":o", nativeSpecification="-oo mine").command == "exec prog"


def test_in_a_folder_each_job_has_a_file_of_its_own(tmp_path: Path) -> None:
    folder = {"outputPath": f":{tmp_path}", "errorPath": ":logs/", "workingDirectory": str(tmp_path)}
    assert words(**folder).command == f'exec prog >>{tmp_path}/"$LSB_JOBID".out'
    assert words(**folder).options[-2:] == ["-e", "logs/%J.err"]
    array = words(indices="1-2:1", **folder)
    assert array.command == f'exec prog >>{tmp_path}/"$LSB_JOBID"."$LSB_JOBINDEX".out'
    assert "logs/%J.%I.err" in array.options
    (tmp_path / "here").mkdir()
    assert words(errorPath=":here", workingDirectory=str(tmp_path)).options[-1] == "here/%J.err"
    assert words(errorPath=":there", workingDirectory=str(tmp_path)).options[-1] == "there"


def test_placeholders_stand_for_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    asked = words(
        remoteCommand="$drmaa_wd_ph$/prog",
        args=["$drmaa_hd_ph$/x", "y$drmaa_hd_ph$"],
        workingDirectory="$drmaa_hd_ph$/run.$drmaa_incr_ph$",
        errorPath=":$drmaa_wd_ph$/err",
    )
    assert asked.options == ["-cwd", "/home/ann/run.%I", "-e", "/home/ann/run.%I/err"]
    assert asked.command.endswith("/prog' /home/ann/x 'y$drmaa_hd_ph$'")
    here = words(errorPath=":$drmaa_wd_ph$/err")
    assert here.options == ["-e", f"{os.getcwd()}/err"]


def test_variables_are_added_to_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", "1")
    assert words(jobEnvironment={"NEW": "2"}).environment.items() >= {"OLD": "1", "NEW": "2"}.items()


@pytest.mark.parametrize(
    ("attributes", "kind", "text"),
    [
        ({"remoteCommand": None}, errors.InvalidJobTemplateException, "remoteCommand"),
        ({"nativeSpecification": "-shell yes"}, errors.InvalidAttributeValueException, "-s"),
        ({"nativeSpecification": "-x other"}, errors.InvalidAttributeValueException, "'other' is no option"),
        ({"nativeSpecification": "-q 'x"}, errors.InvalidAttributeFormatException, "quotation"),
        ({"nativeSpecification": "-Is"}, errors.InvalidAttributeValueException, "-Is"),
        ({"nativeSpecification": "-J x[1-2]"}, errors.InvalidAttributeValueException, "runBulkJobs"),
        ({"jobName": "x[1-2]"}, errors.InvalidAttributeValueException, "jobName"),
        ({"jobSubmissionState": "held"}, errors.InvalidAttributeValueException, "jobSubmissionState"),
        ({"outputPath": "host:"}, errors.InvalidAttributeFormatException, "outputPath"),
        ({"email": ["a", "b"]}, errors.UnsupportedAttributeException, "email"),
        ({"errorPath": ":e", "joinFiles": True}, errors.ConflictingAttributeValuesException, "joinFiles"),
        ({"workingDirectory": "$drmaa_wd_ph$/x"}, errors.InvalidAttributeValueException, "workingDirectory"),
        ({"startTime": "noon"}, errors.InvalidAttributeFormatException, "startTime"),
    ],
)
def test_what_gsub_could_not_be_told(attributes: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        words(**attributes)


# Times


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12:30", "2026:11:30:12:30"),
        ("11:30", "2026:12:01:11:30"),
        ("12:30:01", "2026:11:30:12:31"),
        ("2 11:30", "2026:12:02:11:30"),
        ("30 11:30", "2026:12:30:11:30"),
        ("31 11:30", "2026:12:31:11:30"),
        ("12/02 11:30", "2026:12:02:11:30"),
        ("02/29 11:30", "2028:02:29:11:30"),
        ("27/02/03 11:30", "2027:02:03:11:30"),
        ("2020/02/03 11:30", "2020:02:03:11:30"),
    ],
)
def test_times_are_the_next_ones(text: str, meant: str) -> None:
    assert as_gsub_takes_it(moment_of(text, "startTime", NOW)) == meant


def test_times_of_another_zone() -> None:
    apart = moment_of("2027/02/03 11:30 +02:00", "x", NOW) - moment_of("2027/02/03 11:30 -01:30", "x", NOW)
    assert apart == -3.5 * 3600


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", errors.InvalidAttributeFormatException),
        ("12", errors.InvalidAttributeFormatException),
        ("12:3", errors.InvalidAttributeFormatException),
        ("1/2/3/4 12:30", errors.InvalidAttributeFormatException),
        ("24:00", errors.InvalidAttributeValueException),
        ("12:60", errors.InvalidAttributeValueException),
        ("02/30 12:30", errors.InvalidAttributeValueException),
    ],
)
def test_what_is_no_time(text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="deadlineTime"):
        moment_of(text, "deadlineTime", NOW)
