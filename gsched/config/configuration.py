"""The configuration folder as a whole: read every file, join what they say, report everything that is wrong at once.

Nothing here raises for what stands in a file. One error anywhere means no configuration at all, so that a cluster
never runs with half of what was written.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from gsched.base.errors import BadRequest, ConfigError, Problem
from gsched.config.files.lsb_applications import read_applications
from gsched.config.files.lsb_hosts import HostsFile, read_hosts
from gsched.config.files.lsb_params import ParamsFile, check_sleep_time, read_params
from gsched.config.files.lsb_queues import read_queues
from gsched.config.files.lsb_resources import NamedMembers, Resources, read_resources
from gsched.config.files.lsb_users import Users, read_users
from gsched.config.files.lsf_cluster import ClusterFile, read_cluster
from gsched.config.files.lsf_conf import LsfConf, read_lsf_conf
from gsched.config.files.lsf_shared import SharedFile, read_shared
from gsched.config.files.queue_parameters import Known
from gsched.config.grammar.directives import Directives
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import MAX_FILE_BYTES, ConfigSection, decode, read_assignments, read_sections
from gsched.config.grammar.values import cluster_name
from gsched.config.names.external_groups import GroupProgram
from gsched.config.names.unknown_names import note_unknown_names
from gsched.config.parameters.elim_settings import joined_elims, with_elims
from gsched.config.parameters.requirements import RequirementJudge
from gsched.model.config import ALL_HOSTS, ClusterConfig, Locations, Params, Timing
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue
from gsched.model.queues.window import minute_of_week

CLUSTER_PREFIX = "lsf.cluster."

_UNSUPPORTED_FILES = (
    "lsb.serviceclasses",
    "lsb.reasons",
    "lsb.threshold",
    "lsb.globalpolicies",
)
_NOT_READ = {
    "lsb.modules": "there is one scheduler, which takes no plug-ins",
    "lsb.nqsmaps": "there is no NQS",
    "lsf.task": "there is no lsrun",
}
_ORDER = ("lsb.params", "lsb.queues", "lsb.hosts", "lsb.users", "lsb.applications", "lsb.resources")
"""In which order problems of the files are listed."""
_OPTIONAL = {
    "lsb.params": "every parameter has its default",
    "lsb.hosts": "every host has as many slots as CPUs",
    "lsb.users": "",
    "lsb.applications": "",
    "lsb.resources": "",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outcome of `load`. `config` is None when any problem is an error."""

    config: ClusterConfig | None
    problems: list[Problem]
    included: tuple[str, ...] = ()
    """Paths of the files that others name with #INCLUDE."""

    def required(self) -> ClusterConfig:
        """The configuration. Raises ConfigError with every problem when there is an error."""
        if self.config is None:
            raise ConfigError(self.problems)
        return self.config


def load(
    conf_dir: str,
    hostname: str = "",
    has_account: Callable[[str], bool] | None = None,
    *,
    meant_for: str = "",
    minute: int | None = None,
    run_egroup: bool = False,
    instead: Mapping[str, bytes] | None = None,
) -> Loaded:
    """Read and check the files of `conf_dir`; problems come in file order, then by line.

    `hostname` is the name of the machine that asks; when given, it is noted if the cluster has no such host.
    `has_account` says whether there is such a user; when given, names that it does not know are noted.
    `meant_for` is the folder in which the files will lie, where that is another one. `minute` of the week is that
    for which #if time(...) is answered; None: now. `run_egroup`: the program egroup is asked for the members of
    groups that it lists; otherwise their members are left open. `instead`: what files of the folder are to hold, by
    name; they are not looked at.
    """
    findings = Findings()
    folder = str(Path(conf_dir).absolute())
    contents = {**_read_folder(folder, findings), **(instead or {})}
    return _build(
        _Folder(meant_for or folder, contents, findings, minute, runs_egroup=run_egroup), hostname, has_account
    )


def check_texts(
    conf_dir: str,
    texts: Mapping[str, str],
    hostname: str = "",
    has_account: Callable[[str], bool] | None = None,
    *,
    minute: int | None = None,
) -> Loaded:
    """What `load` would answer if `conf_dir` held just these files: name -> contents. Reads nothing."""
    contents: dict[str, bytes | None] = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
    return _build(_Folder(conf_dir, contents, Findings(), minute, reads=False), hostname, has_account)


def files_of(conf_dir: str) -> list[str]:
    """Names of the files of the folder that count as its configuration. Raises OSError."""
    return [name for name in sorted(os.listdir(conf_dir)) if _is_read(name)]


