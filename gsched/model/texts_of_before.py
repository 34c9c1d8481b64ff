"""The sentences that stores and agents of before have where there are codes now. Nobody else knows a text by its words.

These never change: they say what was written then, however it is worded today.
"""

from __future__ import annotations

import re

from gsched.base.coded_text import AnyText, coded, has_code

_PRE_EXEC_FAILED = re.compile(r"(?:^|; )The (job|queue|application)'s pre-exec command exited .* \((\d+)\)")
_REQUEUED = "Job has been requeued"
_NO_MAIL = "Warning: no mail will be sent"
_OF_A_REQUIREMENT = ("resource requirement does not count beside this one", "a GPU is held until the job ends")
_SUDO = "Warning: sudo does not pass on CUDA_VISIBLE_DEVICES"
_OF_HOSTS = ": the job waits until one has"
_KEPT = "the requirement of before the reconfiguration holds"


def start_failure(text: AnyText, host: str = "") -> AnyText:
    """Why a start failed (on `host`), with its code where it was a pre-execution command or named the host."""
    if not isinstance(text, str):
        return text
    found = _PRE_EXEC_FAILED.search(text)
    if found is not None:
        return coded("start.pre_exec_failed", found[1], int(found[2]), text)
    why = text.removeprefix(f"host {host}: ")
    return text if why == text else coded("start.failed_on", host, why)


def says_requeued(reason: AnyText) -> bool:
    """Whether a requeue has no other reason than that somebody asked for it."""
    return has_code(reason, "requeue.asked") or reason == _REQUEUED


def is_no_mail(warning: AnyText) -> bool:
    """Whether it says that no mail will be sent."""
    return has_code(warning, "warning.no_mail_program", "warning.no_mail_time") or (
        isinstance(warning, str) and warning.startswith(_NO_MAIL)
    )


def is_of_requirement(warning: AnyText) -> bool:
    """Whether it is about the job's requirement, which is judged anew with each change."""
    if isinstance(warning, str):
        return warning.endswith(_OF_A_REQUIREMENT) or warning.startswith(_KEPT)
    return has_code(warning, "warning.requirement_ignored", "warning.gpu_duration", "warning.requirement_kept")


def is_of_hosts(warning: AnyText) -> bool:
    """Whether it is about what hosts had when the requirement was judged."""
    if isinstance(warning, str):
        return warning.endswith(_OF_HOSTS)
    return has_code(warning, "warning.waits_for_host")


def is_about_sudo(warning: AnyText) -> bool:
    """Whether it says that sudo does not pass on which GPUs are the job's."""
    return has_code(warning, "warning.sudo") or (isinstance(warning, str) and warning.startswith(_SUDO))
