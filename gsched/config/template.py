"""Writes the configuration of a new cluster: a private one (one machine, no set-up), or one that hosts and users share.

The texts are checked with the same code that loads them before anything is written, and no file is ever replaced.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gsched.base.errors import BadRequest, ConfigError, Conflict, ResourceExhausted
from gsched.config.config_folder import CLUSTER_PREFIX
from gsched.config.configuration import check_texts
from gsched.config.files.lsf_conf import LSB_FOLDER, read_gpu_provider
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import absolute_path, cluster_name, host_name, user_name
from gsched.model.config import Locations

RESOURCE_STANZA = """\
Begin Resource

RESOURCENAME    TYPE     INTERVAL  INCREASING  CONSUMABLE  DESCRIPTION # Keywords
ngpus           Numeric  60        N           N           (Number of GPUs)
ngpus_shared    Numeric  60        N           N           (Number of GPUs in Shared Mode)
ngpus_excl_t    Numeric  60        N           Y           (Number of GPUs in Exclusive thread Mode)
ngpuprohibited  Numeric  60        N           N           (Number of GPUs in Prohibited Mode)
ngpus_excl_p    Numeric  60        N           Y           (Number of GPUs in Exclusive process Mode)

End Resource
"""

MAP_STANZA = """\
Begin ResourceMap
RESOURCENAME            LOCATION
ngpus                   ([default])
ngpus_shared            ([default])
ngpus_excl_t            ([default])
ngpuprohibited          ([default])
ngpus_excl_p            ([default])
End ResourceMap
"""

_LSF_CONF = """\
# lsf.conf: folders and intervals of a private gsched cluster.
# One NAME=VALUE per line; a value with blanks stands in quotes. See docs/configuration.md.

# This folder. Programs written for LSF find lsb.params in lsbatch/CLUSTER/configdir below it, which is a link to it.
LSF_CONFDIR="{conf_dir}"
# The event store of the master: every job, for ever.
LSB_SHAREDIR="{state_dir}"
# Log files of the daemons.
LSF_LOGDIR="{log_dir}"
# Where elims lie: elim and elim.NAME.
LSF_SERVERDIR="{server_dir}"
# Sockets. Whoever may enter this folder may use the cluster.
GSCHED_RUNDIR="{run_dir}"
# What the agents keep of their jobs; a folder per host below it.
GSCHED_SPOOLDIR="{spool_dir}"

# The unit of sizes without one, as in gsub -M 500. Programs written for LSF take KB where this line is missing.
LSF_UNIT_FOR_LIMITS=MB

# Where GPUs come from: nvml, none, or sim:FOLDER (inventories FOLDER/HOST.json).
GSCHED_GPU_PROVIDER="{gpu_provider}"

# Seconds. Short, so that a change shows at once; a large cluster takes longer ones.
GSCHED_GPU_INTERVAL=1
GSCHED_ELIM_RESTART=1
GSCHED_HOST_LOST=10
GSCHED_COMMAND_WAIT=60

# A private cluster runs jobs of its owner only, also when that is root.
LSF_ROOT_USER=Y
"""

_LSF_CONF_SHARED = """\
# lsf.conf: folders and intervals of a gsched cluster that several hosts share. This folder is the same on all of them.
# One NAME=VALUE per line; a value with blanks stands in quotes. See docs/configuration.md.

# The event store of the master: every job, for ever.
LSB_SHAREDIR="{state_dir}"
# Log files. Daemons that systemd starts log to its journal: journalctl -u 'gsched-*'
LSF_LOGDIR="{log_dir}"
# Where elims lie: elim and elim.NAME.
LSF_SERVERDIR="{server_dir}"
# Sockets; a folder each for master, door and agent below it.
GSCHED_RUNDIR="{run_dir}"
# What the agents keep of their jobs; a folder per host below it.
GSCHED_SPOOLDIR="{spool_dir}"

# Where the master runs, and its port; hosts prove who they are by the certificates of gadmin init-ca.
LSF_MASTER_LIST={master}
LSB_MBD_PORT={port}

# The unit of sizes without one, as in gsub -M 500. Programs written for LSF take KB where this line is missing.
LSF_UNIT_FOR_LIMITS=MB

# Where GPUs come from: nvml, none, or sim:FOLDER (inventories FOLDER/HOST.json).
GSCHED_GPU_PROVIDER="{gpu_provider}"

# Seconds.
GSCHED_GPU_INTERVAL=5
GSCHED_HOST_LOST=30
GSCHED_COMMAND_WAIT=60
"""

_LSF_SHARED = """\
# lsf.shared: what the cluster is called, and what its hosts may have.

