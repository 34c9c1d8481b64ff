"""A job is bound to the CPUs and the memory of its order, or does not start."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from run_host import Host

from gsched.base.coded_text import sentence

OnHost = Callable[[Callable[[Host], Awaitable[None]]], None]
SHOW = 'python3 -c "import os; print(sorted(os.sched_getaffinity(0)))"'


def test_a_job_and_its_children_run_on_the_cpus_of_the_order(on_host: OnHost) -> None:
    usable = sorted(os.sched_getaffinity(0))

    async def scenario(host: Host) -> None:
        tell = f"{SHOW}; cat '{host.executor.affinity_hostfile(1, 1)}'"
        await host.run(tell, cpus=(usable[-1],), affinity_hostfile="a 1\n")
        assert host.output() == f"[{usable[-1]}]\na 1\n"
        await host.run(SHOW, job_id=2)
        assert host.output(2) == f"{usable}\n"

    on_host(scenario)


def test_a_job_that_cannot_be_bound_to_all_its_cpus_is_not_started(on_host: OnHost) -> None:
    async def scenario(host: Host) -> None:
        nowhere = await host.run("true", cpus=(8191,))
        assert not nowhere.started
        assert sentence(nowhere.problem).startswith("the job cannot be bound to CPUs [8191]: ")
        partly = await host.run("true", job_id=2, cpus=(min(os.sched_getaffinity(0)), 8191))
        assert not partly.started

    on_host(scenario)


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this kernel shows no memory policies")
def test_memory_is_taken_of_the_nodes_of_the_order_alone(on_host: OnHost) -> None:
    async def scenario(host: Host) -> None:
        bound = await host.run("grep -c bind /proc/self/numa_maps", memory_nodes=(0,))
        if not bound.started:
            assert sentence(bound.problem).startswith("the job cannot be bound to memory of NUMA nodes [0]: ")
            pytest.skip(f"this machine does not let a process bind its memory: {sentence(bound.problem)}")
        assert bound.exit_code == 0
        free = await host.run("grep -c bind /proc/self/numa_maps", job_id=2)
        assert free.exit_code == 1
        nowhere = await host.run("true", job_id=3, memory_nodes=(63,))
        assert not nowhere.started
        assert sentence(nowhere.problem).startswith("the job cannot be bound to memory of NUMA nodes [63]: ")

    on_host(scenario)
