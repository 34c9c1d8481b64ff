"""Which network a job uses on this host: the column INTERFACE of lsb.hosts as variables of NCCL, Open MPI and UCX.

What the job sets itself counts. Hosts of one job may have other interfaces: a variable that was given on one host is
replaced by what is given on the other, unless somebody has changed it.
"""

from __future__ import annotations

from collections.abc import Mapping

GIVEN_NETWORK = "GSCHED_NETWORK_VARIABLES"
"""Those that were given, as NAME=VALUE separated by blanks: neither has blanks in it."""
_OF_INTERFACE = ("NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")
_OF_DEVICES = "UCX_NET_DEVICES"


def network_variables(environment: Mapping[str, str], interface: tuple[str, ...]) -> dict[str, str | None]:
    """Name -> value, None for what is not to be there. `interface`: its name, and devices of UCX (without any, it)."""
    inherited = {name: None for name, value in _given(environment).items() if environment.get(name) == value}
    found: dict[str, str | None] = {GIVEN_NETWORK: None, **inherited}
    if not interface:
        return found
    wanted = dict.fromkeys(_OF_INTERFACE, interface[0])
    wanted[_OF_DEVICES] = ",".join(interface[1:] or interface)
    given = {name: value for name, value in wanted.items() if name not in environment or name in inherited}
    return {**found, **given, GIVEN_NETWORK: " ".join(f"{name}={value}" for name, value in given.items())}


def carried_network(environment: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process on one host as it is to be on another, which has given `here`."""
    left = {name for name, value in _given(environment).items() if environment.get(name) == value}
    kept = {name: value for name, value in environment.items() if name not in left and name != GIVEN_NETWORK}
    given = {name: value for name, value in _given(here).items() if name not in kept}
    told = {GIVEN_NETWORK: " ".join(f"{name}={value}" for name, value in given.items())} if given else {}
    return {**kept, **given, **told}


def _given(environment: Mapping[str, str]) -> dict[str, str]:
    return dict(each.partition("=")[::2] for each in environment.get(GIVEN_NETWORK, "").split())
