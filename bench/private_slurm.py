"""A throw-away Slurm of one host with its munge, on loopback, for the benches that compare. Installs nothing.

Needs root and Debian's packages slurm-wlm and munge: see `is_there`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from private_cluster import end_in_good_order

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")

CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SlurmdParameters=config_overrides
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def is_there() -> bool:
    """Whether a Slurm can be started here."""
    return os.geteuid() == 0 and all(map(shutil.which, PROGRAMS))


@contextlib.contextmanager
def private_slurm(ports: tuple[int, int], slots: int, tuning: str) -> Iterator[dict[str, str]]:
    """Start it; yields the environment for its commands. `tuning`: lines of slurm.conf beside those of CONF."""
    end_in_good_order()
    with tempfile.TemporaryDirectory(prefix="slurm-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        for part in ("munge", "state", "spool"):
            (folder / part).mkdir()
        folder.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        conf = folder / "slurm.conf"
        conf.write_text(CONF.format(host=host, ports=ports, folder=folder, slots=slots) + tuning)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        environment = os.environ | {"SLURM_CONF": str(conf)}

        def daemon(*words: str) -> None:
            silent = subprocess.DEVNULL
            process = subprocess.Popen(words, env=environment, stdin=silent, stdout=silent, stderr=silent)
            stack.callback(process.wait)
            stack.callback(process.send_signal, signal.SIGTERM)

        def until(wanted: str, *words: str) -> None:
            deadline = time.monotonic() + 60.0
            while (
                wanted not in subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout
            ):
                assert time.monotonic() < deadline, f"Slurm does not come up: {' '.join(words)}"
                time.sleep(0.2)

        files = [f"--{what}-file={folder}/munge/{what}" for what in ("pid", "log", "seed")]
        daemon("munged", "-f", "-F", f"--key-file={key}", f"--socket={folder}/munge/socket", *files)
        until("socket", "ls", f"{folder}/munge")
        daemon("slurmctld", "-D", "-c", "-f", str(conf))
        daemon("slurmd", "-D", "-f", str(conf))
        until("idle", "sinfo", "-h", "-o", "%T")
        yield environment
