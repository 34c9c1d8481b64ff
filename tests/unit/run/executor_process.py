"""A process that hosts an executor and starts the orders it is given; made to be killed with SIGKILL.

Usage: executor_process.py SPOOL LOCKS ORDERS_JSON [pause]. Prints `started JOB PID` and `ended JOB` lines. With `pause`
it stops itself between writing the orders and asking for supervisors.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
from run_host import let_supervisors_sleep

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Order

let_supervisors_sleep()


async def main(spool: str, locks: str, orders: str, pause: bool) -> None:
    executor = ProcessExecutor(
        Path(spool),
        os.environ["RUN_TEST_CLUSTER"],
        on_started=lambda job, attempt, info: print("started", job, info.pid, flush=True),
        on_ended=lambda job, attempt, result: print("ended", job, flush=True),
        gpu_locks=GpuLockFolders(str(locks), "", False),
    )
    if pause:
        executor._forks.ask = lambda name, takes_more: None  # type: ignore[method-assign]
    for order in msgspec.json.decode(orders, type=list[Order]):
        await executor.start(order)
    print("asked", flush=True)
    if pause:
        os.kill(os.getpid(), signal.SIGSTOP)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:4], len(sys.argv) > 4))
