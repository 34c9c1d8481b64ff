"""A container as an order names it: everything is settled, and nothing is looked up any more.

Standard library and msgspec only: the fork server's interpreter loads it.
"""

from __future__ import annotations

import msgspec


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """What each process of an attempt on this host is started in; one container for each task of it."""

    runtime: str
    """`apptainer` or `podman`."""
    program: str
    """Its path."""
    image: str
    name: str
    """Of the job's container; that of a task has the task's name behind it."""
    mounts: tuple[tuple[str, str, bool], ...] = ()
    """(path on the host, path inside, whether it can be read alone)."""
    devices: tuple[str, ...] = ()
    """What Podman's --device names: nodes of GPUs, or their names of CDI."""
    has_gpus: bool = False
    """Apptainer puts the driver's libraries and devices in (--nv)."""
    limits: tuple[str, ...] = ()
    """Limits that Podman of root would set otherwise, as its --ulimit takes them; the others are handed on."""
    user: tuple[int, int] = (0, 0)
    """Numbers of user and group, inside as outside."""
    holds_main: bool = True
    """False: the job's first process starts tasks (glaunch), and they alone run in containers."""