def _read_folder(folder: str, findings: Findings) -> dict[str, bytes | None]:
    """Contents of the files that matter, by name; None for one that is there but cannot be read (reported)."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        findings.error(SourcePlace(folder), f"the configuration folder cannot be read: {os.strerror(error.errno or 0)}")
        return {}
    return {name: _read_file(os.path.join(folder, name), findings) for name in names if _is_read(name)}


def _is_read(name: str) -> bool:
    known = ("lsf.conf", "lsf.shared", "lsb.queues", *_OPTIONAL, *_UNSUPPORTED_FILES, *_NOT_READ)
    return name in known or _is_cluster_file(name)


def _is_cluster_file(name: str) -> bool:
    # Editors' back-ups (lsf.cluster.x~, .bak, .orig, .rpmsave) must not become a second cluster.
    return bool(re.fullmatch(r"lsf\.cluster\.[A-Za-z0-9][A-Za-z0-9_.-]*", name)) and not re.search(
        r"\.(bak|old|orig|save|rpmsave|rpmnew|swp)$", name
    )


def _read_file(path: str, findings: Findings, named_at: SourcePlace | None = None) -> bytes | None:
    """The file's contents; None, and a problem, if it cannot be read. `named_at`: the line that includes it."""
    try:
        # Not blocking: a FIFO under one of these names must not hang the master.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(MAX_FILE_BYTES + 1)
            text = "not a regular file"
    except OSError as error:
        what = "not a regular file" if error.errno == errno.ENXIO else os.strerror(error.errno or 0)
        text = f"cannot be read: {what}"
    if named_at is None:
        findings.error(SourcePlace(path), text)
    else:
        findings.error(named_at, f"#INCLUDE: {path}: {text}")
    return None


class _Folder:
    """The files by name, parsed when asked for."""

    def __init__(
        self,
        folder: str,
        contents: Mapping[str, bytes | None],
        findings: Findings,
        minute: int | None = None,
        *,
        reads: bool = True,
        runs_egroup: bool = False,
    ) -> None:
        """`minute` of the week; None: now. `reads`: files that others include may be read."""
        self.folder = folder
        self.contents = contents
        self.findings = findings
        self.included: dict[str, bytes | None] = {}
        """Contents of files that others include, by path."""
        self._reads = reads
        self._runs_egroup = runs_egroup
        self.directives = Directives(self._include, minute_of_week(time.time()) if minute is None else minute)

    def once_more(self, findings: Findings) -> _Folder:
        """The same files as they were read."""
        twin = _Folder(self.folder, self.contents, findings, self.directives.minute, reads=False)
        twin.included = self.included
        return twin

    def egroup(self, conf: LsfConf) -> GroupProgram | None:
        """The program that lists members of groups; None where it is not to be run."""
        if not self._runs_egroup or conf.locations is None:
            return None
        # What root runs, and what users of a shared cluster rely on, must be root's.
        only_roots = conf.network.port is not None or os.geteuid() == 0
        return GroupProgram(conf.locations.server_dir, self.folder, only_roots=only_roots)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def text(self, name: str) -> str | None:
        data = self.contents.get(name)
        return None if data is None else decode(self.path(name), data, self.findings)

    def sections(self, name: str) -> list[ConfigSection]:
        text = self.text(name)
        return [] if text is None else read_sections(self.path(name), text, self.findings, self.directives)

    def _include(self, name: str, at: SourcePlace) -> tuple[str, str] | None:
        """A file that #INCLUDE names: by its path, or as it lies in the folder."""
        path = self.path(name)
        if path not in self.included:
            data = self.contents.get(name)
            if data is None and self._reads:
                data = _read_file(path, self.findings, at)
            elif data is None:
                self.findings.error(at, f"#INCLUDE: there is no file {show(name)}")
            self.included[path] = data
        found = self.included[path]
        text = None if found is None else decode(path, found, self.findings)
        return None if text is None else (path, text)


class _Files(NamedTuple):
    """What each file says."""

    conf: LsfConf
    shared: SharedFile
    cluster_file: str
    cluster: ClusterFile
    params: ParamsFile
    users: Users
    hosts: HostsFile
    queues: dict[str, Queue]
    applications: dict[str, Application]
    resources: Resources
    egroup: GroupProgram | None


def _build(folder: _Folder, hostname: str, has_account: Callable[[str], bool] | None) -> Loaded:
    findings, conf_dir = folder.findings, folder.folder
    _check_presence(folder)
    files = _read(folder)
    master = _master(folder, files.conf, files.cluster, files.cluster_file, hostname)
    _check_intervals(files.conf, files.cluster, findings)
    if has_account is not None:
        _note_unknown_users(folder, files, has_account)
    config: ClusterConfig | None = None
    if not findings.has_errors and files.conf.locations is not None:
        config = _joined(files, files.conf.locations, master, findings)
        config = msgspec.structs.replace(
            config,
            digest=_digest({**folder.contents, **folder.included}),
            time_conditions=tuple(folder.directives.conditions),
        )
    order = ["lsf.conf", "lsf.shared", files.cluster_file, *_ORDER]
    return Loaded(config, findings.sorted([conf_dir, *map(folder.path, order)]), tuple(folder.included))


