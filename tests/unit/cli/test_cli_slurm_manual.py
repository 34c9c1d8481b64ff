"""Every option and field of Slurm's manual pages is known to its command here: taken, or refused by name."""

from __future__ import annotations

from typing import cast

import pytest

from gsched.cli.registry import table_of
from gsched.cli.slurm.accounting.sacct_fields import LONG, SACCT_FIELDS
from gsched.cli.slurm.job_columns import BY_LETTER, BY_NAME
from gsched.dialect.slurm.gnu_options import GnuOptions

OPTIONS = {
    "sacct": """accounts/A allclusters/L allocations/X allusers/a associations/x batch-script/B brief/b clusters/M
        completion/c constraints/C delimiter duplicates/D endtime/E env-vars federation file/f flags/F format/o
        gid/g group/g help/h helpformat/e jobs/j json local long/l name nnodes/i ncpus/I noconvert nodelist/N
        noheader/n parsable/p parsable2/P partition/r qos/q reason/R starttime/S state/s timelimit-max/K
        timelimit-min/k truncate/T uid/u user/u units usage use-local-uid verbose/v version/V wckeys/W
        whole-hetjob yaml""",
    "squeue": """account/A all/a array/r array-unique clusters/M federation format/o Format/O help hide iterate/i
        jobs/j json licenses/L local long/l me name/n noconvert nodelist/w noheader/h partition/p priority/P qos/q
        reservation/R sibling sort/S start states/t steps/s usage user/u verbose/v version/V yaml""",
}
"""Options of Slurm 22.05, `name/letter`."""
SACCT = """Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite
        AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container
        CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible End ExitCode Flags GID Group JobID
        JobIDRaw JobName Layout MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode
        MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode
        MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition Priority QOS
        QOSRAW Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqMem ReqNodes ReqTRES
        Reservation ReservationId Reserved ResvCPU ResvCPURAW Start State Submit SubmitLine Suspended
        SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode
        TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve
        TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode
        TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU WCKey WCKeyID WorkDir"""
SQUEUE = """Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobID ArrayTaskID AssocID BatchFlag
        BatchHost BoardsPerNode BurstBuffer BurstBufferState Cluster ClusterFeature Command Comment Contiguous
        Container Cores CoreSpec CPUFreq cpus-per-task cpus-per-tres Deadline DelayBoot Dependency DerivedEC
        EligibleTime EndTime exit_code Feature GroupID GroupName HetJobID HetJobIDSet HetJobOffset JobArrayID
        JobID LastSchedEval Licenses MaxCPUs MaxNodes MCSLabel mem-per-tres MinCpus MinMemory MinTime MinTmpDisk
        Name Network Nice Nodes NodeList NTPerBoard NTPerCore NTPerNode NTPerSocket NumCPUs NumNodes NumTasks
        Origin OriginRaw OverSubscribe Partition PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS
        Reason ReasonList Reboot ReqNodes ReqSwitch Requeue Reservation ResizeTime RestartCnt ResvPort SchedNodes
        SCT SelectJobInfo SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw Sockets SPerBoard
        StartTime State StateCompact STDERR STDIN STDOUT SubmitTime system_comment Threads TimeLeft TimeLimit
        TimeUsed tres-alloc tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-step
        tres-per-task UserID UserName wait4switch wckey WorkDir"""


@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_every_option_of_the_manual_is_known(command: str) -> None:
    known = {(name, option.letter) for option in cast("GnuOptions", table_of(command)).options for name in option.names}
    listed = [each.partition("/") for each in OPTIONS[command].split()]
    missing = [name for name, _, letter in listed if (name, letter) not in known]
    assert not missing
    for option in cast("GnuOptions", table_of(command)).options:
        assert option.refused or option.help, option.name


def test_every_field_of_the_manual_is_known() -> None:
    assert not [name for name in SACCT.split() if name.lower() not in SACCT_FIELDS]
    assert not [name for name in LONG.split(",") if name not in SACCT_FIELDS]
    assert not [name for name in SQUEUE.split() if name.lower() not in BY_NAME]
    assert not [letter for letter in "aABcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ" if letter not in BY_LETTER]
