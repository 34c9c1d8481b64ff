"""INTERFACE of lsb.hosts in a job's environment: what it sets itself counts, and each host has its own."""

from __future__ import annotations

from gsched.agent.tasks.network_variables import GIVEN_NETWORK, carried_network, network_variables


def given(environment: dict[str, str], *interface: str) -> dict[str, str]:
    """The environment of a job that is submitted with one, on a host with this interface."""
    found = {**environment, **network_variables(environment, interface)}
    return {name: value for name, value in found.items() if value is not None}


def test_libraries_are_told_of_the_interface() -> None:
    told = given({"A": "1"}, "ib0")
    assert told.pop(GIVEN_NETWORK)
    names = ("NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES")
    assert told == {"A": "1", **dict.fromkeys(names, "ib0")}
    assert given({}, "ib0", "mlx5_0:1", "mlx5_1:1")["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert given({"A": "1"}) == {"A": "1"}


def test_what_the_job_sets_counts_on_all_hosts() -> None:
    first = given({"NCCL_SOCKET_IFNAME": "eth9"}, "ib0")
    other = given({"NCCL_SOCKET_IFNAME": "eth9"}, "ib1")
    assert first["NCCL_SOCKET_IFNAME"] == "eth9" and first["UCX_NET_DEVICES"] == "ib0"
    carried = carried_network({**first, "UCX_NET_DEVICES": "mine"}, other)
    assert (carried["NCCL_SOCKET_IFNAME"], carried["UCX_NET_DEVICES"]) == ("eth9", "mine")
    assert carried["OMPI_MCA_btl_tcp_if_include"] == "ib1"


def test_another_host_has_its_own_or_none() -> None:
    first = given({}, "ib0")
    assert carried_network(first, given({}, "ib1")) == given({}, "ib1")
    assert carried_network(first, given({})) == {}
    assert carried_network(given({}), given({}, "ib1")) == given({}, "ib1")


def test_a_job_of_a_job_takes_nothing_for_its_own() -> None:
    outer = given({}, "ib0")
    assert given(outer, "ib1") == given({}, "ib1")
    assert given(outer) == {}
    assert given({**outer, "NCCL_SOCKET_IFNAME": "mine"}, "ib1")["NCCL_SOCKET_IFNAME"] == "mine"
