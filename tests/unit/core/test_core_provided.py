"""Resources that LSF's daemons know by themselves: GPUs, processors, the operating system; and types of hosts."""

from __future__ import annotations

import msgspec
import pytest
from core_world import COUNTERS, OTHERS, SHARED, START, World, gpus, load, make_config, spec

from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import GschedError
from gsched.base.sentences import SENTENCES
from gsched.core.dispatch.host_queue_views import host_view
from gsched.master.views.host_choice import admitted
from gsched.model.gpus.xid import describe_xid
from gsched.model.hosts.host import GpuReport, HostConfig
from gsched.model.hosts.resource import Resource, ResourceType
from gsched.model.hosts.topology import Processor, Topology

REPORT = msgspec.structs.replace(
    gpus(
        2,
        mode=SHARED,
        model="NVIDIA Tesla V100-PCIE-32GB",
        memory_mib=32510,
        used_mib=10,
        utilization_percent=7,
        memory_utilization_percent=3,
        temperature_c=46,
        ecc_errors=0,
        pstate=0,
        factor=7.0,
    ),
    driver="535.1",
)
TOPOLOGY = Topology(tuple(Processor(cpu, cpu // 2, cpu // 8, 0) for cpu in range(16)))
SYSTEM = {"ostype": "Linux", "osrel": "6.1.0", "osver": "debian12", "machine": "x86_64"}


def world(*hosts: HostConfig, report: GpuReport = REPORT, **config: object) -> World:
    found = World(make_config(hosts or [HostConfig(name="a", max_slots=16)], **config), connect=False)
    for host in found.config.hosts:
        found.hello(host, topology=TOPOLOGY)
        found.report(host, load=msgspec.structs.replace(load(), **SYSTEM), gpus=report)
    return found


TRUE = (
    "ngpus_physical>0",
    "ngpus_physical==2",
    "gpu_mtotal0>=31G",
    "gpu_mtotal1>32000",
    "gpu_mused0<100",
    "gpu_mode0==0",
    "gpu_ut0<10",
    "gpu_mut1==3",
    "gpu_temp0<80",
    "gpu_ecc0==0",
    "gpu_pstate0==0",
    "gpu_maxfactor>=7",
    "gpu_factor1==7.0",
    "gpu_shared_avg_ut<10",
    "gpu_shared_avg_mut==3",
    "gpu_model0==TeslaV100_PCIE_32GB",
    "gpu_status0==ok",
    "gpu_driver=='535.1'",
    "gpu_busid1=='0:1'",
    "nprocs==2",
    "ncores==4",
    "nthreads==2",
    "ostype==Linux",
    "osrel=='6.1.0'",
    "osver==debian12",
    "type==LINUX",
    "type==X86_64",
    "type==LINUX64",
    "type!=LINUX_ARM64",
    "type==local",
    "type==any",
)
FALSE = (
    "ngpus_physical>2",
    "gpu_mode0==3",
    "gpu_ut0>50",
    "gpu_maxfactor>8",
    "nthreads==1",
    "type==LINUX_ARM64",
    "type!=X86_64",
    "gpu_mtotal2>0",
)


@pytest.mark.parametrize("select", [*TRUE, *FALSE])
def test_a_job_and_a_list_of_hosts_select_by_it(select: str) -> None:
    here = world()
    (job,) = here.run(spec(res_req=f"select[{select}]"))
    expected = select in TRUE
    assert here.state(job) == ("RUN" if expected else "PEND"), here.reasons(job)
    view = host_view(here.config.hosts["a"], here.config, here.engine.state, here.engine.observations.of("a"))
    assert [each.name for each in admitted([view], f"select[{select}]", here.config)] == (["a"] if expected else [])


XID = coded("gpu.until_reset", listed([describe_xid(79), describe_xid(48)]))


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        ("", "-"),
        ("it smells", "it smells"),
        (coded("gpu.too_hot", 90, 85), "gpu.too_hot"),
        (coded("gpu.foreign", 17, "eva", 300, coded("gpu.and_more", 2)), "gpu.foreign"),
        (XID, "xid.79"),
        (describe_xid(7777), "xid.7777"),
        (coded("gpu.until_reset", listed([coded("gpu.memory_worn"), coded("gpu.silent")])), "gpu.memory_worn"),
        (coded("gpu.until_reset", "it is broken"), "gpu.until_reset"),
    ],
)
@pytest.mark.parametrize("in_other_words", [False, True])
def test_the_error_of_a_gpu_is_selected_by_its_code(
    problem: AnyText, word: str, in_other_words: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_other_words:
        for code in list(SENTENCES):
            monkeypatch.setitem(SENTENCES, code, "something else")
    first, second = REPORT.gpus
    ill = msgspec.structs.replace(REPORT, gpus=(msgspec.structs.replace(first, problem=problem), second))
    here = world(report=ill)
    (chosen,) = here.run(spec(res_req=f"select[gpu_error0=='{word}' && gpu_error1=='-']"))
    (other,) = here.run(spec(res_req=f"select[gpu_error0!='{word}']"))
    assert (here.state(chosen), here.state(other)) == ("RUN", "PEND"), here.reasons(chosen)


def test_it_may_be_sorted_by_but_not_reserved() -> None:
    here = world(HostConfig(name="a", max_slots=16), HostConfig(name="b", max_slots=16))
    hot = msgspec.structs.replace(REPORT.gpus[0], utilization_percent=99)
    here.report("a", gpus=msgspec.structs.replace(REPORT, gpus=(hot, REPORT.gpus[1])))
    (job,) = here.run(spec(res_req="order[gpu_ut0]"))
    assert here.job(job).allocation.first_host == "b"
    with pytest.raises(GschedError, match="gpu_ut0"):
        here.submit(spec(res_req="rusage[gpu_ut0=1]"))
    with pytest.raises(GschedError, match="gpu_mode32"):
        here.submit(spec(res_req="select[gpu_mode32==0]"))


def test_a_change_of_the_gpus_lets_a_waiting_job_start() -> None:
    here = world()
    (job,) = here.run(spec(res_req="select[gpu_ut0>50]"))
    assert here.state(job) == "PEND"
    busy = msgspec.structs.replace(REPORT.gpus[0], utilization_percent=99)
    here.report("a", gpus=msgspec.structs.replace(REPORT, gpus=(busy,)))
    here.wait(30)
    here.settle()
    assert here.state(job) == "RUN"


def test_a_value_that_an_elim_reports_counts_first() -> None:
    own = {"gpu_ut0": Resource(name="gpu_ut0", interval_s=60, increasing=True), **COUNTERS, **OTHERS}
    here = world(resources=own, mapped={"gpu_ut0": ("a",), "ngpus": ("a",)})
    (first,) = here.run(spec(res_req="select[gpu_ut0<10]"))
    assert here.state(first) == "RUN"  # nothing is reported: what was probed counts
    here.report("a", load=msgspec.structs.replace(load(external={"gpu_ut0": 60.0}), **SYSTEM))
    (second,) = here.run(spec(res_req="select[gpu_ut0<10]"))
    assert here.state(second) == "PEND"


def test_unknown_is_not_zero() -> None:
    here = world(report=GpuReport(known=False, reason="the driver hangs"))
    ids = here.run(spec(res_req="select[ngpus_physical==0]"), spec(res_req="select[gpu_ut0<50]"))
    assert [here.state(each) for each in ids] == ["PEND", "PEND"]
    assert "unknown" in " ".join(here.reasons(ids[0]))


def test_jobs_run_where_all_types_are_configured_as_in_lsf() -> None:
    """A job that names no type runs on the type of its submission host; that must not be one that no host has."""
    hosts = [HostConfig(name="a", max_slots=16, type="X86_64"), HostConfig(name="b", max_slots=16, type="LINUX_ARM64")]
    here = world(*hosts, host_types=("X86_64", "LINUX_ARM64"))
    jobs = here.run(spec(), spec(res_req="select[type==LINUX_ARM64]"), spec(res_req="select[type==LINUX64]"))
    assert [here.state(each) for each in jobs] == ["RUN", "RUN", "PEND"]
    assert [here.job(each).allocation.first_host for each in jobs[:2]] == ["a", "b"]
    (linux,) = here.run(spec(res_req="select[type==LINUX]", hosts=("b",)))
    assert here.state(linux) == "RUN"


def test_a_type_that_no_host_can_have_is_refused() -> None:
    here = world(host_types=("X86_64",))
    with pytest.raises(GschedError, match="SUNSOL"):
        here.submit(spec(res_req="select[type==SUNSOL]"))
    assert here.now == START and ResourceType.STRING