def _read(folder: _Folder) -> _Files:
    """Every file, each in the light of those that it refers to."""
    findings = folder.findings
    assignments = read_assignments(folder.path("lsf.conf"), folder.text("lsf.conf") or "", findings)
    conf = read_lsf_conf(folder.path("lsf.conf"), folder.folder, assignments, findings)
    shared = read_shared(folder.sections("lsf.shared"), findings)
    cluster_file = _cluster_file(folder, shared)
    cluster = ClusterFile()
    if cluster_file in folder.contents:
        cluster = read_cluster(folder.path(cluster_file), folder.sections(cluster_file), shared, findings)
    cluster.elims = joined_elims(conf.elims, cluster.elims, findings)
    params = read_params(folder.sections("lsb.params"), shared.resources, conf.unit, findings)
    egroup = folder.egroup(conf)
    users = read_users(folder.sections("lsb.users"), findings, egroup)
    hosts = read_hosts(
        folder.sections("lsb.hosts"),
        cluster.hosts,
        users.names,
        shared.resources,
        params.unit_types,
        conf.unit,
        findings,
        egroup,
    )
    judge = RequirementJudge(
        shared.resources, hosts.compute_units, tuple(shared.types), tuple(shared.models), conf.unit
    )
    applications = read_applications(folder.sections("lsb.applications"), judge, findings)
    known = Known(
        hosts.names, users.names, shared.resources, judge, params.sleep_s, applications, conf.timing.gpu_use_s
    )
    queues = read_queues(folder.sections("lsb.queues"), known, findings)
    _check_default_application(folder, params, applications)
    named = NamedMembers(users.names, hosts.names, queues, shared.resources, conf.unit, applications)
    resources = read_resources(folder.sections("lsb.resources"), named, findings)
    _check_default_queue(folder, params, queues)
    check_sleep_time(params, queues, findings)
    return _Files(conf, shared, cluster_file, cluster, params, users, hosts, queues, applications, resources, egroup)


def _note_unknown_users(folder: _Folder, files: _Files, has_account: Callable[[str], bool]) -> None:
    again = folder.once_more(Findings())  # what is wrong with their form has been said
    naming = (files.cluster_file, "lsb.queues", "lsb.users", "lsb.hosts", "lsb.resources")
    sections = {folder.path(name): again.sections(name) for name in naming}
    listed = files.egroup.users if files.egroup is not None else []
    note_unknown_names(sections, files.users.names.groups, has_account, folder.findings, listed)


def _joined(files: _Files, locations: Locations, master: str, findings: Findings) -> ClusterConfig:
    conf, shared, cluster, hosts, users = files.conf, files.shared, files.cluster, files.hosts, files.users
    return ClusterConfig(
        cluster=shared.cluster or files.cluster_file.removeprefix(CLUSTER_PREFIX),
        master_host=master,
        administrators=cluster.administrators,
        hosts=hosts.hosts,
        queues=files.queues,
        applications=files.applications,
        resources=shared.resources,
        mapped=cluster.mapped,
        shared=cluster.shared,
        params=_params(conf, files.params, findings),
        timing=_timing(files),
        locations=locations,
        network=conf.network,
        metrics=conf.metrics,
        web=conf.web,
        admin_hosts=conf.admin_hosts,
        unknown_users=conf.unknown_users,
        system_users=conf.system_users,
        gpu_provider=conf.gpu_provider,
        gpu_fence=conf.gpu_fence,
        mps_control=conf.mps_control,
        pam_limits=conf.pam_limits,
        ssh_access=conf.ssh_access,
        kept_output_mib=conf.kept_output_mib,
        dcgm_mapping_dir=conf.dcgm_mapping_dir,
        pre_post_exec_user=conf.pre_post_exec_user,
        host_types=tuple(shared.types),
        host_models=tuple(shared.models),
        limits=tuple(files.resources.limits),
        limit_settings=files.resources.limit_settings,
        users=users.limits,
        user_groups=users.names.groups,
        host_groups=hosts.names.groups,
        host_members=hosts.names.members,
        host_group_admins={name: admins for name, admins in hosts.names.admins.items() if admins},
        model_factors=shared.models,
        compute_units=hosts.compute_units,
        reservation_method=files.resources.methods,
    )


def _timing(files: _Files) -> Timing:
    conf, cluster = files.conf, files.cluster
    timing = msgspec.structs.replace(
        conf.timing,
        exchange_s=cluster.exchange_s,
        usage_sample_s=files.params.usage_sample_s,
        cpu_peak_s=files.params.cpu_peak_s,
    )
    return with_elims(timing, cluster.elims)


