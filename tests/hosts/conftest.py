"""Several hosts on one machine: a lab of network-separated ones for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from netlab import Lab, unavailable


@pytest.fixture
def lab(folder: Path) -> Iterator[Lab]:
    """An empty lab of network-separated hosts; what the daemons of its hosts have logged is shown when a test fails."""
    if unavailable():
        pytest.skip(unavailable())
    with Lab(folder) as made:
        yield made
    for log in sorted(folder.glob("*/var/log/gsched/*.log")):
        print(f"-- {log.relative_to(folder)}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n")
