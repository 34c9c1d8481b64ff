"""A short question to each host of the job, by glaunch: what cores it has, which files lie there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gsched.app.glaunch import LaunchArguments, LaunchClient, LaunchRefused
from gsched.dialect.launching.rank_file import HostCores
from gsched.wire.messages.launch_protocol import NO_SHELL

MOST_ANSWER = 1 << 20
"""Bytes of a host's answer that are kept."""
_CORES = """\
while read -r name list; do
  if [ "$name" = Cpus_allowed_list: ]; then break; fi
done < /proc/self/status
IFS=,
for range in $list; do
  cpu=${range%-*}
  while [ "$cpu" -le "${range#*-}" ]; do
    read -r socket < "/sys/devices/system/cpu/cpu$cpu/topology/physical_package_id" || exit 1
    read -r core < "/sys/devices/system/cpu/cpu$cpu/topology/core_id" || exit 1
    echo "$socket $core"
    cpu=$((cpu + 1))
  done
done
"""
"""Of each processor that the job may use its socket and core, for /bin/sh."""
_FILES = 'cd "$1" 2>/dev/null || exit 0; for file in *; do if [ -f "$file" ]; then printf "%s\\n" "$file"; fi; done'


class _Question(LaunchClient):
    """A launch whose output is kept."""

    def __init__(self, name: str, hosts: Sequence[str], words: Sequence[str]) -> None:
        arguments = LaunchArguments()
        arguments.shell, arguments.reads = NO_SHELL.encode(), False
        arguments.hosts = [os.fsencode(host) for host in hosts]
        arguments.words = [os.fsencode(word) for word in words]
        super().__init__(name, arguments)
        self.answers = [bytearray() for _ in hosts]

    def _show(self, number: int, stream: int, data: bytes) -> None:
        if stream == 1 and len(self.answers[number]) < MOST_ANSWER:
            self.answers[number] += data


def _ask(name: str, hosts: Sequence[str], words: Sequence[str]) -> list[str]:
    question = _Question(name, hosts, words)
    if question.run():
        raise LaunchRefused("a host of the job does not answer")
    return [answer.decode("utf8", "surrogateescape") for answer in question.answers]


def cores_of(name: str, hosts: Sequence[str]) -> list[HostCores]:
    """What each host has of sockets and cores that the job may use. Raises LaunchRefused, OSError."""
    found = []
    for answer in _ask(name, hosts, ["/bin/sh", "-c", _CORES]):
        cores: dict[str, set[str]] = {}
        for line in answer.splitlines():
            socket, _, core = line.partition(" ")
            cores.setdefault(socket, set()).add(core)
        found.append(HostCores(max(len(cores), 1), min(map(len, cores.values()), default=1)))
    return found


def files_of(name: str, hosts: Sequence[str], folder: str) -> list[list[str]]:
    """The names of the files of a folder on each host. Raises LaunchRefused, OSError."""
    return [answer.splitlines() for answer in _ask(name, hosts, ["/bin/sh", "-c", _FILES, "sh", folder])]
