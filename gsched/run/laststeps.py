"""The steps that follow a job whose supervisor was killed: the agent runs them in its place.

Each waits at a gate until it is inside the attempt's group, as those of a supervisor do. Never runs one twice: where a
supervisor had begun with them, nobody knows how far it came.
"""

from __future__ import annotations

import asyncio
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec

from gsched.base.wholefile import write_file
from gsched.run import attemptfiles, steps
from gsched.run.account import Account
from gsched.run.fence.group import Group
from gsched.run.order import Order, Step
from gsched.run.rights import Rights

_GATE = 'read -r go && cd "$2" && exec /bin/sh -c "$1" </dev/null'


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
        except (OSError, subprocess.SubprocessError) as error:
            told.append(f"{step.what}: {getattr(error, 'strerror', '') or error}")
            ended_with = 126
        else:
            if ended_with:
                told.append(f"{step.what} exited with non-zero status ({ended_with})")
        code = code or ended_with
    return code, told


async def _run(step: Step, order: Order, group: Group | None) -> int:
    """To its end; its exit code as a shell tells it. Raises OSError and SubprocessError."""
    rights = Rights(msgspec.to_builtins(order, enc_hook=Account.fields))
    described = msgspec.to_builtins(step)
    environment = rights.environment_of(described, order.environment)
    if step.is_site:
        environment = {**environment, "PATH": steps.SITE_PATH}
    # Its folder is entered behind the gate, with the rights of who it runs as.
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _GATE, "sh", step.command, steps.SITE_FOLDER if step.is_site else order.cwd),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env=environment,
        cwd="/",
        start_new_session=True,
        preexec_fn=lambda: rights.take_for(described, order.umask),
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
