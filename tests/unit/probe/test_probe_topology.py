"""The processors of a host as the kernel's files describe them, real and invented."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.model.hosts.topology import MemoryNode, Processor, Topology, checked, offered
from gsched.probe.topology import has_several_nodes, read_topology


def sysfs(root: Path, cpus: dict[int, tuple[int, int, str]], *, numa: bool = True) -> Path:
    """CPU -> (node, socket, threads of its core)."""
    for cpu, (node, socket, siblings) in cpus.items():
        folder = root / "cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
        if numa:
            (folder.parent / f"node{node}").mkdir()
            (root / "node" / f"node{node}").mkdir(parents=True, exist_ok=True)
            (root / "node" / f"node{node}" / "meminfo").write_text(f"Node {node} MemTotal:  {(node + 1) * 1024} kB\n")
    return root


def test_cores_are_numbered_over_the_whole_host(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: (0, 0, "0,2"), 1: (1, 1, "1,3"), 2: (0, 0, "0,2"), 3: (1, 1, "1,3")})
    found = read_topology(str(root), range(4))
    assert found is not None
    assert found.processors == (
        Processor(0, 0, 0, 0),
        Processor(1, 1, 1, 1),
        Processor(2, 0, 0, 0),
        Processor(3, 1, 1, 1),
    )
    assert found.memory == (MemoryNode(0, 1.0), MemoryNode(1, 2.0))
    assert [each.cpu for each in offered(found, ())] == [0, 2, 1, 3]
    some = read_topology(str(root), [1, 3])
    assert some is not None and [each.core for each in some.processors] == [0, 0]


def test_a_kernel_without_numa_has_one_node_and_one_that_does_not_tell_none_at_all(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: (0, -1, "0")}, numa=False)
    assert read_topology(str(root), [0]) == Topology((Processor(0, 0, 0, 0),), ())
    assert read_topology(str(root), [0, 1]) is None
    (root / "cpu" / "cpu0" / "topology" / "thread_siblings_list").write_text("none\n")
    assert read_topology(str(root), [0]) is None


def test_whether_it_matters_from_which_node_memory_is(tmp_path: Path) -> None:
    assert has_several_nodes(str(tmp_path))  # nobody knows
    (tmp_path / "node").mkdir()
    for text, several in (("0\n", False), ("0-1\n", True)):
        (tmp_path / "node" / "has_memory").write_text(text)
        assert has_several_nodes(str(tmp_path)) is several


def test_the_machine_itself_is_described_and_passes_the_check() -> None:
    found = read_topology()
    if found is None:
        pytest.skip("this kernel does not tell its topology")
    assert {each.cpu for each in found.processors} == os.sched_getaffinity(0)
    assert checked(found) is found


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (Topology((Processor(0, 0, 0, 0), Processor(0, 1, 0, 0))), "a CPU is named twice"),
        (Topology((Processor(-1, 0, 0, 0),)), "a number is not between 0 and 1000000"),
        (Topology((Processor(0, 0, 0, 2_000_000),)), "a number is not between 0 and 1000000"),
        (Topology((Processor(0, 0, 0, 0), Processor(1, 0, 1, 0))), "core 0 is in two sockets or NUMA nodes"),
        (Topology((), (MemoryNode(0, -1.0),)), "a memory size is below 0"),
        (Topology(tuple(Processor(cpu, cpu, 0, 0) for cpu in range(8193))), "more than 8192 processors"),
    ],
)
def test_nonsense_of_an_agent_is_refused(topology: Topology, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        checked(topology)


@given(st.lists(st.builds(Processor, *[st.integers(0, 3)] * 4), max_size=6))
def test_what_passes_has_each_cpu_once_and_each_core_in_one_place(processors: list[Processor]) -> None:
    try:
        found = checked(Topology(tuple(processors)))
    except BadRequest:
        return
    assert len({each.cpu for each in found.processors}) == len(processors)
    assert len({each.core for each in processors}) == len({(each.core, each.socket, each.numa) for each in processors})
