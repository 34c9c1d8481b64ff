"""The lab itself: what it promises to the tests that stand on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import netlab_machine as machine
import pytest
from netlab import Host, Lab

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

REACH = "import socket, sys; socket.create_connection((sys.argv[1], 7777), float(sys.argv[2])).recv(1)"
LISTEN = """
import contextlib, socket
server = socket.create_server(("", 7777))
print("ready", flush=True)
while True:
    with server.accept()[0] as caller, contextlib.suppress(OSError):
        caller.sendall(bytes(40000))
"""


def reaches(host: Host, other: str, patience_s: float = 60.0) -> bool:
    return host.run(["python", "-c", REACH, other, str(patience_s)]).returncode == 0


def listens(host: Host) -> None:
    server = host.popen(["python", "-c", LISTEN], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"


def test_hosts_have_what_is_theirs(lab: Lab) -> None:
    """Names, users, processes and files of its own; homes and the commands are there for each user."""
    first, second = lab.host("h1"), lab.host("h2")
    assert second.run(["hostname"], user="bob").stdout == "h2\n"
    assert first.run(["id", "-un"], user="alice").stdout == "alice\n"
    first.run(["sh", "-c", "echo hello > note; echo private > /tmp/x; mkdir /var/lib/mine"], check=True)
    first.run(["sh", "-c", "echo hello > note"], user="alice", check=True)
    assert second.run(["cat", "note"], user="alice").stdout == "hello\n"
    assert second.run(["cat", "/home/alice/note"], user="bob").returncode != 0
    assert machine.own_files(second.run(["find", "/tmp", "/var/lib", "-mindepth", "1"]).stdout.splitlines()) == []
    assert "version" in second.run(["gsched", "--version"], user="carol", check=True).stdout
    boots = {host.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout for host in (first, second)}
    assert len(boots) == 2 and Path("/proc/sys/kernel/random/boot_id").read_text() not in boots


def test_network_is_cut_and_mended(lab: Lab) -> None:
    first, second = lab.host("h1"), lab.host("h2")
    listens(first)
    assert reaches(second, "h1")
    second.cut()
    assert not reaches(second, "h1", 0.3)
    second.mend()
    assert reaches(second, "h1")


def test_two_hosts_are_cut_from_each_other_alone(lab: Lab) -> None:
    first, second, third = (lab.host(name) for name in ("h1", "h2", "h3"))
    for host in (first, second):
        listens(host)
    assert reaches(second, "h1") and reaches(first, "h2")
    second.cut_from(first)
    assert not reaches(second, "h1", 0.3) and not reaches(first, "h2", 0.3)
    assert reaches(third, "h1") and reaches(third, "h2")
    second.mend_to(first)
    assert reaches(second, "h1") and reaches(first, "h2")
    second.cut_from(first, hears=True)
    asking = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 7778)); s.settimeout(60); s.recv(1)"
    hearing = second.popen(["python", "-c", f"{asking}; print('heard')"], stdout=subprocess.PIPE, text=True)
    telling = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('h2', 7778))"
    while hearing.poll() is None:
        first.run(["python", "-c", telling], check=True)
    assert hearing.communicate()[0] == "heard\n"
    assert not reaches(first, "h2", 0.3), "what h2 answers does not arrive"


def test_network_loses_packets_and_is_slow(lab: Lab) -> None:
    first, second = lab.host("h1"), lab.host("h2")
    listens(first)
    second.lose(100)
    assert not reaches(second, "h1", 0.3)
    second.lose(0)
    assert reaches(second, "h1")
    second.slow(128)
    fetch = "import socket\nc = socket.create_connection(('h1', 7777))\nwhile c.recv(9999): pass"
    began = time.monotonic()
    second.run(["python", "-c", fetch], check=True)
    assert time.monotonic() - began > 1.5
    second.slow(0)
    assert reaches(second, "h1")


def test_power_cut_ends_everything_but_the_disk(lab: Lab) -> None:
    first, second = lab.host("h1"), lab.host("h2")
    before = second.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    second.run(["sh", "-c", "echo disk > /var/lib/x; echo memory > /run/x"], check=True)
    running = second.popen(["sleep", "1000"])
    second.power_off()
    assert running.wait(120) != 0
    second.boot()
    assert second.run(["cat", "/var/lib/x"]).stdout == "disk\n"
    assert second.run(["cat", "/run/x"]).returncode != 0
    assert second.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != before
    listens(second)
    assert reaches(first, "h2")


def test_nothing_is_left_of_a_lab_whose_maker_was_killed(folder: Path) -> None:
    """Its processes end by themselves; its control groups go when the next lab is made."""
    if machine.unavailable():
        pytest.skip(machine.unavailable())
    code = (
        "import sys, time, pathlib; sys.path.insert(0, sys.argv[1]); from netlab import Lab\n"
        "with Lab(pathlib.Path(sys.argv[2])) as lab:\n"
        "    held = lab.host('h1').popen(['sleep', '98765']); print(lab.hosts['h1']._pid, lab.name, flush=True)\n"
        "    time.sleep(1000)"
    )
    tests = str(Path(__file__).parent)
    maker = subprocess.Popen([sys.executable, "-c", code, tests, str(folder)], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    pid, name = maker.stdout.readline().split()
    os.kill(maker.pid, signal.SIGKILL)
    maker.communicate()
    deadline = time.monotonic() + 120
    while machine.start_of(int(pid)):
        assert time.monotonic() < deadline, "the host runs on"
        time.sleep(0.01)
    machine.sweep()
    left = [path for base in machine.hierarchies() for path in Path(base).glob(f"{name}-*")]
    assert left == []
