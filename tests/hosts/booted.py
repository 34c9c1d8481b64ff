"""Hosts that systemd has booted, for tests: containers on a bridge, with a Debian of their own and gsched installed.

    with Fleet(folder, system) as fleet:
        a, b = fleet.boot("h1"), fleet.boot("h2")
        a.run("systemctl is-system-running", check=True); b.reboot(); b.run("gjobs", user="alice")

All hosts share one file system below (`System`: made once by debootstrap, kept in a cache) and write to layers of their
own; they share /home. Bridge, mounts and containers live in namespaces of one process that ends with this one: nothing
is left on the machine but empty control groups, which the next fleet or lab removes.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import netlab_machine as machine
from booted_system import System

TOOLS = ("unshare", "nsenter", "ip", "systemd-nspawn", "debootstrap")
NETWORK = "10.78.0"
BOOT_S = 300.0
REBOOTS = 133
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COUNT = itertools.count()


@functools.cache
def unavailable() -> str:
    """Why this machine cannot boot containers; empty when it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: debootstrap, systemd-container)"
    return machine.unavailable()


class Fleet:
    """The hosts and what they share. `folder` is for their files; whoever made it removes it."""

    def __init__(self, folder: Path, system: System) -> None:
        self.folder = folder
        self.system = system
        self.hosts: dict[str, Host] = {}
        self.name = f"{machine.PREFIX}-{os.getpid()}-{machine.start_of(os.getpid())}-{next(_COUNT)}b"
        self._yard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Fleet:
        machine.sweep()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        kinds = [
            "--net",
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child=SIGKILL",
            "--mount-proc",
        ]
        self._yard = subprocess.Popen(
            ["unshare", *kinds, "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
        )
        machine.wait_for_namespace(self._yard.pid)
        until(lambda: self.yard, "the bridge's process has no child")
        machine.run(["cp", "-a", str(self.system.home), str(self.folder / "home")])
        self.outside("ip link add fleet type bridge && ip link set fleet up")
        return self

    def __exit__(self, *_: object) -> None:
        if self._yard is not None:
            self._yard.kill()
            self._yard.communicate()
        for host in self.hosts.values():
            until(lambda host=host: host.is_gone(), f"{host.name} does not end")

    @property
    def yard(self) -> int:
        """The process in whose namespaces everything lies; 0 while there is none yet."""
        assert self._yard is not None
        return next(iter(_children(self._yard.pid)), 0)

    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.yard), "-n", "-m", "-p"]

    def outside(self, script: str) -> None:
        """Run a script beside the hosts, where their bridge and mounts are."""
        machine.run([*self.enter(), "sh", "-c", script])

    def add(self, name: str) -> Host:
        """A new host, not booted; all hosts know its name from their next boot on, and those that are on at once."""
        made = Host(self, name, len(self.hosts) + 1)
        self.hosts[name] = made
        made.install()
        for host in self.hosts.values():
            host.learn_names()
        return made

    def boot(self, name: str) -> Host:
        made = self.add(name)
        made.boot()
        return made