Begin Cluster
ClusterName
{cluster}
End Cluster

Begin HostType
TYPENAME
LINUX             # what ! in lsf.cluster stands for
LINUX64
LINUXAARCH64
LINUXPPC64LE
End HostType

Begin HostModel
MODELNAME  CPUFACTOR  ARCHITECTURE
generic    1.0        ()
End HostModel

# Boolean resources that hosts may be given in the RESOURCES column of lsf.cluster.
Begin Resource
   RESOURCENAME  TYPE     INTERVAL  INCREASING  DESCRIPTION
   linux         Boolean  ()        ()          (Linux)
   bigmem        Boolean  ()        ()          (host with much memory)
   interconnect  String   ()        ()          (network for parallel jobs)
   gpu           Boolean  ()        ()          (gpu availability)
End Resource
"""

_SHARED_GPUS = """
# What elim.gpu reports: GPUs in all, and by compute mode.
"""

_LSF_CLUSTER = """\
# lsf.cluster.{cluster}: hosts, and where the resources of lsf.shared are.

Begin Parameters
# Seconds between two load reports of a host.
EXINTERVAL = {exchange}
End Parameters

{administrators}# The first server (server 1) runs the master. ! means: find out.
Begin Host
HOSTNAME  model  type  server  RESOURCES
{hosts}
End Host
"""

_LSF_CLUSTER_ADMINS = """\
# The first one is the primary administrator.
Begin ClusterAdmins
ADMINISTRATORS = {words}
End ClusterAdmins

"""

_CLUSTER_GPUS = """
# [default]: every host has its own.
"""

_LSB_PARAMS = """\
# lsb.params: what holds for the whole cluster.

Begin Parameters
DEFAULT_QUEUE  = normal
# Seconds between two samples of a running job's memory and CPU time.
SBD_SLEEP_TIME = {sample}
# Seconds that a finished job stays in gjobs -a.
CLEAN_PERIOD   = 3600
# Jobs that may hold one GPU of compute mode Default together.
GPU_SHARED_JOBS = 1
# What a job sees that asks for no GPU: hide, allow, or auto=1 (ask for one on its behalf).
GPU_UNREQUESTED = hide
# A GPU that has failed is offered again after so many clean probes.
GPU_CLEAN_PROBES = 3
End Parameters
"""

_LSB_QUEUES = """\
# lsb.queues: one section per queue; a larger PRIORITY is served first.
# The first job of a queue that cannot start has its place reserved (RESERVATION = easy, the default); with BACKFILL
# others use it until then, if their run limit or estimate ends before.

Begin Queue
QUEUE_NAME  = normal
PRIORITY    = 30
BACKFILL    = Y
DESCRIPTION = For jobs of any length; the default
End Queue

Begin Queue
QUEUE_NAME  = short
PRIORITY    = 35
BACKFILL    = Y
# [default] maximum, in minutes or hours:minutes.
RUNLIMIT    = 15
DESCRIPTION = For jobs of at most 15 minutes
End Queue

Begin Queue
QUEUE_NAME  = night
PRIORITY    = 20
BACKFILL    = Y
DESCRIPTION = For jobs that can wait
End Queue
"""

_LSB_HOSTS = """\
# lsb.hosts: job slots. MXJ: a number, ! for as many as CPUs, () for no limit. JL/U: slots of one user.

Begin Host
HOST_NAME  MXJ  JL/U
default    {slots}  ()
End Host
"""

_LSB_USERS = """\
# lsb.users: nothing is limited. MAX_JOBS: slots of a user in all queues; a row group@ limits each member of a group.

Begin User
USER_NAME  MAX_JOBS  JL/P
default    ()        ()
End User
"""


_LSB_RESOURCES = """\
# lsb.resources: what users, projects, queues and hosts may hold together. Nothing is limited as it stands:
# remove a '#' before each line of an example to use it, then say `gadmin reconfig`.

# Nobody holds more than 4 GPUs at a time.
#Begin Limit
#NAME     = gpus_of_one_user
#PER_USER = all
#ngpus    = 4
#End Limit

# Each project uses at most 100 GPU hours in any 7 days.
#Begin Limit
#NAME        = budget
#PER_PROJECT = all
#GPU_HOURS   = 100
#WINDOW      = 7d
#End Limit
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfiguration:
    """What the files of a new cluster say."""

    cluster: str
    hosts: Sequence[str]
    slots: int | None
    """None: as many as a host has CPUs."""
    folders: Locations
    gpu_provider: str
    gpu_resources: bool = True
    """The five ngpus* resources are defined and mapped; else they are left for the administrator to add."""
    administrators: Sequence[str] = ()
    port: int | None = None
    """Of the master, for a cluster that hosts share."""


