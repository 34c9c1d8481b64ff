"""What is done around jobs and given to them, as files say it: JOB_CONTROLS of queues, SUSPEND_CONTROL and its kin, and
ENV_VARS, of application profiles; LSB_JOB_TMPDIR, LSB_SET_TMPDIR, LSF_TMPDIR and GSCHED_KEPT_OUTPUT_* of the cluster.

Source: lsb.queues(5), JOB_CONTROLS; lsb.applications(5), SUSPEND_CONTROL, ENV_VARS; lsf.conf(5), LSB_JOB_TMPDIR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, show
from gsched.config.grammar.values import KeyValues, absolute_path, command_line, integer
from gsched.model.hosts.job_tmpdir import JobTmpdir
from gsched.model.hosts.kept_output import KeptOutput
from gsched.model.queues.job_controls import ACTIONS, JobControls, signal_of

_CHECKPOINT = "CHKPNT"
_PAIR = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*'([^'\"]*)'\s*(,|$)", re.ASCII)
_OURS = ("LSB_", "LSF_", "GSCHED_", "LS_JOBPID", "LS_SUBCWD", "CUDA_VISIBLE_DEVICES")
"""How names begin that say what a job is and holds."""


LONGEST_TMPDIR = 256
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


def job_tmpdir(settings: KeyValues, findings: Findings) -> JobTmpdir:
    """LSB_JOB_TMPDIR, LSB_SET_TMPDIR and LSF_TMPDIR: the last says where only if a variable is to name it."""
    folder = settings.take("LSB_JOB_TMPDIR", _tmpdir, "")
    of_lsf = settings.take("LSF_TMPDIR", _tmpdir, "")
    variable = settings.take("LSB_SET_TMPDIR", _tmpdir_variable, "")
    at = settings.place("LSF_TMPDIR")
    if at is not None and (folder or not variable):
        why = "LSB_JOB_TMPDIR says where jobs have theirs" if folder else "jobs find their own TMPDIR"
        findings.note(at, f"LSF_TMPDIR has no effect: {why}")
    return JobTmpdir(folder=folder or ((of_lsf or "/tmp") if variable else ""), variable=variable)


def kept_output(settings: KeyValues, findings: Findings) -> KeptOutput:
    """GSCHED_KEPT_OUTPUT_MIB, GSCHED_KEPT_OUTPUT_USER_MIB and GSCHED_KEPT_OUTPUT_HOST_MIB; those that are not set fit
    those that are.
    """
    names = ("GSCHED_KEPT_OUTPUT_MIB", "GSCHED_KEPT_OUTPUT_USER_MIB", "GSCHED_KEPT_OUTPUT_HOST_MIB")
    run, user, host = (settings.take(name, integer(1, 2**40), None) for name in names)
    chosen = {name: mib for name, mib in zip(names, (run, user, host), strict=True) if mib is not None}
    for (name, mib), (larger_name, larger) in pairwise(chosen.items()):
        if mib > larger:
            place = settings.place(larger_name)
            assert place is not None, "it is set"
            why = f"{larger_name}={larger} is less than {name}={mib}: what fits the one has no room in the other"
            findings.error(place, why)
    default = KeptOutput()
    run_mib = run or min([default.run_mib, *chosen.values()])
    user_mib = user or max(run_mib, min(default.user_mib, host or default.user_mib))
    return KeptOutput(run_mib=run_mib, user_mib=user_mib, host_mib=host or max(user_mib, default.host_mib))


def _tmpdir(text: str) -> str:
    path = absolute_path(text)
    if len(path) > LONGEST_TMPDIR:
        raise BadRequest(f"the path has {len(path)} characters; at most {LONGEST_TMPDIR} are possible")
    if ":" in path or "," in path:
        raise BadRequest(f"'{show(path)}' has a colon or comma: containers could not be given it")
    return path


def _tmpdir_variable(text: str) -> str:
    """Name of the variable that LSB_SET_TMPDIR has set; empty: none."""
    word = text.strip()
    if word.casefold() in ("n", "no", "0"):
        return ""
    if word.casefold() in ("y", "yes", "1"):
        return "TMPDIR"
    if _VARIABLE.fullmatch(word) is None or word.startswith(_OURS) or word == "PATH":
        raise BadRequest(f"'{show(word)}' is none of Y, N and the name of a variable that jobs may get")
    return word


def control_action(text: str) -> str:
    """One action: the name of a signal, or a command. Raises BadRequest."""
    action = text.strip()
    if not action:
        raise BadRequest("the action is empty: the name of a signal or a command is wanted")
    if action == _CHECKPOINT:
        raise BadRequest("CHKPNT is not supported yet: CHKPNT_SIGNAL asks jobs to save their state")
    if action.isalnum() and action.startswith("SIG") and not signal_of(action):
        raise BadRequest(f"there is no signal {show(action)}")
    return command_line(action)


def job_controls(text: str) -> JobControls:
    """`SUSPEND[action] RESUME[action] TERMINATE[action]`, each at most once. Raises BadRequest."""
    found: dict[str, str] = {}
    for name, action in _pieces(text):
        word = name.upper()
        if word not in ACTIONS:
            raise BadRequest(f"'{show(name)}' is none of {', '.join(ACTIONS)} with an action in brackets behind it")
        if word in found:
            raise BadRequest(f"{word} is given twice")
        try:
            found[word] = control_action(action)
        except BadRequest as error:
            raise BadRequest(f"{word}: {error.text}") from error
    suspend, resume, terminate = (found.get(name, "") for name in ACTIONS)
    return JobControls(suspend=suspend, resume=resume, terminate=terminate)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(name, what stands in its brackets). Brackets within count, as those of `[ -e FILE ]` do."""
    rest = text.strip()
    while rest:
        name, bracket, behind = rest.partition("[")
        if not bracket:
            raise BadRequest(f"'{show(rest)}' is not of the form NAME[ACTION]")
        depth, end = 1, 0
        while depth and end < len(behind):
            depth += (behind[end] == "[") - (behind[end] == "]")
            end += 1
        if depth:
            raise BadRequest(f"the bracket behind {show(name.strip())} is not closed")
        yield name.strip(), behind[: end - 1]
        rest = behind[end:].strip()


def env_vars(text: str) -> dict[str, str]:
    """Name -> value; of a name that stands twice the last counts. Raises BadRequest."""
    found: dict[str, str] = {}
    rest = text
    while rest.strip():
        pair = _PAIR.match(rest)
        if pair is None:
            raise BadRequest(
                f"'{show(rest.strip())}' does not begin with NAME='value' and a comma or nothing behind it"
            )
        name, value = pair[1], pair[2]
        if name.startswith(_OURS):
            raise BadRequest(f"{show(name)} is set by gsched itself")
        if not value.isprintable():
            raise BadRequest(f"the value of {show(name)} holds unprintable characters")
        found[name] = value
        rest = rest[pair.end() :]
        if pair[3] and not rest.strip():
            raise BadRequest(f"nothing stands behind the comma after {show(name)}")
    return found


def shown_env_vars(variables: Mapping[str, str]) -> str:
    """As ENV_VARS is written."""
    return ",".join(f"{name}='{value}'" for name, value in variables.items())
