"""Fixtures: a host whose attempts never outlive the test, real control groups, and devices of GPUs."""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from run_host import CLUSTER, Host

from gsched.run.fence import cgroup_root as cgroup_roots
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.fence.group import V1, V2
from gsched.run.processes import process_tree


@pytest.fixture
def on_host(tmp_path: Path):
    """Run `scenario(host)` in an event loop; afterwards nothing of its attempts may be alive."""

    def run(scenario: Callable[[Host], Awaitable[None]]) -> None:
        async def main() -> None:
            host = Host(tmp_path)
            try:
                await scenario(host)
            finally:
                names = [path.name for path in (host.spool / "attempts").iterdir()]
                host.executor.close()
                table = process_tree.scan()
                for name in names:
                    for process in process_tree.marked(f"{CLUSTER}/{name}", table):
                        process_tree.send(process, signal.SIGKILL)

        asyncio.run(main())

    return run


@pytest.fixture(scope="session")
def waiter_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that waits in the place of supervisors, compiled with all warnings as errors."""
    build = runpy.run_path(str(Path(__file__).parents[3] / "launcher" / "build_launcher.py"))
    return str(build["compile_waiter"](tmp_path_factory.mktemp("a waiter"), (*build["STATIC"], "-Werror")))


@pytest.fixture(params=[V2, V1])
def cgroup_root(request, tmp_path):
    """A place for groups of this version; skipped, with the reason, on a machine that has none."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    tag = f"test-{os.getpid()}"
    bases = dict(cgroup_roots._candidates(tag)).get(request.param)
    if bases is None:
        pytest.skip(f"no control groups {request.param} are mounted")
    place = CgroupRoot(request.param, bases)
    if problem := cgroup_roots._try(place, tmp_path):
        pytest.skip(f"control groups {request.param}: {problem}")
    yield place
    for entry in [entry.name for base in bases for entry in os.scandir(base) if entry.is_dir()]:
        place.group(entry).kill()
        place.group(entry).remove()
    place.leave()


@pytest.fixture
def nodes(tmp_path) -> Path:
    """Device nodes 0 to 7 of GPUs that no driver serves."""
    for minor in range(8):
        try:
            os.mknod(tmp_path / f"nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
    return tmp_path
