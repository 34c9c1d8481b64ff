"""What a reconfig refuses, and what it says of settings that count from the next start on."""

from __future__ import annotations

import msgspec

from gsched.master.reconfig_notes import fixed, told_at_start
from gsched.model.config import ClusterConfig, GpuFence, Locations, Network, Params, SshAccess
from gsched.model.hosts.job_tmpdir import JobTmpdir
from gsched.model.hosts.kept_output import KeptOutput

HERE = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
CONFIG = ClusterConfig(cluster="c1", master_host="h1", hosts={}, queues={}, params=Params(), locations=HERE)


def test_folders_and_the_name_cannot_change() -> None:
    elsewhere = msgspec.structs.replace(HERE, spool_dir="/q", log_dir="/m")
    assert fixed(CONFIG, CONFIG) == ()
    assert fixed(CONFIG, msgspec.structs.replace(CONFIG, cluster="c2", locations=elsewhere)) == (
        "SPOOL_DIR cannot change from /p to /q while the daemons run",
        "the cluster's name cannot change from c1 to c2 while the daemons run",
    )


def test_where_a_shared_cluster_listens_cannot_change() -> None:
    shared = msgspec.structs.replace(CONFIG, network=Network(port=6881))
    moved = msgspec.structs.replace(shared, master_host="h2")
    refused = ("the master's host, its ports and GSCHED_TLSDIR cannot change while the daemons run",)
    assert fixed(CONFIG, shared) == fixed(shared, CONFIG) == fixed(shared, moved) == refused
    assert fixed(shared, shared) == ()


def test_what_agents_read_at_their_start_is_told() -> None:
    changed = msgspec.structs.replace(
        CONFIG,
        gpu_fence=GpuFence.OFF,
        mps_control="/opt/mps",
        pam_limits=True,
        ssh_access=SshAccess.OPEN,
        kept_output=KeptOutput(run_mib=7, user_mib=8, host_mib=9),
        job_tmpdir=JobTmpdir(folder="/scratch", variable="TMPDIR"),
        pre_post_exec_user="root",
    )
    later = "takes effect when the agents are started again"
    names = (
        "GSCHED_GPU_FENCE",
        "GSCHED_MPS_CONTROL",
        "GSCHED_PAM_LIMITS",
        "GSCHED_SSH",
        "GSCHED_KEPT_OUTPUT_MIB",
        "GSCHED_KEPT_OUTPUT_USER_MIB",
        "GSCHED_KEPT_OUTPUT_HOST_MIB",
        "LSB_JOB_TMPDIR",
        "LSB_SET_TMPDIR",
        "LSB_PRE_POST_EXEC_USER",
    )
    assert [f"{name} has changed: it {later}" for name in names] == [
        note.partition(" (")[0] for note in told_at_start(CONFIG, changed)
    ]
    assert list(told_at_start(CONFIG, CONFIG)) == []
