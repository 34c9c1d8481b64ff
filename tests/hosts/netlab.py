"""Several hosts on one machine, for tests: namespaces joined by a bridge, each host with disks and users of its own.

    with Lab(folder) as lab:
        a, b = lab.host("h1"), lab.host("h2")
        a.run(["ping", "-c1", "h2"], user="alice", check=True)
        b.cut(); b.mend(); b.power_off(); b.boot()

A host has its own network, names, processes, /etc, /var, /tmp, /run and control groups; the homes of alice, bob and
carol are shared like those of a file server. The repository and its interpreter are there for every user, also where
they lie below a folder that is closed to others. All of it ends with the lab, or with the process that made it: the
bridge lies in a namespace too, so nothing is left on the machine but empty control groups, which the next lab removes.

Needs root, unshare, nsenter, setpriv and ip; `unavailable()` says what is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import netlab_machine as machine
import pytest
from netlab_machine import unavailable

__all__ = ["Host", "Lab", "unavailable"]

BIN = Path(sys.executable).parent
NETWORK = "10.77.0"
_NOBODYS_CARD = "02:00:00:00:00:fe"
_COUNT = itertools.count()


class Lab:
    """The hosts, and the bridge between them. `folder` holds their disks; whoever made it removes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, Host] = {}
        self.name = f"{machine.PREFIX}-{os.getpid()}-{machine.start_of(os.getpid())}-{next(_COUNT)}"
        self._bridge: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Lab:
        machine.sweep()
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        (folder / "hosts").touch()
        machine.make_homes(folder / "home")
        # A namespace of its own: no address, no rule and no bridge of the machine is touched.
        self._bridge = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
        )
        machine.wait_for_namespace(self._bridge.pid)
        self.switch("ip", "link", "add", "lab", "type", "bridge")
        self.switch("ip", "link", "set", "lab", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.power_off()
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge.communicate()

    def host(self, name: str, *, own_homes: bool = False) -> Host:
        """A new host, booted."""
        made = Host(self, name, len(self.hosts) + 1, own_homes)
        self.hosts[name] = made
        lines = ["127.0.0.1 localhost", *(f"{each.address} {each.name}" for each in self.hosts.values())]
        (self.folder / "hosts").write_text("\n".join([*lines, ""]))
        made.install()
        made.boot()
        return made

    @property
    def bridge_pid(self) -> int:
        assert self._bridge is not None
        return self._bridge.pid

    def switch(self, *words: str, stdin: str = "") -> None:
        """Run a command where the bridge is."""
        machine.run(["nsenter", "-t", str(self.bridge_pid), "-n", *words], stdin)


class Host:
    """One host of a lab."""

    def __init__(self, lab: Lab, name: str, number: int, own_homes: bool) -> None:
        self.lab = lab
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.folder = lab.folder / name
        self._port = f"p{number}"
        self._homes = self.folder / "home" if own_homes else lab.folder / "home"
        self._first: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def __repr__(self) -> str:
        return f"<Host {self.name}>"

    # -- power --------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Its disk."""
        self.folder.mkdir(mode=0o755)
        subprocess.run(["cp", "-a", "/etc", str(self.folder / "etc")], check=True)
        machine.add_users(self.folder / "etc")
        (self.folder / "etc/hostname").write_text(self.name + "\n")
        # A name server that does not answer would hold up each look at a name.
        for name in ("resolv.conf", "hosts"):
            (self.folder / "etc" / name).unlink(missing_ok=True)
            (self.folder / "etc" / name).write_text("")
        for name in ("lib", "log", "spool", "cache", "mail", "local", "opt"):
            (self.folder / "var" / name).mkdir(parents=True)
        (self.folder / "var/tmp").mkdir()
        (self.folder / "var/tmp").chmod(0o1777)
        (self.folder / "var/run").symlink_to("/run")
        (self.folder / "var/lock").symlink_to("/run/lock")
        if not self._homes.exists():
            machine.make_homes(self._homes)

    def boot(self) -> None:
        """Turn it on: its files are those that it had, /run and /tmp are empty."""
        assert self._first is None, f"{self.name} is on"
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "boot.json").write_text(json.dumps(self._spec()))
        words = [*machine.new_namespaces(), sys.executable, "-I", "-S", str(Path(__file__).with_name("netlab_boot.py"))]
        first = subprocess.Popen(
            [*words, str(self.folder / "boot.json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert first.stdout is not None
        assert first.stdout.readline() == b"ready\n", f"{self.name} does not boot"
        self._first, self._pid = first, machine.child_of(first.pid)
        self._connect()

    def power_off(self) -> None:
        """Cut its power: no process of it says another word, and what it sends last does not arrive."""
        if self._first is None:
            return
        with contextlib.suppress(subprocess.CalledProcessError):
            self.cut()
        self._thaw()
        self._first.kill()
        self._first.communicate()
        self._first, self._pid = None, 0
        machine.remove_groups(self._group)

    def _spec(self) -> dict[str, Any]:
        needed = machine.needed()
        empty = {"/run": "755", "/tmp": "1777", "/dev/shm": "1777"}
        empty.update({folder: "755" for path in needed if (folder := machine.closed_above(path))})
        return {
            "name": self.name,
            "needed": [str(path) for path in needed],
            "empty": {target: mode for target, mode in empty.items() if os.path.isdir(target)},
            "binds": {
                "/proc/sys/kernel/random/boot_id": str(self.folder / "boot_id"),
                "/etc": str(self.folder / "etc"),
                "/etc/hosts": str(self.lab.folder / "hosts"),
                "/var": str(self.folder / "var"),
                "/home": str(self._homes),
            },
            "control_groups": machine.make_groups(self._group),
        }

    @property
    def _group(self) -> str:
        return f"{self.lab.name}-{self.name}"

    def _thaw(self) -> None:
        """A process that a version 1 group has frozen cannot be killed."""
        for base in machine.hierarchies():
            for path in (Path(base) / self._group).rglob("freezer.state"):
                with contextlib.suppress(OSError):
                    path.write_text("THAWED")

    # -- network ------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        port = self._port
        with contextlib.suppress(subprocess.CalledProcessError):  # of before a power cut
            self.lab.switch("ip", "link", "del", port)
        self.lab.switch("ip", "-batch", "-", stdin=(
            f"link add {port} type veth peer name eth0 netns {self._pid}\n"
            f"link set {port} master lab up\n"
        ))  # fmt: skip
        lines = f"link set lo up\naddr add {self.address}/24 dev eth0\nlink set eth0 up\n"
        machine.run(["nsenter", "-t", str(self._pid), "-n", "ip", "-batch", "-"], lines)

    def cut(self) -> None:
        """Pull the plug of its network."""
        self.lab.switch("ip", "link", "set", self._port, "down")

    def mend(self) -> None:
        """Plug it in again."""
        self.lab.switch("ip", "link", "set", self._port, "up")

    def cut_from(self, *others: Host, hears: bool = False) -> None:
        """Let nothing pass between this host and these, silently; the others hear both. `hears`: nothing from this host
        to these, and all from these.
        """
        for other in others:
            self._misdirect(other)
            if not hears:
                other._misdirect(self)

    def mend_to(self, *others: Host) -> None:
        """Let everything pass again, in both directions."""
        for other in others:
            for host, target in ((self, other), (other, self)):
                if host._pid:
                    host._neighbour("del", target.address)

    def _misdirect(self, other: Host) -> None:
        """Its packets for the other host go to a card that nobody has."""
        self._neighbour("replace", other.address, "lladdr", _NOBODYS_CARD, "nud", "permanent")

    def _neighbour(self, *words: str) -> None:
        with contextlib.suppress(subprocess.CalledProcessError) if words[0] == "del" else contextlib.nullcontext():
            command = ["ip", "neigh", *words, "dev", "eth0"]
            machine.run(["nsenter", "-t", str(self._running), "-n", *command])

    def lose(self, percent: int) -> None:
        """Let so many packets of each direction get lost, at random; 0: none. Skips the test without nft."""
        if shutil.which("nft") is None:
            pytest.skip("needs nft (Debian: nftables)")
        for device, where in ((self._port, self.lab.bridge_pid), ("eth0", self._pid)):
            enter = ["nsenter", "-t", str(where), "-n", "nft", "-f", "-"]
            table = f"table netdev lose_{device}"
            rules = f"{table}\ndelete {table}\n"
            if percent:
                chance = f"numgen random mod 100 < {percent} " if percent < 100 else ""
                hook = f"type filter hook ingress device {device} priority 0;"
                rules += f"{table} {{\nchain c {{\n{hook}\n{chance}drop\n}}\n}}\n"
            machine.run(enter, rules)

    def slow(self, kbit: int) -> None:
        """Let no more than so many kilobits a second pass in each direction; 0: as many as can. Skips without tc."""
        if shutil.which("tc") is None:
            pytest.skip("needs tc (Debian: iproute2)")
        for device, where in ((self._port, self.lab.bridge_pid), ("eth0", self._pid)):
            enter = ["nsenter", "-t", str(where), "-n", "tc", "qdisc"]
            with contextlib.suppress(subprocess.CalledProcessError):
                machine.run([*enter, "del", "dev", device, "root"])
            if kbit:
                shape = f"tbf rate {kbit}kbit burst 4kb latency 500ms".split()
                machine.run([*enter, "add", "dev", device, "root", *shape])

    # -- commands -----------------------------------------------------------------------------------------------------

    def popen(
        self,
        words: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command as this user, in the user's home. Signals go to it with `send`, not to what is returned."""
        home = "/root" if user == "root" else f"/home/{user}"
        lines = {
            "PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/sh",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GSCHED_ENVDIR": "/etc/gsched",
            **(env or {}),
        }
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
        enter = ["nsenter", "-t", str(self._running), "-n", "-u", "-i", "-m", "-p", "--"]
        return subprocess.Popen(
            [
                *enter,
                *become,
                "env",
                "-i",
                "-C",
                cwd or (home if user != "root" else "/"),
                *machine.pairs(lines),
                *words,
            ],
            **options,
        )

    def run(
        self,
        words: Sequence[str],
        *,
        user: str = "root",
        check: bool = False,
        stdin: str = "",
        timeout: float = 300.0,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; with `check` its exit code must be 0."""
        process = self.popen(
            words,
            user=user,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            self.send(process, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{self.name}: {words} has not ended after {timeout:g} s\n{out}\n{err}") from None
        done = subprocess.CompletedProcess(list(words), process.returncode, out, err)
        if check:
            assert done.returncode == 0, f"{self.name}: {words}: exit {done.returncode}\n{out}\n{err}"
        return done

    def send(self, process: subprocess.Popen[Any], number: int) -> None:
        """Signal a command that `popen` has started; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError, StopIteration):
            os.kill(machine.child_of(process.pid), number)
            if number == signal.SIGCONT:
                process.send_signal(number)  # nsenter has stopped with its child, and would outlive it so

    def path(self, path: str) -> Path:
        """A file of the host as this process can reach it; while the host is off only those of its disk."""
        if self._pid:
            return Path(f"/proc/{self._pid}/root{path}")
        return self.folder / path.lstrip("/")

    def kill(self, process: subprocess.Popen[Any], number: int = signal.SIGKILL) -> None:
        """End such a command and wait until it is gone."""
        self.send(process, number)
        process.wait(120)

    @property
    def _running(self) -> int:
        assert self._pid, f"{self.name} is off"
        return self._pid
