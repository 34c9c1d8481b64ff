"""The steps that follow a job whose supervisor was killed: the agent has them run in its place, by the fork server.

Each begins inside the attempt's group, as those of a supervisor do. Never runs one twice: where a supervisor had begun
with them, nobody knows how far it came.
"""

from __future__ import annotations

import time
from pathlib import Path

from gsched.base.coded_text import AnyText, coded
from gsched.base.machine.atomic_write import write_file
from gsched.run import attempt_files
from gsched.run.fence.group import FenceGroup, make_fenced
from gsched.run.order import JobStep, Order
from gsched.run.program import Program, RunsPrograms
from gsched.run.supervisor import steps
from gsched.run.supervisor.attempt_folder import AttemptFolder
from gsched.run.supervisor.job_rights import JobRights
from gsched.run.supervisor.steps import LATE


async def run_last(
    order: Order, folder: Path, group: FenceGroup | None, run: RunsPrograms
) -> tuple[int | None, list[AnyText]]:
    """Exit code of the first step that failed (0 when none did, None when none was run), and what is to be told."""
    if not order.last:
        return None, []
    if (folder / attempt_files.LAST).exists():
        return None, [coded("step.maybe_not_run")]
    code, told = 0, list[AnyText]()
    try:
        write_file(f"{folder}/{attempt_files.LAST}", b"")
        if group is not None and order.fence is not None:
            make_fenced(group, order.fence.minors, order.fence.denied)
    except OSError as error:
        return None, [coded("step.none_run", str(error.strerror or error))]
    until = time.monotonic() + order.last_timeout_s if order.last_timeout_s else None
    for step in AttemptFolder(str(folder)).steps_after(order):
        try:
            left_s = None if until is None else max(until - time.monotonic(), 0.0)
            ended_with = (await run(_program(step, order), left_s)).exit_code
        except TimeoutError:
            told.append(coded("step.last_late", step.what, order.last_timeout_s))
            return code or LATE, told
        except OSError as error:
            told.append(coded("step.not_run", step.what, str(error.strerror or error)))
            ended_with = 126
        else:
            if ended_with:
                told.append(coded("step.failed", step.what, ended_with))
        code = code or ended_with
    return code, told


def _program(step: JobStep, order: Order) -> Program:
    """The shell that runs it: as whom, where and with which environment."""
    rights = JobRights(order)
    account, granted, umask = rights.for_step(step, order.umask)
    environment = rights.environment_of(step, order.environment)
    if step.is_site:
        environment = {**environment, "PATH": steps.SITE_PATH}
    return Program(
        words=("/bin/sh", "-c", step.command),
        environment=environment,
        keeps_output=False,
        cwd=steps.SITE_FOLDER if step.is_site or order.is_part else order.cwd,
        umask=umask,
        account=account,
        granted=granted,
        fence=order.fence,
    )
