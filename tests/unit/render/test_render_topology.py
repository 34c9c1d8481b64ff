"""Processor units of hosts and of jobs, as `ghosts -aff` and `gjobs -l -aff` print them."""

from __future__ import annotations

from gsched.cli.render.hosts.host_tables import render_long
from gsched.cli.render.hosts.topology import affinity_table, render_topologies
from gsched.cli.render.jobs.job_devices import affinity_units
from gsched.model.hosts.topology import MemoryNode, Processor, Topology
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, CpuBinding, HostAllocation, TaskCpus
from gsched.model.views.view import HostView, JobView

TWO_NODES = Topology(
    (Processor(0, 0, 0, 0), Processor(2, 0, 0, 0), Processor(1, 1, 1, 1), Processor(3, 1, 1, 1)),
    (MemoryNode(0, 16076.8), MemoryNode(1, 16076.8)),
)
TREE = """\
Host[31.4G] hostA
    NUMA[0: - / 15.7G]
        Socket0
            core0(0 *2)
    NUMA[1: - / 15.7G]
        Socket1
            core1(*1 *3)
    Job <7> holds CPU 1,3
    Job <12[2]> holds CPU 2
"""


def test_the_tree_of_a_host_marks_what_is_held() -> None:
    one = HostView(name="hostA", status="ok", affinity="all", topology=TWO_NODES, cpu_jobs={1: "7", 3: "7", 2: "12[2]"})
    off = HostView(name="hostB", status="ok", topology=Topology())
    lost = HostView(name="hostC", status="ok", affinity="0-3")
    assert render_topologies([one]) == TREE
    why = "Host[-] {}\n    no processor units for jobs with affinity[]: {}\n"
    assert render_topologies([off, lost]) == "\n".join(
        (
            why.format("hostB", "AFFINITY is not enabled in lsb.hosts"),
            why.format("hostC", "its agent tells of no such processors"),
        )
    )


def test_the_long_record_of_a_host_tells_the_cpus_and_with_aff_the_tree() -> None:
    record = HostView(name="hostA", status="ok", affinity="0-1", topology=TWO_NODES)
    assert render_long([record]).endswith(" CONFIGURED AFFINITY CPU LIST: 0-1\n")
    assert render_long([record], topology=True).endswith(
        " CONFIGURED AFFINITY CPU LIST: 0-1\n\n AFFINITY: Enabled\n Host[31.4G]\n     NUMA[0: - / 15.7G]\n"
        "         Socket0\n             core0(0 2)\n"
        "     NUMA[1: - / 15.7G]\n         Socket1\n             core1(1 3)\n"
    )


def test_a_line_for_each_unit_of_each_task() -> None:
    text = "affinity[core(2,exclusive=(socket,injob)):cpubind=socket:membind=localonly]"
    first = TaskCpus(cpus=(0, 1), bound=(0, 1, 2), nodes=(0,), units=("/0/0/0", "/0/0/1"))
    second = TaskCpus(cpus=(4, 5), bound=(4, 5, 6), nodes=(1,), units=("/1/1/4", "/1/1/5"))
    plain = CpuBinding(affinity="affinity[thread(1)]", held=(9,), tasks=(TaskCpus(cpus=(9,), units=("/0/0/1/9",)),))
    parts = (
        HostAllocation(host="hostA", slots=2, bindings=(CpuBinding(affinity=text, held=(), tasks=(first, second)),)),
        HostAllocation(host="hostB", slots=1, bindings=(plain,)),
    )
    view = JobView(
        job_id=1,
        spec=JobSpec(command="true", user="ann", queue="normal"),
        state="RUN",
        submitted_at=0.0,
        allocation=Allocation(hosts=parts),
    )
    lines = affinity_table(affinity_units(view)).splitlines()
    assert lines[:5] == [
        "",
        " AFFINITY:",
        "                     CPU BINDING                          MEMORY BINDING",
        "                     ------------------------             --------------------",
        " HOST                TYPE   LEVEL  EXCL   IDS             POL   NUMA SIZE",
    ]
    assert lines[5:] == [
        " hostA               core   socket socket /0/0/0          local 0    -",
        " hostA               core   socket socket /0/0/1          local 0    -",
        " hostA               core   socket socket /1/1/4          local 1    -",
        " hostA               core   socket socket /1/1/5          local 1    -",
        " hostB               thread -      -      /0/0/1/9        -     -    -",
    ]