def private_texts(new: NewConfiguration) -> dict[str, str]:
    """Contents of all files by name. Raises BadRequest for a name, number or folder that no file could hold."""
    cluster = cluster_name(new.cluster)
    if not new.hosts or len({host_name(host) for host in new.hosts}) != len(new.hosts):
        raise BadRequest("a cluster needs at least one host, and each only once")
    if new.slots is not None and not 1 <= new.slots <= 1_000_000:
        raise BadRequest(f"{new.slots} is not a number of slots from 1 to 1000000")
    values = {
        "cluster": cluster,
        "slots": "!" if new.slots is None else str(new.slots),
        "master": new.hosts[0],
        "port": str(new.port),
        "exchange": "1" if new.port is None else "5",
        "sample": "1" if new.port is None else "10",
        "hosts": "\n".join(f"{host:<8}  !      !     1       ()" for host in new.hosts),
        "administrators": _administrators(new.administrators),
        "gpu_provider": _quotable(read_gpu_provider(new.gpu_provider)),
    }
    for name in ("conf_dir", "state_dir", "log_dir", "server_dir", "run_dir", "spool_dir"):
        values[name] = _quotable(absolute_path(getattr(new.folders, name)))
    shared, map_ = _LSF_SHARED, _LSF_CLUSTER
    if new.gpu_resources:
        shared += _SHARED_GPUS + RESOURCE_STANZA
        map_ += _CLUSTER_GPUS + MAP_STANZA
    texts = {
        "lsf.conf": _LSF_CONF if new.port is None else _LSF_CONF_SHARED,
        "lsf.shared": shared,
        CLUSTER_PREFIX + cluster: map_,
        "lsb.params": _LSB_PARAMS,
        "lsb.queues": _LSB_QUEUES,
        "lsb.hosts": _LSB_HOSTS,
        "lsb.users": _LSB_USERS,
        "lsb.resources": _LSB_RESOURCES,
    }
    return {name: text.format_map(values) for name, text in texts.items()}


def write_private(conf_dir: str, new: NewConfiguration, *, below: str = "") -> None:
    """Write a complete configuration into `conf_dir`, which is made when missing; `below` another root than `/`.

    Raises BadRequest for values that cannot stand in the files, ConfigError when the result would not load, Conflict
    when a file is already there (nothing is written then), ResourceExhausted or Conflict when the folder cannot be
    written.
    """
    folder = Path(conf_dir).absolute()
    texts = private_texts(replace(new, folders=msgspec.structs.replace(new.folders, conf_dir=str(folder))))
    problems = check_texts(str(folder), texts).problems
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)
    folder = Path(below) / folder.relative_to("/") if below else folder
    present = [name for name in texts if os.path.lexists(folder / name)]
    if present:
        raise Conflict(f"{folder / present[0]} is already there; an existing configuration is never replaced")
    try:
        _write_whole(folder, texts, new.cluster)
    except OSError as error:
        kind = ResourceExhausted if error.errno in (errno.ENOSPC, errno.EDQUOT) else Conflict
        raise kind(f"{error.filename or folder}: {os.strerror(error.errno or 0)}") from None


def _write_whole(folder: Path, texts: Mapping[str, str], cluster: str) -> None:
    """All files or none: some of them would be taken for a configuration, with errors, that is not to be replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as made:
        for name, text in texts.items():
            path = Path(made, name)
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:  # one of writing names no file
                raise OSError(error.errno, error.strerror, str(folder / name)) from None
        link_lsf_layout(str(folder), cluster)
        for name in sorted(texts, key=lambda name: name == "lsf.conf"):  # it is by this one that a cluster is there
            os.rename(Path(made, name), folder / name)


def link_lsf_layout(conf_dir: str, cluster: str) -> None:
    """Make lsbatch/CLUSTER/configdir, where LSF keeps its lsb.* files, a link to `conf_dir`, unless it is there.

    Programs written for LSF read lsb.params by that path. Raises OSError when it cannot be made.
    """
    folder = Path(conf_dir) / LSB_FOLDER / cluster
    folder.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(folder / "configdir"):
        os.symlink(os.path.join("..", ".."), folder / "configdir", target_is_directory=True)


def _administrators(names: Sequence[str]) -> str:
    if not names:
        return ""
    words = " ".join(user_name(name) for name in names)
    return _LSF_CLUSTER_ADMINS.format(words=words)


def _quotable(value: str) -> str:
    if '"' in value:
        raise BadRequest(f"'{show(value)}' holds a quote and cannot stand in lsf.conf")
    return value
