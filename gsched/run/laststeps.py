"""The steps that follow a job whose supervisor was killed: the agent runs them in its place.

Each waits at a gate until it is inside the attempt's group, as those of a supervisor do. Never runs one twice: where a
supervisor had begun with them, nobody knows how far it came.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from gsched.base.wholefile import write_file
from gsched.run import attemptfiles, steps
from gsched.run.fence.group import Group
from gsched.run.order import Order, Step

_GATE = 'umask "$2"; read -r go && exec /bin/sh -c "$1" </dev/null'


async def run_last(order: Order, folder: Path, group: Group | None) -> tuple[int | None, list[str]]:
    """Exit code of the first step that failed (0 when none did, None when none was run), and what is to be told."""
    if not order.last:
        return None, []
    if (folder / attemptfiles.LAST).exists():
        return None, ["of the commands that follow it, some may not have been run"]
    code, told = 0, []
    try:
        write_file(f"{folder}/{attemptfiles.LAST}", b"")
        if group is not None:
            group.make()
    except OSError as error:
        return None, [f"the commands that follow it were not run: {error.strerror or error}"]
    for step in order.last:
        try:
            ended_with = await _run(step, order, group)
        except OSError as error:
            told.append(f"{step.what}: {error.strerror or error}")
            ended_with = 126
        else:
            if ended_with:
                told.append(f"{step.what} exited with non-zero status ({ended_with})")
        code = code or ended_with
    return code, told


async def _run(step: Step, order: Order, group: Group | None) -> int:
    """To its end; its exit code as a shell tells it. Raises OSError."""
    environment = {**order.environment, "PATH": steps.SITE_PATH} if step.is_site else order.environment
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _GATE, "sh", step.command, f"{order.umask:o}"),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env=environment,
        cwd=steps.SITE_FOLDER if step.is_site else order.cwd,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        if group is not None:
            group.add(process.pid)
        process.stdin.write(b"go\n")
    finally:
        process.stdin.close()
        code = await process.wait()
    return 128 - code if code < 0 else code