class Host:
    """One container. Its files outlive its boots."""

    def __init__(self, fleet: Fleet, name: str, number: int) -> None:
        self.fleet = fleet
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.folder = fleet.folder / name
        self.group = f"{fleet.name}-{name}"
        self._nspawn: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Host {self.name}>"

    @property
    def root(self) -> Path:
        """Where its files lie, within the fleet's mounts alone."""
        return self.folder / "root"

    @property
    def is_on(self) -> bool:
        return self._nspawn is not None and self._nspawn.poll() is None

    def is_gone(self) -> bool:
        """Whether nothing of it is left; what can be removed is."""
        machine.remove_groups(self.group)
        return not self.is_on and not any((Path(base) / self.group).exists() for base in machine.hierarchies())

    def install(self) -> None:
        """Its layer of files, mounted over the system's."""
        for name in ("own", "work", "root"):
            (self.folder / name).mkdir(parents=True)
        lower = ":".join(map(str, self.fleet.system.layers))
        options = f"lowerdir={lower},upperdir={self.folder}/own,workdir={self.folder}/work"
        self.fleet.outside(f"mount -t overlay overlay -o {shlex.quote(options)} {shlex.quote(str(self.root))}")
        own = self.folder / "own/etc"
        self.fleet.outside(f"mkdir -p {self.root}/etc/systemd/network && rm -f {self.root}/etc/hostname")
        self.write("/etc/hostname", self.name + "\n")
        self.write("/etc/resolv.conf", "")
        self.write(
            "/etc/systemd/network/10-host0.network",
            f"[Match]\nName=host0\n[Network]\nAddress={self.address}/24\nLinkLocalAddressing=no\n",
        )
        assert own.is_dir()

    def learn_names(self) -> None:
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in self.fleet.hosts.values())]
        self.write("/etc/hosts", "\n".join([*lines, ""]))

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file there."""
        target = shlex.quote(f"{self.root}{path}")
        script = f"rm -f {target}; cat > {target} && chmod {mode:o} {target}"
        machine.run([*self.fleet.enter(), "sh", "-c", script], text)

    def boot(self) -> None:
        """Turn it on, and wait until systemd has started everything."""
        assert not self.is_on, f"{self.name} is on"
        groups = machine.make_groups(self.group)
        joins = " ".join(f"echo 0 > {shlex.quote(path)}/cgroup.procs 2>/dev/null;" for path in groups.values())
        words = ["systemd-nspawn", "--quiet", "--directory", str(self.root), "--boot", "--register=no", "--keep-unit"]
        words += [
            f"--bind={self.fleet.folder}/home:/home",
            "--network-bridge=fleet",
            f"--machine={self.name}",
            "--console=pipe",
            *self.fleet.system.options,
        ]
        self._nspawn = subprocess.Popen(
            [*self.fleet.enter(), "sh", "-c", f"{joins} exec {shlex.join(words)}"],
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "console").open("ab"),
            stderr=subprocess.STDOUT,
        )
        self.comes_up()

    def comes_up(self) -> None:
        def is_up() -> bool:
            assert self.is_on, f"{self.name}: {(self.folder / 'console').read_text(errors='replace')[-2000:]}"
            with contextlib.suppress(subprocess.TimeoutExpired):  # entered a moment before it ended
                return bool(self.leader) and self.run("systemctl is-system-running", timeout_s=60).stdout == "running\n"
            return False

        try:
            until(is_up, f"{self.name} does not come up", BOOT_S)
        except AssertionError as error:
            found = self.leader and self.run(
                "systemctl --failed --no-legend; systemctl list-jobs; journalctl -b -n 30 --no-pager"
            )
            error.add_note(found.stdout + found.stderr if found else "")
            raise

    @property
    def leader(self) -> int:
        """Process id of its systemd; 0 while there is none."""
        if self._nspawn is None:
            return 0
        # nsenter, nspawn, its inner child, systemd: the one that is process 1 of a namespace below the yard's.
        for pid in _descendants(self._nspawn.pid):
            with contextlib.suppress(OSError, IndexError, ValueError):
                status = Path(f"/proc/{pid}/status").read_text()
                numbers = status.partition("NSpid:")[2].splitlines()[0].split()
                name = status.partition("Name:\t")[2].splitlines()[0]
                if numbers[-1] == "1" and len(numbers) > 2 and name == "systemd":
                    return pid
        return 0

    def run(
        self,
        script: str,
        *,
        user: str = "root",
        check: bool = False,
        timeout_s: float = 180.0,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in it, as at a login."""
        words = self._entering({"PATH": PATH, "LC_ALL": "C.UTF-8", **(env or {})})
        words += ["runuser", "-l", user, "-w", ",".join(env or ()), "-c", script] if user != "root" else []
        words += ["HOME=/root", "USER=root", "bash", "-lc", script] if user == "root" else []
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {script}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def popen(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program of root's in it, and talk with it."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([*self._entering({"PATH": PATH}), *words], text=True, **pipes)

    def _entering(self, env: Mapping[str, str]) -> list[str]:
        leader = self.leader
        assert leader, f"{self.name} is off"
        variables = [f"{name}={value}" for name, value in env.items()]
        return ["nsenter", "-t", str(leader), "-a", "--wdns=/", "env", "-i", *variables]

    def reboot(self) -> None:
        """As an administrator reboots it."""
        self.run("systemctl --no-block reboot", check=True)
        until(lambda: not self.is_on, f"{self.name} does not go down", BOOT_S)
        # So nspawn says that its container wants to be started again.
        assert self._nspawn is not None and self._nspawn.returncode == REBOOTS
        self.boot()

    def power_off(self) -> None:
        """Without a warning to anybody."""
        assert self._nspawn is not None
        leader = self.leader
        # Else its kernel, which is ours, would say good-bye to everybody it talked to.
        self.fleet.outside(f"ip link set vb-{self.name} down")
        for pid in (leader, *_descendants(self._nspawn.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._nspawn.wait(120)
        self._nspawn = None
        self.fleet.outside(f"ip link del vb-{self.name} 2>/dev/null || true")


def until(is_true: Callable[[], object], problem: str, limit_s: float = 120.0) -> None:
    """Wait for what nothing tells of."""
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _descendants(pid: int) -> list[int]:
    found = []
    for child in _children(pid):
        found += [child, *_descendants(child)]
    return found
