"""The pages of a fake master's cluster, served on a unix socket by the real server in this process."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))  # where the fake master is

from fake_master import FakeMaster, serve
from served_pages import Pages, served


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A configuration folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def served_master(folder: Path) -> Iterator[FakeMaster]:
    with serve(FakeMaster(), folder) as found:
        yield found


@pytest.fixture
def master(served_master: FakeMaster) -> FakeMaster:
    """As good as new."""
    live = served_master.live
    served_master.__init__()  # type: ignore[misc]
    served_master.live = live
    return served_master


@pytest.fixture(scope="module")
def shared_pages(folder: Path, served_master: FakeMaster) -> Iterator[Pages]:
    """One server for the tests of a module that do not mind."""
    pages = served(folder, name="shared", read_only=False)
    yield pages
    pages.end()


@pytest.fixture
def new_pages(folder: Path, master: FakeMaster) -> Iterator[Callable[..., Pages]]:
    """`new_pages(read_only=True)`: pages of what the master holds by then; the browser has no session yet."""
    made: list[Pages] = []
    names = (f"w{number}" for number in range(99))

    def make(*, read_only: bool = False) -> Pages:
        made.append(served(folder, name=next(names), read_only=read_only))
        return made[-1]

    yield make
    for pages in made:
        pages.end()


@pytest.fixture
def outside(shared_pages: Pages, master: FakeMaster) -> Pages:
    """A browser that has not come in."""
    shared_pages.cookie, shared_pages.entered_count = "", 0
    return shared_pages


@pytest.fixture
def pages(outside: Pages) -> Pages:
    """A browser that has come in; of jobs and hosts it knows nothing."""
    return outside.entered()
