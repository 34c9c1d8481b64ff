"""Several hosts on one machine: a lab of network-separated ones for each test that asks for one; for hosts that systemd
boots, the system that they are made from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import booted
import pytest
from booted_system import USERS, System, fill_wheels
from netlab import Lab, unavailable

from tests.support.fleet_guide import FROM_EMPTY_HOSTS, ON_EVERY_HOST, blocks_of, commands_below
from tests.support.folders import new_folder

BASE = f"""
systemctl enable -q systemd-networkd
for user in {" ".join(f"{name}:{uid}" for name, uid in USERS.items())}; do
  useradd -m -s /bin/bash -u ${{user#*:}} ${{user%:*}}
done
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
printf 'Host *\\nStrictHostKeyChecking accept-new\\nLogLevel ERROR\\n' > /root/.ssh/config
"""


def made_lab(folder: Path) -> Iterator[Lab]:
    """An empty lab of network-separated hosts; what the daemons of its hosts have logged is shown when a test fails."""
    if unavailable():
        pytest.skip(unavailable())
    with Lab(folder) as made:
        yield made
    for log in sorted(folder.glob("*/var/log/gsched/*.log")):
        print(f"-- {log.relative_to(folder)}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n")


@pytest.fixture
def lab(folder: Path) -> Iterator[Lab]:
    """A lab of one test."""
    yield from made_lab(folder)


@pytest.fixture(scope="module")
def module_lab() -> Iterator[Lab]:
    """A lab that the tests of one file share."""
    folder = new_folder()
    yield from made_lab(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> System:
    """A Debian with users, where root gets from host to host, and gsched in it as docs/fleet.md installs it."""
    return installed(tmp_path_factory.mktemp("system") / "system", "\n".join(commands_below(ON_EVERY_HOST)))


def installed(folder: Path, script: str) -> System:
    """Such a Debian, with what the script puts into it."""
    if booted.unavailable():
        pytest.skip(booted.unavailable())
    made = System(folder)
    made.add_layer("base", BASE)
    made.own_wheel = fill_wheels(made.wheels, made.layers[-1])
    made.add_layer("installed", script)
    return made


@pytest.fixture(scope="session")
def masters_system(tmp_path_factory: pytest.TempPathFactory) -> System:
    """The same with what the first block of docs/high-availability.md installs on every host."""
    first = blocks_of("high-availability.md", FROM_EMPTY_HOSTS)[0]
    assert first.where.startswith("On every host, as root"), first
    return installed(tmp_path_factory.mktemp("masters-system") / "system", first.script)
