"""Options and skips that all tests share. A skipped test always prints why."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).resolve().parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.fakenvml.build import NoCompiler, build  # noqa: E402 - the line above makes it importable
from tests.support.folders import new_folder  # noqa: E402
from tests.support.hangingfs import HangingFile  # noqa: E402
from tests.support.needed_postgresql import needed_server  # noqa: E402

UNUSUAL = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Of the environment of who runs the tests: what they start is to behave as on any other machine. Without the first a
program that ends at once may have printed nothing; with the second each daemon compiles a thousand modules anew.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fault-rounds",
        type=int,
        default=1,
        help="how often each random kill is repeated; each way to lose one of two masters a fifth of that, or once",
    )
    parser.addoption("--property-rounds", type=int, default=1, help="how many times the usual examples of a property")


def pytest_configure() -> None:
    for name in UNUSUAL:
        os.environ.pop(name, None)
    # Ignored in the background of a script, or below nohup; what tests start inherits that, and would not end by them.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    for item in items:
        if item.get_closest_marker("needs_root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("needs_gcc") and compiler is None:
            item.add_marker(pytest.mark.skip(reason="needs a C compiler (gcc)"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short private folder: sockets lie in it."""
    path = new_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a fake libnvidia-ml.so.1."""
    try:
        return build(tmp_path_factory.mktemp("fakenvml")).parent
    except NoCompiler as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A server of PostgreSQL; see tests.support.postgresql_server."""
    with needed_server() as server:
        yield server


@pytest.fixture
def hang(tmp_path: Path) -> Iterator[HangingFile]:
    """A file that whoever reads it hangs in the kernel for, until it is released."""
    try:
        file = HangingFile(tmp_path / "mnt")
    except OSError as error:
        pytest.skip(f"no file system can be made to hang here: {error}")
    yield file
    file.release()
