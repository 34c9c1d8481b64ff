"""gusers, gmgroup, gugroup, glshosts, glsinfo and gacct, and what ghosts, gload and gqueues show on request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec

from gsched.base.coded_text import coded
from gsched.cli.commands.job_views.gacct import MANY
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.catalogue import (
    Account,
    ApplicationView,
    Definitions,
    Grouping,
    ModelView,
    ResourceView,
    TimeSpan,
    UserLimitView,
)
from gsched.model.views.view import GpuView, HostView, JobView, QueueView, ResourceValue

NewCall = Callable[..., FakeCall]


def shown(call: NewCall, *words: str, **env: str) -> str:
    done = call(*words, **env)
    assert done.run() == 0, done.err
    assert done.err == ""
    return done.out


def refused(call: NewCall, *words: str) -> str:
    done = call(*words)
    assert done.run() == 255
    return done.err


# -- users and groups -------------------------------------------------------------------------------------------------

TEST = UserLimitView(
    name="test",
    max_slots=10,
    per_processor=1.0,
    max_pending=50,
    pend=4,
    run=2,
    ssusp=1,
    pending_jobs=3,
    gpus={"ngpus_shared": 1.5},
)
GROUP = UserLimitView(name="a_group_with_a_long_name/", ususp=1, rsv=2)


def test_users(master: FakeMaster, call: NewCall) -> None:
    master.user_views = [TEST, GROUP]
    header, mine = shown(call, "busers").splitlines()
    assert header == "USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV "
    assert mine == "test                   1     10      7      4      2      1      0      0 "
    assert shown(call, "gusers", "-noheader", "all").splitlines()[1] == (
        "a_group_with_a_lon     -      -      3      0      0      0      1      2 "
    )
    assert (
        shown(call, "gusers", "-w", "all").splitlines()[2].startswith("a_group_with_a_long_name/     -      -      3 ")
    )
    assert shown(call, "gusers", "-w").splitlines()[1].endswith("      0      3      -     50 ")
    assert refused(call, "busers", "nobody") == "nobody: Unknown user\n"


def test_users_field_by_field(master: FakeMaster, call: NewCall) -> None:
    master.user_views = [TEST, GROUP]
    assert shown(call, "busers", "-noheader", "-o", "user njobs nstart ngpus mpend", "all") == (
        "test 7 3 1.5 -\na_group_with_a_long_name/ 3 1 0 -\n"
    )
    found = json.loads(shown(call, "busers", "-json", "-o", "user pend", "test"))
    assert found == {"COMMAND": "busers", "USERS": 1, "RECORDS": [{"USER": "test", "PEND": "4"}]}


def test_groups(master: FakeMaster, call: NewCall) -> None:
    master.groupings = {
        "host": [
            Grouping(name="gpu", members=("h1", "rest"), resolved=("h1", "h2")),
            Grouping(name="rest", members=("h2",), resolved=("h2",)),
        ],
        "user": [
            Grouping(
                name="a_long_name_of_it", members=("ann",), resolved=("ann",), shares=("[ann, 3]",), admins=("bob",)
            )
        ],
        "unit": [Grouping(name="rack1", members=("h1",), resolved=("h1",), unit_type="rack")],
    }
    assert shown(call, "bmgroup") == "GROUP_NAME    HOSTS\ngpu           h1 rest/\nrest          h2\n"
    assert shown(call, "bmgroup", "-w", "-r", "gpu/") == "GROUP_NAME    HOSTS\ngpu           h1 h2\n"
    assert shown(call, "gmgroup", "-cu") == "GROUP_NAME    HOSTS\nrack1         h1\n"
    assert shown(call, "bugroup") == "GROUP_NAME    USERS\na_long_name_  ann\n"
    assert shown(call, "bugroup", "-w").splitlines()[1] == "a_long_name_of_it  ann"
    assert shown(call, "bugroup", "-l") == (
        "GROUP_NAME:  a_long_name_of_it\nUSERS:  ann\nGROUP_ADMIN:  bob\nSHARES:  [ann, 3]\n"
    )
    half = call("bmgroup", "rest", "none")
    assert half.run() == 255
    assert (half.out, half.err) == ("GROUP_NAME    HOSTS\nrest          h2\n", "none: No such user/host group\n")


def test_no_groups(master: FakeMaster, call: NewCall) -> None:
    assert refused(call, "bmgroup") == "No host group defined in the system\n"
    assert refused(call, "bugroup") == "No user group defined in the system\n"


# -- hosts and resources ----------------------------------------------------------------------------------------------

HOSTS = [
    HostView(
        name="ubuntu02",
        status="ok",
        type="LINUX",
        model="POWER8_WIDE",
        cpu_factor=60.0,
        ncpus=160,
        load={
            "r15s": 16.0,
            "r1m": 1.0,
            "r15m": 0.5,
            "ut": 0.05,
            "pg": 0.0,
            "io": 3.0,
            "ls": 2.0,
            "it": 7.0,
            "mem": 2048.0,
        },
        externals=(ResourceValue(name="ngpus", total=3.0, reserved=1.0),),
        max_mem_mib=130560.0,
        max_swp_mib=512.0,
        resources=("bigmem", "fast"),
        exclusive_resources=("fast",),
        values={"license": "gold", "seats": 3.0},
        thresholds={"r1m": "3.5/5", "ngpus": "1/-"},
        dispatch_window="20:00-8:00",
    ),
    HostView(
        name="a-host-with-a-long-name", status="unavail", type="LINUX", model="X", server=False, values={"seats": 3.0}
    ),
]


def test_what_hosts_are_made_of(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    header, first, second = shown(call, "lshosts").splitlines()
    assert header == "HOST_NAME      type    model  cpuf ncpus maxmem maxswp server RESOURCES"
    assert first == "ubuntu02      LINUX POWER8_W  60.0   160 127.5G   512M    Yes (bigmem !fast)"
    assert second == "a-host-with   LINUX        X   1.0     -      -      -     No ()"
    wide = shown(call, "lshosts", "-w").splitlines()
    assert wide[1].startswith("ubuntu02                       LINUX POWER8_WIDE  60.0   160 127.5G ")


def test_what_a_host_is_made_of_in_full(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    text = shown(call, "lshosts", "-l")
    assert text.startswith(
        "\nHOST_NAME:  ubuntu02\n"
        "type             model  cpuf ncpus ndisks maxmem maxswp maxtmp rexpri server nprocs ncores nthreads\n"
        "LINUX      POWER8_WIDE  60.0   160      - 127.5G   512M      -      0    Yes      -      -        -\n"
        "\nVALUES: license=gold seats=3\n\nRESOURCES: (bigmem !fast)\nRUN_WINDOWS:  20:00-8:00\n\nLOAD_THRESHOLDS:\n"
        "  r15s   r1m  r15m   ut    pg    io   ls   it   tmp   swp   mem"
    )
    assert "RUN_WINDOWS: Not applicable for client-only host\n" in text


def test_resources_with_their_hosts(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    assert shown(call, "bhosts", "-s").splitlines() == [
        "RESOURCE                 TOTAL       RESERVED       LOCATION",
        "license                   gold              -       ubuntu02",
        "ngpus                      3.0            1.0       ubuntu02",
        "seats                      3.0              -       ubuntu02",
        "seats                      3.0              -       a-host-with-a-long-name",
    ]
    assert shown(call, "lsload", "-s", "ngpus").splitlines()[1] == f"ngpus{'3.0':>40}       ubuntu02"
    assert "ngpus" not in shown(call, "lshosts", "-s")
    assert refused(call, "bhosts", "-s", "nogpus") == "nogpus: Bad resource name\n"


DEFINITIONS = Definitions(
    resources=(
        ResourceView(
            name="r15s", type="Numeric", order="Inc", interval_s=15, builtin=True, dynamic=True, description="run queue"
        ),
        ResourceView(name="bigmem", type="Boolean", order="N/A", description="much memory"),
    ),
    types=("LINUX",),
    models=(ModelView("POWER8", 60.0),),
)


def test_resources(master: FakeMaster, call: NewCall) -> None:
    master.definitions = DEFINITIONS
    assert shown(call, "lsinfo") == (
        "RESOURCE_NAME   TYPE   ORDER  DESCRIPTION\n"
        "r15s          Numeric   Inc   run queue\n"
        "bigmem        Boolean   N/A   much memory\n"
        "\nTYPE_NAME\nLINUX\n"
        "\nMODEL_NAME      CPU_FACTOR      ARCHITECTURE\n"
        "POWER8               60.00\n"
    )
    assert shown(call, "lsinfo", "-l", "r15s") == (
        "\nRESOURCE_NAME:  r15s\nDESCRIPTION: run queue\n"
        "TYPE    ORDER  INTERVAL  BUILTIN  DYNAMIC  RELEASE  CONSUMABLE\n"
        "Numeric   Inc        15      Yes      Yes      Yes          No\n"
    )
    assert shown(call, "lsinfo", "-t") == "TYPE_NAME\nLINUX\n"
    assert refused(call, "lsinfo", "nothing") == "nothing: resource name not found.\n"


def test_load_in_full_and_in_part(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    header, first, gone = shown(call, "lsload", "-l").splitlines()
    assert header == (
        "HOST_NAME               status  r15s   r1m  r15m   ut    pg    io  ls    it   tmp   swp   mem  ngpus"
    )
    assert first == (
        "ubuntu02                    ok  16.0   1.0   0.5   5%   0.0     3   2     7     -     -    2G    3.0"
    )
    assert gone == "a-host-with-a-long-name unavail"
    assert shown(call, "lsload", "-I", "r1m:ngpus", "-noheader", "-n", "1") == "ubuntu02            ok   1.0    3.0\n"
    assert " 0.1 " in shown(call, "lsload", "-E", "-I", "r15s:ut")
    assert "unknown load index" in refused(call, "lsload", "-I", "r1m:x")
    assert "not a number of hosts" in refused(call, "lsload", "-n", "0")


def test_the_master_chooses_hosts_by_requirement(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    for command in ("bhosts", "lsload", "lshosts"):
        shown(call, command, "-R", "select[mem>5]")
        assert master.requests[-1].requirement == "select[mem>5]"  # type: ignore[attr-defined]


def test_a_requirement_for_hosts_has_the_clusters_unit(master: FakeMaster, call: NewCall, folder: Path) -> None:
    master.host_views = HOSTS
    (folder / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=GB\n")
    for command in ("bhosts", "lsload", "lshosts"):
        shown(call, command, "-R", "select[mem>5]")
        assert master.requests[-1].requirement == "select[mem>5GB]"  # type: ignore[attr-defined]


def test_load_as_an_exporter_of_metrics_reads_it(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS[:1]
    text = shown(call, "lsload", "-o", "*", "-R", "select[!mg]", "-json")
    found = json.loads(text)
    (record,) = found["RECORDS"]
    assert (found["COMMAND"], found["HOSTS"]) == ("lsload", 1)
    keys = ["HOST_NAME", "status", "r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem", "ngpus"]
    assert list(record) == keys
    assert (record["status"], record["ut"], record["mem"], record["tmp"]) == ("ok", "5%", "2048M", "")


def test_hosts_as_an_exporter_of_metrics_reads_them(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [HostView(name="h", status="ok", gpu_provider="none", load={"mem": 100.0}, max_slots=4)]
    (record,) = json.loads(
        shown(call, "bhosts", "-o", "all", "-R", "select[mg]", "-json", LSB_UNIT_FOR_JOBS_DISPLAY="M")
    )["RECORDS"]
    numbers = (
        *("MAX", "NJOBS", "RUN", "SSUSP", "USUSP", "RSV", "NGPUS", "NGPUS_ALLOC", "NGPUS_EXCL_ALLOC"),
        *("NGPUS_SHARED_ALLOC", "NGPUS_SHARED_JEXCL_ALLOC", "NGPUS_EXCL_AVAIL", "NGPUS_SHARED_AVAIL"),
    )
    assert all(float(record[name]) >= 0 for name in numbers)
    assert [float(record[name].replace("M", "")) for name in ("AVAILABLE_MEM", "RESERVED_MEM")] == [100.0, 0.0]


def test_queues_that_a_user_or_a_host_has(master: FakeMaster, call: NewCall) -> None:
    master.host_views = HOSTS
    master.queue_views = [
        QueueView(name="open", priority=3),
        QueueView(name="ann", priority=2, users=("ann",), hosts=("ubuntu02+1",)),
        QueueView(name="notann", priority=1, facts={"EXCLUDED_USERS": "ann"}, hosts=("other",)),
    ]

    def names(*words: str) -> list[str]:
        return shown(call, "bqueues", "-noheader", "-o", "queue_name", *words).split()

    assert names("-u", "ann") == ["open", "ann"]
    assert names("-u", "bob") == ["open", "notann"]
    assert names("-m", "ubuntu02") == ["open", "ann"]
    assert names("-u", "all") == ["open", "ann", "notann"]
    assert "nohost: Bad host name" in refused(call, "bqueues", "-m", "nohost")


GPUS = HostView(
    name="ac922a",
    status="ok",
    gpu_provider="nvml",
    gpus=tuple(
        GpuView(
            gpu=Gpu(
                uuid=f"GPU-{index}",
                index=index,
                model="Tesla V100-SXM2-16GB",
                mode=(ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS)[index],
                memory_mib=32480,
                used_mib=2048 * index,
                utilization_percent=40,
                temperature_c=46,
                numa=8 * index,
            ),
            holders=("7.1",) if index else (),
        )
        for index in (0, 1)
    ),
)


def test_gpus_of_hosts(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [GPUS, HostView(name="gone", status="unavail")]
    held = HeldGpu(uuid="GPU-1", index=1, claim="ngpus_excl_p", gmem_mib=4096.0)
    where = Allocation(hosts=(HostAllocation(host="ac922a", slots=1, gpus=(held,)),))
    master.views = [JobView(job_id=7, spec=spec(), state="USUSP", submitted_at=1.0, allocation=where)]
    assert shown(call, "bhosts", "-w", "-gpu") == (
        "HOST_NAME            GPU_ID                MODEL     MUSED      MRSV  NJOBS    RUN   SUSP    RSV \n"
        "ac922a                    0  TeslaV100_SXM2_16GB        0G        0G      0      0      0      0 \n"
        "                          1  TeslaV100_SXM2_16GB        2G        4G      1      0      1      0 \n"
    )
    assert shown(call, "lsload", "-gpu") == (
        "HOST_NAME       status  ngpus  gpu_shared_avg_mut  gpu_shared_avg_ut  ngpus_physical\n"
        "ac922a              ok      2                   -                40%               2\n"
        "gone            unavail      -                   -                  -               -\n"
    )
    header, first, second = shown(call, "lsload", "-gpuload").splitlines()
    ends = [21, 33, 44, 54, 64, 72, 81, 92, 102, 115, 128, 140]
    assert [match.end() for match in re.finditer(r"gpu\S+", header)] == ends
    assert first.split() == ["ac922a", "0", "TeslaV100_S", "0.0", "46C", "-", "40%", "-", "31.7G", "0M", "-", "ok", "-"]
    assert second.split()[:3] == ["1", "TeslaV100_S", "3.0"] and len(second) == 140
    models = shown(call, "lshosts", "-gpu").splitlines()
    assert [match.end() for match in re.finditer(r"\S+", models[0])][1:] == [18, 34, 47, 60, 73]
    assert models[2].split() == ["1", "TeslaV100_SXM2_", "-", "-", "8"]
    assert "-gpu goes with" in refused(call, "bhosts", "-gpu", "-l", "-w")


def test_a_gpu_that_is_not_offered_is_named_below_the_table(master: FakeMaster, call: NewCall) -> None:
    first, second = GPUS.gpus
    dirty = msgspec.structs.replace(first, gpu=msgspec.structs.replace(first.gpu, problem="dirty(4711,700)"))
    master.host_views = [msgspec.structs.replace(GPUS, gpus=(dirty, second))]
    lines = shown(call, "bhosts", "-gpu").splitlines()
    assert lines[3:] == ["GPU 0 of ac922a is not offered: dirty(4711,700)"]
    assert len(shown(call, "bhosts", "-gpu", "-noheader").splitlines()) == 2


def test_a_gpu_that_an_administrator_closed_is_shown_with_who_when_why_and_until_when(
    master: FakeMaster, call: NewCall
) -> None:
    first, second = GPUS.gpus
    closure = GpuClosure(
        host="ac922a", uuid=second.gpu.uuid, index=7, by="ann", at=1499250851.0, comment="new\nfan", until=1499254451.0
    )
    problem = coded("gpu.closed_because", "ann", "new\nfan")
    shut = msgspec.structs.replace(second, gpu=msgspec.structs.replace(second.gpu, problem=problem), closure=closure)
    master.host_views = [msgspec.structs.replace(GPUS, gpus=(first, shut))]
    times = ("Wed Jul  5 10:34:11 2017", "Wed Jul  5 11:34:11 2017")
    told = f"is closed by ann since {times[0]} until {times[1]}: new;fan"
    lines = shown(call, "bhosts", "-gpu").splitlines()
    assert [line.split() for line in lines[3:]] == [f"GPU 1 of ac922a {told}".split()]
    long = shown(call, "bhosts", "-gpu", "-l")
    assert f"GPU 1 {told}".split() in [line.split() for line in long.splitlines()] and "ERROR of GPU" not in long
    rows = json.loads(shown(call, "bhosts", "-gpu", "-json"))["RECORDS"]
    fields = ("CLOSED_BY", "CLOSED_AT", "CLOSED_UNTIL", "CLOSED_FOR")
    assert [[row.get(field) for field in fields] for row in rows] == [[None] * 4, ["ann", *times, "new\nfan"]]
    assert [row.split()[11] for row in shown(call, "lsload", "-gpuload").splitlines()[1:]] == ["ok", "closed"]


def test_application_profiles(master: FakeMaster, call: NewCall) -> None:
    assert refused(call, "bapp") == "No application profile found\n"
    master.applications = [
        ApplicationView(
            name="training",
            description="long runs",
            pend=4,
            run=2,
            ususp=1,
            limits={"CPULIMIT": 36000.0, "MEMLIMIT": 2048.0 * 1024},
            run_limit_s=12000,
            facts={"TASKLIMIT": "1 2 9", "RERUNNABLE": "Y"},
        ),
        ApplicationView(name="other"),
    ]
    assert shown(call, "bapp") == (
        "APP_NAME           NJOBS     PEND      RUN     SUSP\n"
        "training               7        4        2        1\n"
        "other                  0        0        0        0\n"
    )
    text = shown(call, "bapp", "-l", "training")
    assert text.startswith(
        "\nAPPLICATION NAME: training\n -- long runs\n\nSTATISTICS:\n"
        "   NJOBS     PEND      RUN    SSUSP    USUSP      RSV\n"
        "       7        4        2        0        1        0\n\nPARAMETERS:\n CPULIMIT "
    )
    assert text.endswith("\nTASKLIMIT: 1 2 9\nRERUNNABLE: Y\n")
    half = call("gapp", "other", "none")
    assert half.run() == 255 and half.err == "none: No such application profile\n" and "other" in half.out


# -- accounting -------------------------------------------------------------------------------------------------------

SUBMITTED = 1499426875.0
"""Jul  7 11:27:55 2017."""


def account(job_id: int, state: str = "DONE", gpu_s: float = 0.0, **result: object) -> Account:
    usage = Usage(cpu_s=0.08, max_mem_mib=5.0, swap_mib=22.0)
    view = JobView(
        job_id=job_id,
        spec=spec(name="run"),
        state=state,
        submitted_at=SUBMITTED,
        allocation=allocation(0, 1),
        effective_req="select[ngpus>0]",
        dispatched_at=SUBMITTED + 50,
        finished_at=SUBMITTED + 117,
        result=AttemptResult(usage=usage, **result),  # type: ignore[arg-type]
        share_group="/test",
    )
    return Account(
        job_id=job_id,
        user="test",
        queue="normal",
        state=state,
        submitted_at=SUBMITTED,
        dispatched_at=SUBMITTED + 50,
        finished_at=SUBMITTED + 117,
        cpu_s=0.08,
        run_s=67.0,
        gpu_s=gpu_s,
        job=view,
    )


HEADING = (
    "\nAccounting information about jobs that are: \n"
    "  - submitted by users test, \n"
    "  - accounted on all projects.\n"
    "  - completed normally or exited\n"
    "  - executed on all hosts.\n"
    "  - submitted to all queues.\n"
    "  - accounted on all service classes.\n" + "-" * 78 + "\n\n"
)


def test_a_summary_of_what_jobs_took(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [account(1), account(2, "EXIT", 7200.0, exit_code=3)]
    assert shown(call, "bacct") == (
        HEADING + "SUMMARY:      ( time unit: second ) \n"
        " Total number of done jobs:       1      Total number of exited jobs:     1\n"
        " Total CPU time consumed:       0.2      Average CPU time consumed:     0.1\n"
        " Maximum CPU time of a job:     0.1      Minimum CPU time of a job:     0.1\n"
        " Total wait time in queues:   100.0\n"
        " Average wait time in queue:   50.0\n"
        " Maximum wait time in queue:   50.0      Minimum wait time in queue:   50.0\n"
        " Average turnaround time:       117 (seconds/job)\n"
        " Maximum turnaround time:       117      Minimum turnaround time:       117\n"
        " Average hog factor of a job:  0.00 ( cpu time / turnaround time )\n"
        " Maximum hog factor of a job:  0.00      Minimum hog factor of a job:  0.00\n"
        " Beginning time:       Jul  7 11:29      Ending time:          Jul  7 11:29\n"
        " Total GPU time consumed:      2.00 hours (GPUs held * time), in 1 job(s)\n"
        " Maximum GPU time of a job:    2.00 hours\n"
    )


def test_what_each_job_took(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [account(1743, gpu_s=134.0, exit_code=0), account(1744, "EXIT", term_reason="TERM_RUNLIMIT")]
    out = shown(call, "bacct", "-UF", "1743", "1744")
    assert "  - submitted by all users.\n" in out
    first, second, summary = out.split("-" * 78 + "\n\n")[1:]
    assert first.startswith(
        "Job <1743>, Job Name <run>, User <test>, Project <default>, Status <DONE>, Queue <normal>, Command <sudo "
    )
    assert first.endswith(
        "Fri Jul  7 11:28:45: Dispatched 1 Task(s) on Host(s) <ubuntu02>, Allocated 1 Slot(s) on Host(s) <ubuntu02>, "
        "Effective RES_REQ <select[ngpus>0] >;\n"
        "Fri Jul  7 11:29:52: Completed <done>.\n"
        "\nAccounting information about this job:\n"
        "     Share group charged </test>\n"
        "     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP\n"
        "      0.08       50            117     done         0.0007     5M    22M\n"
        "     GPUs: 2;  GPU time: 0.0372 hours\n"
    )
    assert "Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n" in second
    assert summary.startswith("SUMMARY: ")
    assert all(len(line) <= 79 for line in shown(call, "bacct", "-l", "1743").splitlines())


def test_many_accounts_are_laid_out_by_the_callers_own_process(master: FakeMaster, call: NewCall) -> None:
    for count, is_handed_over in ((MANY, False), (MANY + 1, True)):
        master.accounts = [account(number) for number in range(1, count + 1)]
        taken = []
        gacct = call("gacct", "-u", "all")
        gacct.take_over = lambda taken=taken, gacct=gacct: taken.append(gacct.out)  # type: ignore[method-assign]
        assert gacct.run() == 0
        assert taken == ([""] if is_handed_over else []), "before anything is said"
        done, exited = re.search(r"done jobs: +(\d+) .*exited jobs: +(\d+)", gacct.out).groups()  # type: ignore[union-attr]
        assert int(done) + int(exited) == count


def test_a_line_for_each_job(master: FakeMaster, call: NewCall) -> None:
    master.accounts = [account(1743)]
    lines = shown(call, "gacct", "-b").split("-" * 78 + "\n")[1].splitlines()
    assert lines[2].split() == [
        "test",
        "normal",
        "Jul",
        "7",
        "11:27",
        "0.08",
        "50",
        "117",
        "ubuntu02",
        "ubuntu02",
        "run",
    ]


def test_what_is_asked_for(master: FakeMaster, call: NewCall) -> None:
    asked = call("bacct", *["-d", "-q"], "night day", "-P", "p", "-m", "h1", "-M", "list", "-u", "ann bob", "-U", "r")
    asked.files["list"] = b"h2 # gone\n#none\nh3"
    assert asked.run() == 0
    wanted = master.account_filters[-1]
    assert (wanted.users, wanted.queues, wanted.projects) == (("ann", "bob"), ("night", "day"), ("p",))
    assert (wanted.hosts, wanted.states, wanted.reservation) == (("h1", "h2", "h3"), ("DONE",), "r")
    assert (
        "  - completed normally\n  - executed on hosts h1, h2, h3, \n  - submitted to queues night, day, \n"
        in asked.out
    )
    shown(call, "bacct", "-C", "2017/7/7,2017/7/8/12:", "-u", "all", "-e", "-d")
    wanted = master.account_filters[-1]
    assert wanted.completed == TimeSpan(since=1499385600.0, until=1499518799.0)
    assert (wanted.users, wanted.states) == ((), ())
    shown(call, "bacct", "0")
    assert (master.account_filters[-1].ids, master.account_filters[-1].users) == ((), ())


def test_no_account(master: FakeMaster, call: NewCall) -> None:
    assert refused(call, "bacct", "-l", "99") == "No matching job found\n"
    assert " Total number of done jobs:       0 " in shown(call, "bacct")
    assert "Bad time specification" in refused(call, "bacct", "-C", "yesterday")
    assert "-rcacct is not supported" in refused(call, "bacct", "-rcacct", "x")
    shown(call, "bacct", "-sla", "gold")
    assert master.account_filters[-1].service_class == "gold"


@pytest.mark.parametrize("command", ["gacct", "gusers", "gmgroup", "gugroup", "glshosts", "glsinfo", "gload"])
def test_options_that_nobody_knows(master: FakeMaster, call: NewCall, command: str) -> None:
    assert f"{command}: unknown option -zz" in refused(call, command, "-zz")
