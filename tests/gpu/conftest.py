"""Checks on the GPUs of this machine, `make gpu-checks`: order, limits of time, what they share, the table at the end.

They run one after the other, since most of them want every GPU for themselves. They change no setting of a GPU.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))

import gpu_machine
from findings import ROWS, Findings, Outcome, table
from gpu_cluster import GpuCluster, MakeGpuCluster

import gsched
from tests.support.folders import new_folder

LIMIT_S = 90
"""Of a test that says nothing of it."""
ORDER = ("detection", "job_use", "visibility", "strangers", "two_clusters", "demo", "checkpoint", "containers", "mps")
"""Files with these names come first: what most depends on the machine."""
LOG_LINES = 40
"""Of each daemon's log, shown of a check that fails."""

_outcomes: dict[str, list[Outcome]] = defaultdict(list)
_measured: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--torch-python", default="", help="a Python that has PyTorch (the tests' own, or python3)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    own = [item for item in items if item.path.is_relative_to(here)]
    if not own:
        return
    reason = gpu_machine.why_none()
    for item in own:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    places = {f"test_gpu_{name}": place for place, name in enumerate(ORDER)}
    own.sort(key=lambda item: places.get(item.path.stem, len(places)))
    items[:] = [item for item in items if not item.path.is_relative_to(here)] + own


def row_of(item: pytest.Item) -> str:
    """The row of the table that a test is of."""
    marker = item.get_closest_marker("row")
    assert marker is not None and marker.args[0] in ROWS, f"{item.nodeid} names no row of the table"
    return str(marker.args[0])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End a check at its limit, and let it fail for what it has found."""
    marker = pyfuncitem.get_closest_marker("limit")
    limit_s = marker.args[0] if marker is not None else LIMIT_S

    def end(*_: object) -> None:
        pytest.fail(f"the check takes longer than {limit_s} seconds", pytrace=False)

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(limit_s)
    try:
        result = yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        found = pyfuncitem.funcargs.get("findings")
        if isinstance(found, Findings):
            print(*found.wrong, *(f"measured {each}" for each in found.measured), sep="\n")
            _measured.extend(found.measured)
    if isinstance(found, Findings) and found.wrong:
        pytest.fail("\n".join(found.wrong), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or not report.passed:
        why = call.excinfo.exconly(tryshort=True) if call.excinfo is not None else ""
        _outcomes[row_of(item)].append(Outcome(report.outcome, why.removeprefix("Failed: ").removeprefix("Skipped: ")))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _outcomes:
        return
    terminalreporter.write_line("")
    for line in table(gpu_machine.described(), _outcomes):
        terminalreporter.write_line(line)
    terminalreporter.write_line("")
    terminalreporter.write_line(
        f"gsched {gsched.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    for line in _measured:
        terminalreporter.write_line(f"  {line}")


@pytest.fixture
def findings() -> Findings:
    return Findings()


@contextlib.contextmanager
def clusters() -> Iterator[MakeGpuCluster]:
    """What makes clusters that are down at the end; the words are those of GpuCluster.begin. No log may hold a
    traceback.
    """
    base = new_folder()
    made: list[GpuCluster] = []

    def make(kind: Callable[[Path], GpuCluster] = GpuCluster, **settings: Any) -> GpuCluster:
        cluster = kind(base / f"c{len(made)}")
        made.append(cluster)
        cluster.begin(**settings)
        return cluster

    yield make
    for cluster in made:
        cluster.down()
    logs = "".join(cluster.logs() for cluster in made)
    shutil.rmtree(base, ignore_errors=True)
    if "Traceback" in logs:
        pytest.fail(f"a daemon has logged: {logs[logs.index('Traceback') :][:3000]}", pytrace=False)


@pytest.fixture(scope="module")
def make_cluster() -> Iterator[MakeGpuCluster]:
    """Makes clusters that the tests of one file share."""
    with clusters() as make:
        yield make


@pytest.fixture(scope="session")
def cluster() -> Iterator[GpuCluster]:
    """One of plain settings, for all that need no others."""
    with clusters() as make:
        yield make()


@pytest.fixture(autouse=True)
def usable_gpus(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip what the GPUs cannot be used for; a check that is marked `looks_only` uses none. What a check has left
    running in its cluster has ended before the next one.
    """
    waiting = Findings()
    looks_only = request.node.get_closest_marker("looks_only") is not None
    if not looks_only:  # what the last check had on a GPU may be there for a moment
        waiting.comes(lambda: not gpu_machine.processes(), "no process is on a GPU")
    why = gpu_machine.why_not_looked_at() or ("" if looks_only else gpu_machine.why_not_usable())
    if why:
        pytest.skip(why)
    yield
    for found in (request.node.funcargs or {}).values():  # none where the run was broken off
        if isinstance(found, GpuCluster):
            found.end_jobs()
            for log in sorted((found.folder / "log").glob("*.log")):  # pytest shows it when the test failed
                print(f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-LOG_LINES:], sep="\n")


@pytest.fixture
def any_torch(request: pytest.FixtureRequest) -> str:
    """A Python that has PyTorch; empty where there is none."""
    return gpu_machine.torch_python(request.config.getoption("--torch-python", ""))


@pytest.fixture
def torch_python(any_torch: str) -> str:
    """A Python that has PyTorch."""
    if not any_torch:
        pytest.skip("no Python with PyTorch here (--torch-python)")
    return any_torch
