"""What the files of a folder must be to each other: which have to be there, and which names of one another must have.

It reports findings and never raises for what stands in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.config.config_folder import CLUSTER_PREFIX, NOT_READ, OPTIONAL_FILES, UNSUPPORTED_FILES, ConfigFolder
from gsched.config.files.lsb_params import ParamsFile
from gsched.config.files.lsf_cluster import ClusterFile
from gsched.config.files.lsf_conf import LsfConf
from gsched.config.files.lsf_shared import SharedFile
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.lsf_differences import NOT_READ_SECTIONS
from gsched.config.grammar.values import cluster_name
from gsched.model.config import ALL_HOSTS


def check_presence(folder: ConfigFolder) -> None:
    """Report files that are missing, and such as are not read."""
    findings = folder.findings
    for name in ("lsf.conf", "lsb.queues"):
        if name not in folder.contents:
            findings.error(SourcePlace(folder.path(name)), "the file is missing")
    if "lsf.shared" not in folder.contents:
        findings.note(
            SourcePlace(folder.path("lsf.shared")),
            "the file is missing: no host types, models or resources are defined",
        )
    for name, consequence in OPTIONAL_FILES.items():
        if name not in folder.contents and consequence:
            findings.note(SourcePlace(folder.path(name)), f"the file is missing: {consequence}")
    for name, why in NOT_READ.items():
        if name in folder.contents:
            findings.note(SourcePlace(folder.path(name)), f"not read: {why}")
    for name in UNSUPPORTED_FILES:
        sections = folder.sections(name)
        if sections:
            reason = NOT_READ_SECTIONS.get(f"{name}/{sections[0].name}", "")
            because = f": {reason}" if reason else ""
            findings.error(sections[0].at, f"section {sections[0].name}: {name} is not supported yet{because}")


def cluster_file_of(folder: ConfigFolder, shared: SharedFile) -> str:
    """Name of the lsf.cluster file to read; an unusable name when there is none (which is reported)."""
    findings = folder.findings
    files = sorted(name for name in folder.contents if name.startswith(CLUSTER_PREFIX))
    if shared.cluster is not None and shared.cluster_at is not None:
        name = CLUSTER_PREFIX + shared.cluster
        if name not in folder.contents:
            findings.error(shared.cluster_at, f"cluster {shared.cluster} has no file {name}")
        for other in files:
            if other != name:
                findings.note(
                    SourcePlace(folder.path(other)), f"not read: the cluster is {shared.cluster} (lsf.shared)"
                )
        return name
    if len(files) == 1:
        name = files[0]
        try:
            cluster_name(name.removeprefix(CLUSTER_PREFIX))
        except BadRequest as error:
            findings.error(SourcePlace(folder.path(name)), error.text)
        return name
    missing = (
        "the file is missing"
        if not files
        else f"there are {len(files)} lsf.cluster files and lsf.shared names no cluster"
    )
    findings.error(SourcePlace(folder.path(CLUSTER_PREFIX + "NAME" if not files else files[0])), missing)
    return CLUSTER_PREFIX


def check_default_queue(folder: ConfigFolder, params: ParamsFile, queues: Mapping[str, object]) -> None:
    """Report a DEFAULT_QUEUE that there is none of."""
    if "lsb.queues" not in folder.contents:
        return
    at = params.default_queue_at
    if not queues:
        # LSF would make one up; a queue that nobody wrote is a setting nobody can see.
        folder.findings.error(SourcePlace(folder.path("lsb.queues")), "no queue is defined (Begin Queue ... End Queue)")
        return
    for name in params.params.default_queues:
        if name in queues:
            continue
        if at is not None:
            near = suggestion(name, queues)
            folder.findings.error(at, f"DEFAULT_QUEUE: queue {name} is not defined in lsb.queues{near}")
        else:
            text = f"DEFAULT_QUEUE is not set and there is no queue {name}"
            folder.findings.error(SourcePlace(folder.path("lsb.params")), text)


def check_default_application(folder: ConfigFolder, params: ParamsFile, applications: Mapping[str, object]) -> None:
    """Report a DEFAULT_APPLICATION that there is none of."""
    name = params.params.default_application
    at = params.default_application_at
    if name and at is not None and name not in applications:
        text = f"DEFAULT_APPLICATION: profile {name} is not defined in lsb.applications{suggestion(name, applications)}"
        folder.findings.error(at, text)


def check_default_user_group(folder: ConfigFolder, params: ParamsFile, groups: Mapping[str, object]) -> None:
    """Report a DEFAULT_USER_GROUP that there is none of."""
    name = params.params.default_user_group
    at = params.default_user_group_at
    if name and at is not None and name not in groups:
        text = f"DEFAULT_USER_GROUP: there is no user group {name} in lsb.users{suggestion(name, groups)}"
        folder.findings.error(at, text)


def master_of(folder: ConfigFolder, conf: LsfConf, cluster: ClusterFile, cluster_file: str, hostname: str) -> str:
    """Name of the master's host: this machine where it is one of LSF_MASTER_LIST, else the first of that list, else
    the first server of lsf.cluster; "" when there is none.
    """
    findings = folder.findings
    servers = [host.name for host in cluster.hosts.values() if host.server]
    if hostname and cluster.hosts and hostname not in cluster.hosts:
        text = f"this machine ({show(hostname)}) is not a host of the cluster"
        findings.note(SourcePlace(folder.path(cluster_file)), text)
    _check_masters(conf, servers, findings)
    for what, names, at in (
        ("GSCHED_ADMIN_HOSTS", conf.admin_hosts, conf.admin_hosts_at),
        ("GSCHED_WEB_HOSTS", conf.web.hosts, conf.web_hosts_at),
    ):
        unknown = [name for name in names if name != ALL_HOSTS and cluster.hosts and name not in cluster.hosts]
        if unknown and at is not None:
            near = suggestion(unknown[0], cluster.hosts)
            findings.error(at, f"{what}: {unknown[0]} is not a host of lsf.cluster{near}")
    if hostname in conf.masters.hosts:
        return hostname
    return next(iter((*conf.masters.hosts, *servers)), "")


def _check_masters(conf: LsfConf, servers: Sequence[str], findings: Findings) -> None:
    """Report masters on hosts that are none, and several where one alone can have the store."""
    name, at = conf.masters.name, conf.masters.at
    if at is None:
        return
    unknown = next((host for host in conf.masters.hosts if servers and host not in servers), "")
    if unknown:
        near = suggestion(unknown, servers)
        findings.error(at, f"{name}: {unknown} is not a server host of lsf.cluster{near}")
    if len(conf.masters.hosts) < 2:
        return
    if conf.network.port is None:
        text = "several masters are for a shared cluster: LSB_MBD_PORT is not set"
        findings.error(at, f"{name}: {text}")
    elif conf.locations is not None and not conf.locations.store:
        text = "several masters need a store in PostgreSQL (GSCHED_STORE): a file has one master"
        findings.error(at, f"{name}: {text}")


def check_intervals(conf: LsfConf, cluster: ClusterFile, findings: Findings) -> None:
    """Report a GSCHED_HOST_LOST that is over before a host tells of itself again."""
    if conf.host_lost_after_s > cluster.exchange_s:
        return
    at = conf.host_lost_at or cluster.exchange_at
    if at is not None:
        findings.error(
            at,
            f"a host would be lost between two reports: GSCHED_HOST_LOST ({conf.host_lost_after_s:g} s) must be longer "
            f"than EXINTERVAL ({cluster.exchange_s:g} s)",
        )
