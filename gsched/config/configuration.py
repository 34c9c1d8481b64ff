"""The configuration folder as a whole: read every file, join what they say, report everything that is wrong at once.

Nothing here raises for what stands in a file. One error anywhere means no configuration at all, so that a cluster
never runs with half of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gsched.base.errors import ConfigError, Problem
from gsched.config.config_folder import CLUSTER_PREFIX, ConfigFolder, digest, read_folder
from gsched.config.cross_file_checks import (
    check_default_application,
    check_default_queue,
    check_default_user_group,
    check_intervals,
    check_presence,
    cluster_file_of,
    master_of,
)
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
from gsched.config.files.service_classes import read_service_classes
from gsched.config.grammar.findings import Findings
from gsched.config.grammar.sections import read_assignments
from gsched.config.names.external_groups import GroupProgram
from gsched.config.names.unknown_names import note_unknown_names
from gsched.config.parameters.elim_settings import joined_elims, with_elims
from gsched.config.parameters.requirements import RequirementJudge
from gsched.model.config import ClusterConfig, Locations, Params, Timing
from gsched.model.queues.application import Application
from gsched.model.queues.guarantee import ServiceClass
from gsched.model.queues.queue import Queue

_ORDER = (
    "lsb.params",
    "lsb.queues",
    "lsb.hosts",
    "lsb.users",
    "lsb.applications",
    "lsb.serviceclasses",
    "lsb.resources",
)
"""In which order problems of the files are listed."""


class Loaded(msgspec.Struct, frozen=True):
    """The outcome of `load`. `config` is None when any problem is an error."""

    config: ClusterConfig | None
    problems: list[Problem]
    included: tuple[str, ...] = ()
    """Paths of the files that others name with #INCLUDE."""
    contents: Mapping[str, bytes | None] = msgspec.field(default_factory=dict)
    """What was read: files of the folder by name, those that others include by path."""
    minute: int = 0
    """Minute of the week for which #if time(...) was answered."""

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
    contents = {**read_folder(folder, findings), **(instead or {})}
    return _build(
        ConfigFolder(meant_for or folder, contents, findings, minute, runs_egroup=run_egroup), hostname, has_account
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
    return _build(ConfigFolder(conf_dir, contents, Findings(), minute, reads=False), hostname, has_account)


def load_contents(conf_dir: str, contents: Mapping[str, bytes | None], hostname: str, minute: int) -> Loaded:
    """What `load` answered for the folder when it held this, in that minute of the week; reads nothing. `contents` are
    those of `Loaded`. Members of groups that egroup lists are left open.
    """
    return _build(ConfigFolder(conf_dir, contents, Findings(), minute, reads=False), hostname, None)


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
    service_classes: dict[str, ServiceClass]
    resources: Resources
    egroup: GroupProgram | None


def _build(folder: ConfigFolder, hostname: str, has_account: Callable[[str], bool] | None) -> Loaded:
    findings, conf_dir = folder.findings, folder.folder
    check_presence(folder)
    files = _read(folder)
    master = master_of(folder, files.conf, files.cluster, files.cluster_file, hostname)
    check_intervals(files.conf, files.cluster, findings)
    if has_account is not None:
        _note_unknown_users(folder, files, has_account)
    config: ClusterConfig | None = None
    if not findings.has_errors and files.conf.locations is not None:
        config = _joined(files, files.conf.locations, master, findings)
        config = msgspec.structs.replace(
            config,
            digest=digest({**folder.contents, **folder.included}),
            time_conditions=tuple(folder.directives.conditions),
        )
    order = ["lsf.conf", "lsf.shared", files.cluster_file, *_ORDER]
    problems = findings.sorted([conf_dir, *map(folder.path, order)])
    contents = {**folder.contents, **folder.included}
    return Loaded(config, problems, tuple(folder.included), contents, folder.directives.minute)


def _read(folder: ConfigFolder) -> _Files:
    """Every file, each in the light of those that it refers to."""
    findings = folder.findings
    assignments = read_assignments(folder.path("lsf.conf"), folder.text("lsf.conf") or "", findings)
    conf = read_lsf_conf(folder.path("lsf.conf"), folder.folder, assignments, findings)
    shared = read_shared(folder.sections("lsf.shared"), findings)
    cluster_file = cluster_file_of(folder, shared)
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
        hosts.names,
        users.names,
        shared.resources,
        judge,
        params.sleep_s,
        applications,
        conf.timing.gpu_use_s,
        conf.reserved_jobs,
    )
    queues = read_queues(folder.sections("lsb.queues"), known, findings)
    check_default_application(folder, params, applications)
    check_default_user_group(folder, params, users.names.groups)
    classes = read_service_classes(folder.sections("lsb.serviceclasses"), users.names, queues, applications, findings)
    named = NamedMembers(
        users.names, hosts.names, queues, shared.resources, conf.unit, applications, classes, judge.condition
    )
    resources = read_resources(folder.sections("lsb.resources"), named, findings)
    check_default_queue(folder, params, queues)
    check_sleep_time(params, queues, findings)
    return _Files(
        conf, shared, cluster_file, cluster, params, users, hosts, queues, applications, classes, resources, egroup
    )


def _note_unknown_users(folder: ConfigFolder, files: _Files, has_account: Callable[[str], bool]) -> None:
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
        masters=conf.masters.hosts if len(conf.masters.hosts) > 1 else (),
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
        log_levels=conf.log_levels,
        network=conf.network,
        metrics=conf.metrics,
        web=conf.web,
        admin_hosts=conf.admin_hosts,
        unknown_users=conf.unknown_users,
        system_users=conf.system_users,
        gpu_provider=conf.gpu_provider,
        gpu_fence=conf.gpu_fence,
        mps_control=conf.mps_control,
        cuda_checkpoint=conf.cuda_checkpoint,
        pam_limits=conf.pam_limits,
        ssh_access=conf.ssh_access,
        kept_output=conf.kept_output,
        dcgm_mapping_dir=conf.dcgm_mapping_dir,
        job_tmpdir=conf.job_tmpdir,
        pre_post_exec_user=conf.pre_post_exec_user,
        host_types=tuple(shared.types),
        host_models=tuple(shared.models),
        limits=tuple(files.resources.limits),
        limit_settings=files.resources.limit_settings,
        service_classes=files.service_classes,
        pools=tuple(files.resources.pools),
        reservation_policies=tuple(files.resources.reservation_policies),
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
        max_asked_hosts=conf.max_asked_hosts,
        stdout_direct=conf.stdout_direct,
        default_job_group=conf.default_job_group or file.params.default_job_group,
        mail_to=conf.mail_to,
        mail_program=conf.mail_program,
        mail_server=conf.mail_server,
        container_mounts=conf.container_mounts,
        container_images=conf.container_images,
        notice_ways=conf.notice_ways,
        notice_proxy=conf.notice_proxy,
        root_may_submit=conf.root_may_submit,
        max_requests_per_s=conf.max_requests_per_s,
        max_dispatch_per_cycle=conf.max_dispatch_per_cycle,
        gpu_req=file.params.gpu_req or conf.gpu_req,
    )
