"""Signals that the master has passed on: each is sent once, also by the agent that comes after one that was killed."""

from __future__ import annotations

import signal
from functools import partial

from run_host import Host, appears

COUNTS = """python3 -u -c '
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
print("ready", flush=True)
while True: signal.pause()'"""


def heard(host: Host) -> int:
    return host.output().count("heard")


def test_a_signal_is_sent_once_whatever_agent_is_asked(on_host):
    async def scenario(host):
        sent = []

        async def send(executor, number):
            sent.append(number)
            await executor.signal(1, 1, signal.SIGUSR1, everything=False)

        await host.executor.start(host.order(f"exec {COUNTS}"))
        await appears(lambda: "ready" in host.output())
        await host.executor.pass_on(1, 1, 1, partial(send, host.executor, 1))
        await host.executor.pass_on(1, 1, 1, partial(send, host.executor, 1))
        await appears(lambda: heard(host) == 1)
        assert host.executor.last_signal(1, 1) == 1

        later = Host(host.root)
        await later.executor.adopt()
        await later.executor.pass_on(1, 1, 1, partial(send, later.executor, 1))
        await later.executor.pass_on(1, 1, 2, partial(send, later.executor, 2))
        await appears(lambda: heard(host) == 2)
        assert sent == [1, 2] and later.executor.last_signal(1, 1) == 2
        later.executor.close()

    on_host(scenario)


def test_what_is_over_or_unknown_is_sent_nothing(on_host):
    async def scenario(host):
        async def never():
            raise AssertionError("nobody is there")

        await host.executor.pass_on(1, 1, 1, never)
        await host.run("true")
        await host.executor.pass_on(1, 1, 1, never)
        assert host.executor.last_signal(1, 1) == 0

    on_host(scenario)
