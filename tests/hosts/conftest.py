"""Several hosts on one machine: a lab of network-separated ones for each test that asks for one; for hosts that systemd
boots, the system that they are made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import booted
import pytest
from booted_system import USERS, System, fill_wheels
from netlab import Lab, unavailable

from tests.support.fleet_guide import ON_EVERY_HOST, commands_below

BASE = f"""
systemctl enable -q systemd-networkd
for user in {" ".join(f"{name}:{uid}" for name, uid in USERS.items())}; do
  useradd -m -s /bin/bash -u ${{user#*:}} ${{user%:*}}
done
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
printf 'Host *\\nStrictHostKeyChecking accept-new\\nLogLevel ERROR\\n' > /root/.ssh/config
"""


@pytest.fixture
def lab(folder: Path) -> Iterator[Lab]:
    """An empty lab of network-separated hosts; what the daemons of its hosts have logged is shown when a test fails."""
    if unavailable():
        pytest.skip(unavailable())
    with Lab(folder) as made:
        yield made
    for log in sorted(folder.glob("*/var/log/gsched/*.log")):
        print(f"-- {log.relative_to(folder)}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n")


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> System:
    """A Debian with users, where root gets from host to host, and gsched in it as docs/fleet.md installs it."""
    if booted.unavailable():
        pytest.skip(booted.unavailable())
    made = System(tmp_path_factory.mktemp("system") / "system")
    made.add_layer("base", BASE)
    made.own_wheel = fill_wheels(made.wheels, made.layers[-1])
    made.add_layer("installed", "\n".join(commands_below(ON_EVERY_HOST)))
    return made
