"""`gsched web` of a shared cluster under attack: ten thousand silent connections, answers that nobody reads."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab import Host, Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_machine import USERS
from netlab_web import FRONT_UID, SETTINGS, LabBrowser, prepare_host, start_web
from web_visitor import PORT

pytestmark = [pytest.mark.system, pytest.mark.needs_root, pytest.mark.slow]

ADDRESSES = [f"10.77.0.{number}" for number in range(100, 140)]
CONNECTIONS = 10_000
OUTPUT_MB = 30
SLOW = 20


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 is the cluster; evil is somebody's machine in the same network, with forty addresses."""
    host, evil = module_lab.host("h1"), module_lab.host("evil")
    prepare_host(host, ["h1"])
    (evil.folder / "etc/gsched-web-ca.crt").write_bytes((host.folder / "etc/gsched-web.crt").read_bytes())
    for address in ADDRESSES:
        evil.run(["ip", "addr", "add", f"{address}/24", "dev", "eth0"], check=True)
    cluster = shared_cluster(module_lab, [host], settings=SETTINGS)
    start_web(cluster, host)
    return cluster


@contextlib.contextmanager
def attack(evil: Host, *words: str) -> Iterator[dict[str, int]]:
    """What the attacker holds while the block runs."""
    script = str(Path(__file__).with_name("web_attacker.py"))
    process: subprocess.Popen[Any] = evil.popen(
        [sys.executable, "-I", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.stdin.close()
    process.wait(120)


def memory_mib(host: Host, uid: int) -> float:
    """What all processes of that user have in memory."""
    found = 0
    for path in host.path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == uid:
                found += int((path / "statm").read_text().split()[1]) * 4096
    return found / (1 << 20)


def test_ten_thousand_silent_connections_keep_nobody_out(shared: SharedCluster) -> None:
    h1, evil = shared.hosts[0], shared.lab.hosts["evil"]
    with attack(evil, "silent", "h1", str(PORT), str(CONNECTIONS), *ADDRESSES) as held:
        print(f"of {held['tried']} connections {held['held']} are held; the attacker may open {held['limit']} files")
        assert held["tried"] == min(CONNECTIONS, held["limit"] - 20) or held["tried"] > 1000
        assert held["held"] < 3000
        print(f"the front has {memory_mib(h1, FRONT_UID):.0f} MiB")
        assert memory_mib(h1, FRONT_UID) < 600
        for where in (h1, evil):
            alice = LabBrowser(shared, where, h1).entered("alice")
            assert "<strong>alice</strong>" in alice.page("/")
            alice.end()


def test_answers_that_nobody_reads_take_no_memory(shared: SharedCluster) -> None:
    h1, evil = shared.hosts[0], shared.lab.hosts["evil"]
    job = shared.submit(f"head -c {OUTPUT_MB}000000 /dev/zero | tr '\\0' x")
    shared.becomes(job, "DONE")
    alice, bob = LabBrowser(shared, h1, h1).entered("alice"), LabBrowser(shared, h1, h1).entered("bob")
    for each in (alice, bob):
        each.page("/")
    before = memory_mib(h1, FRONT_UID), memory_mib(h1, USERS["alice"])
    with attack(evil, "slow", "h1", str(PORT), str(SLOW), f"/jobs/{job}/output/stdout", alice.cookie) as held:
        assert held["held"] == SLOW
        assert "<strong>bob</strong>" in bob.page("/") and "<strong>alice</strong>" in alice.page("/")
        now = memory_mib(h1, FRONT_UID), memory_mib(h1, USERS["alice"])
        grown = [round(later - then) for later, then in zip(now, before, strict=True)]
        print(f"MiB of the front: {before[0]:.0f} + {grown[0]}, of alice's process: {before[1]:.0f} + {grown[1]}")
        assert max(grown) < 100, "much less than the answers have"
        assert alice.ask("POST", "/leave").status == 303
    for each in (alice, bob):
        each.end()
