"""Every option and field of Slurm's manual pages is known to its command here: taken, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from fake_master import FakeCall

from gsched.cli.registry import table_of
from gsched.cli.slurm.accounting.sacct_fields import LONG, SACCT_FIELDS
from gsched.cli.slurm.control.scontrol import DONE, NOT_DONE
from gsched.cli.slurm.control.shown_entities import SHOWN
from gsched.cli.slurm.control.updates import NODE_REFUSED
from gsched.cli.slurm.job_columns import BY_LETTER, BY_NAME
from gsched.cli.slurm.node_columns import NODE_BY_LETTER, NODE_BY_NAME
from gsched.dialect.slurm.gnu_options import GnuOptions
from gsched.dialect.slurm.job_updates import UPDATE_KEYWORDS, UPDATE_REFUSED

OPTIONS = {
    "sacct": """accounts/A allclusters/L allocations/X allusers/a associations/x batch-script/B brief/b clusters/M
    completion/c constraints/C delimiter duplicates/D endtime/E env-vars federation file/f flags/F format/o gid/g
    group/g help/h helpformat/e jobs/j json local long/l name nnodes/i ncpus/I noconvert nodelist/N noheader/n
    parsable/p parsable2/P partition/r qos/q reason/R starttime/S state/s timelimit-max/K timelimit-min/k
    truncate/T uid/u user/u units usage use-local-uid verbose/v version/V wckeys/W whole-hetjob yaml""",
    "squeue": """account/A all/a array/r array-unique clusters/M federation format/o Format/O help hide iterate/i
    jobs/j json licenses/L local long/l me name/n noconvert nodelist/w noheader/h partition/p priority/P qos/q
    reservation/R sibling sort/S start states/t steps/s usage user/u verbose/v version/V yaml""",
    "sinfo": """all/a clusters/M dead/d exact/e federation format/o Format/O help hide iterate/i json
    list-reasons/R local long/l noconvert Node/N nodes/n noheader/h partition/p reservation/T responding/r sort/S
    states/t summarize/s usage verbose/v version/V yaml""",
    "scontrol": """all/a clusters/M details/d federation future/F help/h hide local oneliner/o quiet/Q sibling
    uid/u verbose/v version/V""",
    "sprio": """clusters/M federation format/o help jobs/j local long/l noheader/h norm/n partition/p sibling
        sort/S usage user/u verbose/v version/V weights/w""",
    "sstat": """allsteps/a format/o fields/o help/h helpformat/e jobs/j noconvert noheader/n parsable/p parsable2/P
        pidformat/i usage verbose/v version/V""",
    "sshare": """accounts/A all/a clusters/M format/o help long/l noheader/n parsable/p parsable2/P partition/m usage
        users/u Users/U verbose/v version/V""",
    "sattach": """error-filter help/h input-filter label/l layout output-filter pty quiet/Q usage/u version/V
        verbose/v""",
    "sacctmgr": """associations/s help/h immediate/i noheader/n parsable/p parsable2/P quiet/Q readonly/r verbose/v
        version/V""",
    "scancel": """account/A batch/b clusters/M ctld full/f help hurry/H interactive/i jobname me name/n nodelist/w
        partition/p qos/q quiet/Q reservation/R sibling signal/s state/t usage user/u verbose/v version/V wckey""",
    "sbatch": """account/A acctg-freq array/a batch bb bbf begin/b chdir/D cluster-constraint clusters/M comment
        constraint/C container contiguous core-spec/S cores-per-socket cpu-freq cpus-per-gpu cpus-per-task/c deadline
        delay-boot dependency/d distribution/m error/e exclude/x exclusive export export-file extra-node-info/B
        get-user-env gid gpu-bind gpu-freq gpus/G gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help/h
        hint hold/H ignore-pbs input/i job-name/J kill-on-invalid-dep licenses/L mail-type mail-user mcs-label mem
        mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill/k no-requeue nodefile/F nodelist/w nodes/N
        ntasks/n ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output/o overcommit/O
        oversubscribe/s parsable partition/p power prefer priority profile propagate qos/q quiet/Q reboot requeue
        reservation signal sockets-per-node spread-job switches test-only thread-spec threads-per-core time/t time-min
        tmp uid usage use-min-nodes verbose/v version/V wait/W wait-all-nodes wckey wrap""",
}
"""Options of Slurm 22.05, `name/letter`."""
SCONTROL = """abort cancel_reboot cluster completing create delete errnumstr exit fsdampeningfactor help hold
    listpids notify pidinfo ping quit reboot reconfigure release requeue requeuehold resume schedloglevel setdebug
    setdebugflags show shutdown suspend takeover token top uhold update version wait_job write"""
ENTITIES = """aliases assoc_mgr bbstat burstbuffer config daemons dwstat federation frontend hostlist
    hostlistsorted hostnames job licenses node partition reservation slurmd step topology"""
JOB_KEYWORDS = """Account AdminComment ArrayTaskThrottle BurstBuffer Clusters ClusterFeatures Comment Contiguous
    CoreSpec CPUsPerTask Deadline DelayBoot Dependency EligibleTime EndTime ExcNodeList Features Gres Licenses
    MailType MailUser MinCPUsNode MinMemoryCPU MinMemoryNode MinTmpDiskNode TimeMin JobName Name Nice NodeList
    NumCPUs NumNodes NumTasks OverSubscribe Partition Prefer Priority QOS Reboot ReqCores ReqNodeList ReqNodes
    ReqProcs ReqSockets ReqThreads Requeue ReservationName ResetAccrueTime SiteFactor StdOut Shared StartTime
    Switches wait-for-switch TasksPerNode ThreadSpec TimeLimit UserID WCKey WorkDir AllocNode:Sid BatchFlag
    ExitCode GroupId JobState NodeListIndices NtasksPerN:B:S:C PreemptEligibleTime PreemptTime PreSusTime Reason
    ReqB:S:C:T SecsPreSuspend Socks/Node SubmitTime SuspendTime"""
NODE_KEYWORDS = """ActiveFeatures AvailableFeatures Comment CpuBind Extra Gres NodeAddr NodeHostname Weight"""
SINFO = """AllocMem AllocNodes Available Cluster Comment Cores CPUs CPUsLoad CPUsState DefaultTime Disk Extra
    Features features_act FreeMem Gres GresUsed Groups MaxCPUsPerNode Memory NodeAddr NodeAI NodeAIOT NodeHost
    NodeList Nodes OverSubscribe Partition PartitionName Port PreemptMode PriorityJobFactor PriorityTier Priority
    Reason Root Size SocketCoreThread Sockets StateCompact StateLong StateComplete Threads Time TimeStamp User
    UserLong Version Weight"""
SACCT = """Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite
    AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container
    CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible End ExitCode Flags GID Group JobID
    JobIDRaw JobName Layout MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode
    MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode
    MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition Priority QOS QOSRAW
    Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqMem ReqNodes ReqTRES Reservation
    ReservationId Reserved ResvCPU ResvCPURAW Start State Submit SubmitLine Suspended SystemComment SystemCPU
    Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask
    TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax
    TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask
    TRESUsageOutTot UID User UserCPU WCKey WCKeyID WorkDir"""
SQUEUE = """Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobID ArrayTaskID AssocID BatchFlag
    BatchHost BoardsPerNode BurstBuffer BurstBufferState Cluster ClusterFeature Command Comment Contiguous
    Container Cores CoreSpec CPUFreq cpus-per-task cpus-per-tres Deadline DelayBoot Dependency DerivedEC
    EligibleTime EndTime exit_code Feature GroupID GroupName HetJobID HetJobIDSet HetJobOffset JobArrayID JobID
    LastSchedEval Licenses MaxCPUs MaxNodes MCSLabel mem-per-tres MinCpus MinMemory MinTime MinTmpDisk Name
    Network Nice Nodes NodeList NTPerBoard NTPerCore NTPerNode NTPerSocket NumCPUs NumNodes NumTasks Origin
    OriginRaw OverSubscribe Partition PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS Reason
    ReasonList Reboot ReqNodes ReqSwitch Requeue Reservation ResizeTime RestartCnt ResvPort SchedNodes SCT
    SelectJobInfo SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw Sockets SPerBoard StartTime
    State StateCompact STDERR STDIN STDOUT SubmitTime system_comment Threads TimeLeft TimeLimit TimeUsed
    tres-alloc tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-step tres-per-task UserID
    UserName wait4switch wckey WorkDir"""


@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_every_option_of_the_manual_is_known(command: str) -> None:
    known = {(name, option.letter) for option in cast("GnuOptions", table_of(command)).options for name in option.names}
    listed = [each.partition("/") for each in OPTIONS[command].split()]
    missing = [name for name, _, letter in listed if (name, letter) not in known]
    assert not missing
    for option in cast("GnuOptions", table_of(command)).options:
        assert option.refused or option.help, option.name


def test_what_is_not_there_says_what_to_use(call: Callable[..., FakeCall]) -> None:
    for name in ("sbcast", "scrontab", "sdiag", "sreport", "strigger"):
        asked = call(name, "-x", "y")
        assert asked.run() == 1
        assert asked.err.startswith(f"{name}: error: there is no {name}: ") and asked.err.count("\n") == 1


def test_every_field_of_the_manual_is_known() -> None:
    assert not [name for name in SACCT.split() if name.lower() not in SACCT_FIELDS]
    assert not [name for name in LONG.split(",") if name not in SACCT_FIELDS]
    assert not [name for name in SQUEUE.split() if name.lower() not in BY_NAME]
    assert not [letter for letter in "aABcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ" if letter not in BY_LETTER]
    assert not [name for name in SINFO.split() if name.lower() not in NODE_BY_NAME]
    assert not [letter for letter in "aAbBcCdDeEfFgGhHIlLmMnNoOprPRsStTuUvVwXYZz" if letter not in NODE_BY_LETTER]


def test_every_command_and_keyword_of_scontrol_is_known() -> None:
    assert not [name for name in SCONTROL.split() if (name in DONE) == (name in NOT_DONE)]
    assert not [name for name in ENTITIES.split() if name not in SHOWN]
    known = {*UPDATE_KEYWORDS, *UPDATE_REFUSED}
    assert not [name for name in JOB_KEYWORDS.split() if name.lower() not in known]
    assert not UPDATE_KEYWORDS & set(UPDATE_REFUSED)
    assert not [name for name in NODE_KEYWORDS.split() if name.lower() not in NODE_REFUSED]
