"""The job that a launch is of, from the environment of its first host: hosts, slots, GPUs, a port that is free."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from gsched.base.errors import BadRequest
from gsched.dialect.launching.launch_plan import FORWARDED, LaunchHost, LaunchJob

LOOPBACK = "127.0.0.1"


def launched_job(environment: Mapping[str, str]) -> LaunchJob:
    """Raises BadRequest outside of a job."""
    number = environment.get("LSB_BATCH_JID") or environment.get("LSB_JOBID", "")
    words = environment.get("LSB_MCPU_HOSTS", "").split()
    if not number or not words or not environment.get("GSCHED_AGENT_SOCKET"):
        raise BadRequest("it works only inside a job, on the hosts that the job has")
    slots: dict[str, int] = {}
    for name, count in zip(words[::2], words[1::2], strict=False):
        if not count.isdigit():
            raise BadRequest(f"LSB_MCPU_HOSTS: '{count[:40]}' is no number of slots")
        slots[name] = slots.get(name, 0) + int(count)
    gpus = _gpus(environment, list(slots))
    hosts = tuple(LaunchHost(name, count, gpus.get(name, 0), address(name)) for name, count in slots.items())
    return LaunchJob(
        number=number,
        hosts=hosts,
        profile_folder=_profile_folder(environment, number),
        forwarded=tuple(name for name in FORWARDED if environment.get(name)),
    )


def _gpus(environment: Mapping[str, str], hosts: list[str]) -> dict[str, int]:
    """How many GPUs the job has on each of its hosts."""
    if len(hosts) == 1:
        return {hosts[0]: len([each for each in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if each])}
    found = {}
    for part in environment.get("GSCHED_HOST_GPUS", "").split(";"):
        host, _, listed = part.partition(":gpus=")
        if listed:
            found[host] = len(listed.split(","))
    return found


def _profile_folder(environment: Mapping[str, str], number: str) -> str:
    """`prof.7`, `prof.7.2` for element 2 of an array, beside what the job prints; later attempts have their own."""
    name = "prof." + re.sub(r"\[(\d+)\]", r".\1", number)
    attempt = environment.get("GSCHED_ATTEMPT", "1")
    name += f".attempt{attempt}" if attempt != "1" else ""
    return os.path.join(environment.get("LSB_OUTDIR") or os.getcwd(), name)


def address(host: str) -> str:
    """What other hosts reach it by: its name, or this machine's own address where nobody knows that name."""
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return LOOPBACK
    return host


def free_port() -> int:
    """A port that nobody listens on. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def is_taken(port: int) -> bool:
    """Whether somebody listens on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError:
            return True
        return False
