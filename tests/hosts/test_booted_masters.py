"""Three hosts that systemd has booted, from nothing to a cluster that survives the loss of any one of them.

They are set up by the very commands of docs/high-availability.md, each run where the page says.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest
from booted import Fleet, Host, until
from booted_system import System

from tests.support.fleet_guide import FROM_EMPTY_HOSTS, Block, blocks_of

pytestmark = [pytest.mark.nightly, pytest.mark.needs_root, pytest.mark.system]

SOON_S = 1800.0
"""Catches a hang only."""
PRIMARY = re.compile(r"^\| (h\d) .*\| Leader ", re.MULTILINE)
STANDBYS = re.compile(r"^\| (h\d) .*\| (?:Sync Standby|Replica) +\| (?:running|streaming) ", re.MULTILINE)


def run_block(fleet: Fleet, block: Block) -> list[str]:
    """Run the commands on the hosts that the page names; what they print."""
    if block.where.startswith("On every host, as root"):
        hosts, user = list(fleet.hosts.values()), "root"
    elif block.where.startswith("On `h1`, as root"):
        hosts, user = [fleet.hosts["h1"]], "root"
    else:
        assert block.where.startswith("On any of them, as any user"), block.where
        hosts, user = [fleet.hosts["h2"]], "alice"
    return [host.run(f"set -e\n{block.script}", user=user, check=True, timeout_s=SOON_S).stdout for host in hosts]


@pytest.fixture(scope="module")
def fleet(masters_system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("masters") / "fleet", masters_system) as made:
        for name in ("h1", "h2", "h3"):
            made.boot(name)
        yield made


class Submissions:
    """alice, who submits one job after another on one of the hosts, until the end of the block."""

    def __init__(self, host: Host) -> None:
        self.numbers: list[int] = []
        self._host = host
        self._is_over = False
        self._thread = threading.Thread(target=self._submit)

    def __enter__(self) -> Submissions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.numbers) + count
        until(lambda: len(self.numbers) >= wanted, f"nothing is acknowledged on {self._host.name}", SOON_S)

    def _submit(self) -> None:
        while not self._is_over:  # what is refused for now, or waits too long, is asked again
            done = self._host.run("gsub -r -o /dev/null true", user="alice", timeout_s=SOON_S)
            self.numbers += [int(number) for number in re.findall(r"Job <(\d+)>", done.stdout)]


def states(host: Host) -> list[str]:
    """STATUS of each host, as this one is told."""
    return [line.split()[1] for line in host.run("ghosts -w", user="alice").stdout.splitlines()[1:]]


def members(host: Host) -> tuple[list[str], list[str]]:
    """Hosts of the primary database and of those that follow it."""
    shown = host.run("patronictl -c /etc/patroni/config.yml list").stdout
    return PRIMARY.findall(shown), STANDBYS.findall(shown)


def is_whole(host: Host) -> bool:
    """Every host is ok, one database is the primary and two follow it, and two masters wait."""
    if states(host) != ["ok"] * 3:
        return False
    primaries, standbys = members(host)
    said = [each.run("systemctl status gsched-master | grep Status").stdout for each in host.fleet.hosts.values()]
    waiting = sum("waits to lead" in line for line in said)
    return (len(primaries), len(standbys), waiting) == (1, 2, 2)


def leader(host: Host) -> str:
    found = re.search(r"My master name is (\S+)", host.run("gid", user="alice").stdout)
    return found[1] if found else ""


def test_the_page_leads_to_a_cluster_that_survives_the_loss_of_any_host(fleet: Fleet) -> None:
    """Each host in turn loses its power under submissions: nothing that was acknowledged is lost, or run twice."""
    _, *blocks = blocks_of("high-availability.md", FROM_EMPTY_HOSTS)
    shown = [run_block(fleet, block) for block in blocks]
    assert "GPU 0 of h3" in shown[-1][0] and "My master name is h" in shown[-1][0], shown[-1]
    hosts = list(fleet.hosts.values())
    acknowledged: list[int] = []
    for lost, other in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
        until(lambda other=other: is_whole(other), "the cluster is not whole", SOON_S)
        print(f"{lost.name} is lost; the master is on {leader(other)}, the primary database on {members(other)[0]}")
        with Submissions(other) as submissions:
            submissions.more(2)
            lost.power_off()
            began = time.monotonic()
            submissions.more(3)
            print(f"three submissions later: {time.monotonic() - began:.1f} s")
            lost.boot()
            submissions.more(2)
        acknowledged += submissions.numbers
    until(lambda: is_whole(hosts[0]), "the cluster is not whole", SOON_S)
    assert len(set(acknowledged)) == len(acknowledged), "a number was given twice"
    until(lambda: ends(hosts[0], acknowledged) == {"DONE"}, f"{ends(hosts[0], acknowledged)}, not DONE", SOON_S)
    checked = fleet.hosts[leader(hosts[0])].run("runuser -u gsched -- /opt/gsched/bin/gadmin check-store", check=True)
    assert "all is well" in checked.stdout


def ends(host: Host, jobs: list[int]) -> set[str]:
    """How they ended."""
    shown = host.run("gjobs -a -noheader -o 'jobid stat'", user="alice").stdout.splitlines()
    found = {int(job): state for job, state in map(str.split, shown)}
    return {found.get(job, "lost") for job in jobs}