def _params(conf: LsfConf, file: ParamsFile, findings: Findings) -> Params:
    """lsb.params with what lsf.conf adds to it. GPU_REQ counts before the older LSB_GPU_REQ."""
    if conf.gpu_req_at is not None and file.gpu_req_at is not None:
        findings.note(conf.gpu_req_at, "LSB_GPU_REQ has no effect: GPU_REQ of lsb.params is set")
    return msgspec.structs.replace(
        file.params,
        host_lost_after_s=conf.host_lost_after_s,
        job_report=conf.job_report,
        stdout_direct=conf.stdout_direct,
        mail_to=conf.mail_to,
        mail_program=conf.mail_program,
        mail_server=conf.mail_server,
        notice_ways=conf.notice_ways,
        notice_proxy=conf.notice_proxy,
        root_may_submit=conf.root_may_submit,
        max_requests_per_s=conf.max_requests_per_s,
        max_dispatch_per_cycle=conf.max_dispatch_per_cycle,
        gpu_req=file.params.gpu_req or conf.gpu_req,
    )


def _check_presence(folder: _Folder) -> None:
    findings = folder.findings
    for name in ("lsf.conf", "lsb.queues"):
        if name not in folder.contents:
            findings.error(SourcePlace(folder.path(name)), "the file is missing")
    if "lsf.shared" not in folder.contents:
        findings.note(
            SourcePlace(folder.path("lsf.shared")),
            "the file is missing: no host types, models or resources are defined",
        )
    for name, consequence in _OPTIONAL.items():
        if name not in folder.contents and consequence:
            findings.note(SourcePlace(folder.path(name)), f"the file is missing: {consequence}")
    for name, why in _NOT_READ.items():
        if name in folder.contents:
            findings.note(SourcePlace(folder.path(name)), f"not read: {why}")
    for name in _UNSUPPORTED_FILES:
        sections = folder.sections(name)
        if sections:
            findings.error(sections[0].at, f"section {sections[0].name}: {name} is not supported yet")


def _cluster_file(folder: _Folder, shared: SharedFile) -> str:
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


def _check_default_queue(folder: _Folder, params: ParamsFile, queues: Mapping[str, object]) -> None:
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


def _check_default_application(folder: _Folder, params: ParamsFile, applications: Mapping[str, object]) -> None:
    name = params.params.default_application
    if name and name not in applications:
        text = f"DEFAULT_APPLICATION: profile {name} is not defined in lsb.applications{suggestion(name, applications)}"
        folder.findings.error(SourcePlace(folder.path("lsb.params")), text)


def _master(folder: _Folder, conf: LsfConf, cluster: ClusterFile, cluster_file: str, hostname: str) -> str:
    """Name of the master's host: LSF_MASTER_LIST, else the first server of lsf.cluster; "" when there is none."""
    findings = folder.findings
    servers = [host.name for host in cluster.hosts.values() if host.server]
    if hostname and cluster.hosts and hostname not in cluster.hosts:
        text = f"this machine ({show(hostname)}) is not a host of the cluster"
        findings.note(SourcePlace(folder.path(cluster_file)), text)
    if conf.master is not None and conf.master_at is not None and cluster.hosts and conf.master not in servers:
        near = suggestion(conf.master, servers)
        findings.error(conf.master_at, f"LSF_MASTER_LIST: {conf.master} is not a server host of lsf.cluster{near}")
    for what, names, at in (
        ("GSCHED_ADMIN_HOSTS", conf.admin_hosts, conf.admin_hosts_at),
        ("GSCHED_WEB_HOSTS", conf.web.hosts, conf.web_hosts_at),
    ):
        unknown = [name for name in names if name != ALL_HOSTS and cluster.hosts and name not in cluster.hosts]
        if unknown and at is not None:
            near = suggestion(unknown[0], cluster.hosts)
            findings.error(at, f"{what}: {unknown[0]} is not a host of lsf.cluster{near}")
    return conf.master or (servers[0] if servers else "")


def _check_intervals(conf: LsfConf, cluster: ClusterFile, findings: Findings) -> None:
    if conf.host_lost_after_s > cluster.exchange_s:
        return
    at = conf.host_lost_at or cluster.exchange_at
    if at is not None:
        findings.error(
            at,
            f"a host would be lost between two reports: GSCHED_HOST_LOST ({conf.host_lost_after_s:g} s) must be longer "
            f"than EXINTERVAL ({cluster.exchange_s:g} s)",
        )


def _digest(contents: Mapping[str, bytes | None]) -> str:
    """Fingerprint of the files that were read."""
    state = hashlib.sha256()
    for name in sorted(contents):
        data = contents[name] or b""
        state.update(f"{name} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()
