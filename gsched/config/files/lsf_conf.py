"""lsf.conf: folders, the daemons' intervals, and who may do what. Source: lsf.conf(5); GSCHED_* are gsched's own."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from gsched.base.envdir import MASTER_LISTS
from gsched.base.errors import BadRequest, ConfigError
from gsched.base.units import unit_letter
from gsched.config.files.store_address import read_store
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.sections import MAX_FILE_BYTES, KeyValue, decode, read_assignments
from gsched.config.grammar.unsupported import AS_HERE_CONF, REFUSED_CONF, WITHOUT_EFFECT_CONF
from gsched.config.grammar.values import (
    KeyValues,
    absolute_path,
    command_line,
    default_group,
    host_name,
    integer,
    log_level,
    plain_text,
    seconds,
    user_name,
    yes_or_no,
)
from gsched.config.names.master_list import MasterList, read_master_list
from gsched.config.parameters.containers import container_images, container_mounts
from gsched.config.parameters.elim_settings import Elims, read_elims
from gsched.config.parameters.job_surroundings import job_tmpdir, kept_output
from gsched.config.parameters.metrics_endpoint import read_metrics
from gsched.config.parameters.notice_settings import read_proxy, read_ways
from gsched.config.parameters.requirements import gpu_requirement
from gsched.config.parameters.reservation import MOST_JOBS
from gsched.config.parameters.web_front import read_web_front
from gsched.model.config import (
    ALL_HOSTS,
    GpuFence,
    Locations,
    LogLevels,
    MetricsEndpoint,
    Network,
    Params,
    SshAccess,
    Timing,
)
from gsched.model.hosts.job_tmpdir import JobTmpdir
from gsched.model.hosts.kept_output import KeptOutput
from gsched.model.web_front import WebFront

MAX_RUN_DIR_BYTES = 91
"""A Unix socket's path may have 107 bytes; the rest is left for the names of the sockets."""

DEFAULT_RUN_DIR = "/run/gsched"
DEFAULT_SPOOL_DIR = "/var/spool/gsched"
DEFAULT_GPU_PROVIDER = "nvml"
DEFAULT_UNIT = "MB"
DEFAULT_MPS_CONTROL = "nvidia-cuda-mps-control"
DEFAULT_CUDA_CHECKPOINT = "cuda-checkpoint"
LSB_FOLDER = "lsbatch"
TLS_FOLDER = "tls"
LAST_PORT = 65535


class LsfConf(msgspec.Struct):
    """What lsf.conf says. `locations` is None when a folder is missing or wrong (which has been reported)."""

    locations: Locations | None
    timing: Timing
    elims: Elims
    host_lost_after_s: float
    host_lost_at: SourcePlace | None
    root_may_submit: bool
    max_requests_per_s: int
    admin_hosts: tuple[str, ...]
    admin_hosts_at: SourcePlace | None
    unknown_users: bool
    system_users: tuple[str, ...]
    network: Network
    metrics: MetricsEndpoint
    web: WebFront
    web_hosts_at: SourcePlace | None
    gpu_provider: str
    gpu_fence: GpuFence
    mps_control: str
    cuda_checkpoint: str
    pam_limits: bool | None
    ssh_access: SshAccess
    kept_output: KeptOutput
    dcgm_mapping_dir: str
    job_tmpdir: JobTmpdir
    pre_post_exec_user: str
    masters: MasterList
    max_dispatch_per_cycle: int | None
    max_asked_hosts: int | None
    reserved_jobs: int | None
    job_report: bool
    stdout_direct: bool
    log_levels: LogLevels
    default_job_group: str
    mail_to: str
    mail_program: str
    mail_server: str
    container_mounts: tuple[str, ...]
    container_images: tuple[str, ...] | None
    notice_ways: tuple[str, ...]
    notice_proxy: str
    gpu_req: str
    gpu_req_at: SourcePlace | None
    unit: str
    """The letter of LSF_UNIT_FOR_LIMITS."""


def read_lsf_conf(path: str, conf_dir: str, entries: Sequence[KeyValue], findings: Findings) -> LsfConf:
    """lsf.conf as one value. Every problem goes to `findings`."""
    settings = KeyValues(entries, findings, where="lsf.conf", fold_case=False)
    network = _network(conf_dir, settings, findings)
    unit = settings.take("LSF_UNIT_FOR_LIMITS", _unit, unit_letter(DEFAULT_UNIT))
    conf = LsfConf(
        locations=_locations(path, conf_dir, settings, findings),
        timing=_timing(settings),
        elims=read_elims(settings),
        host_lost_after_s=settings.take("GSCHED_HOST_LOST", seconds(0.1), Params().host_lost_after_s),
        host_lost_at=settings.place("GSCHED_HOST_LOST"),
        root_may_submit=settings.take("LSF_ROOT_USER", yes_or_no, False),
        max_requests_per_s=settings.take(
            "GSCHED_MAX_REQUESTS_PER_S", integer(1, 1_000_000), Params().max_requests_per_s
        ),
        admin_hosts=settings.take("GSCHED_ADMIN_HOSTS", _admin_hosts, ()),
        admin_hosts_at=settings.place("GSCHED_ADMIN_HOSTS"),
        unknown_users=settings.take("GSCHED_UNKNOWN_USERS", yes_or_no, False),
        system_users=settings.take("GSCHED_SYSTEM_USERS", _users, ()),
        network=network,
        metrics=read_metrics(settings, findings, network),
        web=read_web_front(settings, findings, network),
        web_hosts_at=settings.place("GSCHED_WEB_HOSTS"),
        gpu_provider=settings.take("GSCHED_GPU_PROVIDER", read_gpu_provider, DEFAULT_GPU_PROVIDER),
        gpu_fence=_fence(settings, findings),
        mps_control=settings.take("GSCHED_MPS_CONTROL", _program, DEFAULT_MPS_CONTROL),
        cuda_checkpoint=settings.take("GSCHED_CUDA_CHECKPOINT", _program, DEFAULT_CUDA_CHECKPOINT),
        pam_limits=settings.take("GSCHED_PAM_LIMITS", yes_or_no, None),
        ssh_access=settings.take("GSCHED_SSH", _ssh_access, SshAccess.REFUSE),
        kept_output=kept_output(settings, findings),
        dcgm_mapping_dir=settings.take("GSCHED_DCGM_JOB_MAPPING_DIR", absolute_path, ""),
        job_tmpdir=job_tmpdir(settings, findings),
        pre_post_exec_user=settings.take("LSB_PRE_POST_EXEC_USER", user_name, ""),
        masters=read_master_list(settings, findings),
        max_dispatch_per_cycle=settings.take("LSB_MAX_JOB_DISPATCH_PER_SESSION", integer(1, 2**31 - 2), None),
        log_levels=LogLevels(
            others=settings.take("LSF_LOG_MASK", log_level, LogLevels().others),
            master=settings.take("LSB_LOG_MASK_MBD", log_level, ""),
            agent=settings.take("LSB_LOG_MASK_SBD", log_level, ""),
        ),
        default_job_group=settings.take("LSB_DEFAULT_JOBGROUP", default_group, ""),
        mail_to=settings.take("LSB_MAILTO", _mail_to, Params().mail_to),
        mail_program=settings.take("LSB_MAILPROG", command_line, ""),
        mail_server=settings.take("LSB_MAILSERVER", _mail_server, ""),
        container_mounts=container_mounts(settings),
        container_images=container_images(settings),
        notice_ways=read_ways(settings),
        notice_proxy=read_proxy(settings),
        max_asked_hosts=settings.take("LSB_MAX_ASKED_HOSTS_NUMBER", integer(1, 2**31 - 2), None),
        reserved_jobs=settings.take("LSB_TIME_RESERVE_NUMJOBS", integer(0, MOST_JOBS), None),
        job_report=settings.take("LSB_JOB_REPORT_MAIL", yes_or_no, True),
        stdout_direct=settings.take("LSB_STDOUT_DIRECT", yes_or_no, False),
        gpu_req=settings.take("LSB_GPU_REQ", gpu_requirement(unit), ""),
        gpu_req_at=settings.place("LSB_GPU_REQ"),
        unit=unit,
    )
    _check_what_commands_read(settings)
    settings.finish(REFUSED_CONF, WITHOUT_EFFECT_CONF, as_here=AS_HERE_CONF)
    return conf


def _timing(settings: KeyValues) -> Timing:
    default = Timing()
    return Timing(
        gpu_probe_s=settings.take("GSCHED_GPU_INTERVAL", seconds(0.05), default.gpu_probe_s),
        gpu_use_s=settings.take("GSCHED_GPU_USE_INTERVAL", seconds(0.05), default.gpu_use_s),
        elim_restart_s=settings.take("GSCHED_ELIM_RESTART", seconds(0.05), default.elim_restart_s),
        command_wait_s=settings.take("GSCHED_COMMAND_WAIT", seconds(0), default.command_wait_s),
    )


def _check_what_commands_read(settings: KeyValues) -> None:
    """What commands read, each for itself; the environment's values come before these. Here they are only checked."""
    for command in ("LSB_BJOBS", "LSB_BHOSTS", "LSB_BQUEUES", "LSB_BUSERS", "LSF_LSLOAD"):
        settings.take(f"{command}_FORMAT", str, "")
    settings.take("LSB_BJOBS_CONSISTENT_EXIT_CODE", yes_or_no, False)
    settings.take("LSB_BJOBS_PENDREASON_LEVEL", integer(0, 3), 2)
    settings.take("LSB_BJOBS_DISPLAY_YEAR", yes_or_no, False)
    settings.take("LSB_BHIST_DISPLAY_YEAR", yes_or_no, False)
    settings.take("LSB_BACCT_DISPLAY_YEAR", yes_or_no, False)
    settings.take("LSB_BHIST_HOURS", integer(1, 1_000_000), 0)
    settings.take("LSB_HMS_TIME_FORMAT", yes_or_no, False)
    settings.take("LSF_DISABLE_LSRUN", yes_or_no, False)
    settings.take("LSB_DISPLAY_YEAR", yes_or_no, False)
    settings.take("LSB_PACK_SKIP_ERROR", yes_or_no, False)
    settings.take("LSB_ESUB_METHOD", plain_text, "")
    settings.take("LSF_RSH", command_line, "")
    settings.take("BSUB_CHK_RESREQ", yes_or_no, False)
    settings.take("LSB_BSUB_PARSE_SCRIPT", _parse_script, True)


def settings_of(conf_dir: str) -> dict[str, str]:
    """What `conf_dir`'s lsf.conf sets, by name, and what programs ask for that it need not set.

    Raises ConfigError when the file cannot be read as a list of settings.
    """
    path = os.path.join(conf_dir, "lsf.conf")
    findings = Findings()
    try:
        with open(path, "rb") as file:
            text = decode(path, file.read(MAX_FILE_BYTES + 1), findings)
    except OSError as error:
        findings.error(SourcePlace(path), f"cannot be read: {error.strerror}")
        text = None
    found = {entry.key: entry.value for entry in read_assignments(path, text or "", findings) if entry.value}
    if findings.has_errors:
        raise ConfigError(findings.sorted([path]))
    for name, value in (
        ("LSF_CONFDIR", conf_dir),
        ("LSB_CONFDIR", os.path.join(conf_dir, LSB_FOLDER)),
        ("LSF_ENVDIR", conf_dir),
        ("LSF_UNIT_FOR_LIMITS", DEFAULT_UNIT),
    ):
        found.setdefault(name, value)
    return found


def read_gpu_provider(text: str) -> str:
    """`nvml`, `none` or `sim:FOLDER`. Raises BadRequest."""
    kind, colon, folder = text.partition(":")
    if text in ("nvml", "none"):
        return text
    if kind == "sim" and colon:
        return f"sim:{absolute_path(folder)}"
    raise BadRequest(f"'{show(text)}' is none of nvml, none and sim:FOLDER")


def _program(text: str) -> str:
    """A program to run, by its path or by a name that is looked for in PATH."""
    if not text or ("/" in text and not text.startswith("/")):
        raise BadRequest(f"'{show(text)}' is neither a path from / on nor the name of a program")
    return plain_text(text)


def _fence(settings: KeyValues, findings: Findings) -> GpuFence:
    """GSCHED_GPU_FENCE, and LSF's word for the same wish: what each says must go together."""
    enforced = settings.take("LSB_RESOURCE_ENFORCE", _enforced, ())
    fence = settings.take("GSCHED_GPU_FENCE", _fence_wish, GpuFence.ON)
    at = settings.place("LSB_RESOURCE_ENFORCE")
    if "gpu" in enforced and fence is GpuFence.OFF and at is not None:
        findings.error(at, "LSB_RESOURCE_ENFORCE asks for what GSCHED_GPU_FENCE=N turns off")
    return fence


def _fence_wish(text: str) -> GpuFence:
    if text.casefold() == GpuFence.REQUIRED:
        return GpuFence.REQUIRED
    try:
        return GpuFence.ON if yes_or_no(text) else GpuFence.OFF
    except BadRequest:
        raise BadRequest(f"'{show(text)}' is none of Y, N and required") from None


def _ssh_access(text: str) -> SshAccess:
    try:
        return SshAccess(text.casefold())
    except ValueError:
        raise BadRequest(f"'{show(text)}' is none of refuse, no_gpu and open") from None


def _enforced(text: str) -> tuple[str, ...]:
    words = tuple(text.casefold().split())
    for word in words:
        if word != "gpu":
            raise BadRequest(f"'{show(word)}' is not supported yet; gpu is")
    return words


def _locations(path: str, conf_dir: str, settings: KeyValues, findings: Findings) -> Locations | None:
    for name in ("LSF_CONFDIR", "LSB_CONFDIR", "LSF_ENVDIR"):
        given = settings.take(name, absolute_path, "")
        at = settings.place(name)
        if not given:
            continue
        if name == "LSB_CONFDIR" and os.path.realpath(given) == os.path.realpath(os.path.join(conf_dir, LSB_FOLDER)):
            continue  # where LSF has it; CLUSTER/configdir below it is a link to the folder that is read
        if at and os.path.realpath(given) != os.path.realpath(conf_dir):
            findings.error(at, f"{name}: all files are read from {show(conf_dir)}; another folder is not supported yet")
    found: dict[str, str] = {}
    for name in ("LSB_SHAREDIR", "LSF_LOGDIR", "LSF_SERVERDIR"):
        # LSF's own file does not set this one: its programs are told it by their environment.
        default = os.path.join(os.path.dirname(conf_dir), "etc") if name == "LSF_SERVERDIR" else ""
        found[name] = settings.take(name, absolute_path, default)
        if settings.place(name) is None and default:
            findings.note(SourcePlace(path), f"{name} is not set: elims and esubs are looked for in {show(default)}")
        elif settings.place(name) is None:
            findings.error(SourcePlace(path), f"{name} is not set")
    run_dir = settings.take("GSCHED_RUNDIR", _socket_folder, DEFAULT_RUN_DIR)
    spool_dir = settings.take("GSCHED_SPOOLDIR", absolute_path, DEFAULT_SPOOL_DIR)
    store = read_store(settings, findings)
    if not all(found.values()):
        return None
    return Locations(
        conf_dir=conf_dir,
        state_dir=found["LSB_SHAREDIR"],
        log_dir=found["LSF_LOGDIR"],
        server_dir=found["LSF_SERVERDIR"],
        run_dir=run_dir,
        spool_dir=spool_dir,
        store=store,
    )


def _network(conf_dir: str, settings: KeyValues, findings: Findings) -> Network:
    """Where a shared cluster listens; without LSB_MBD_PORT the rest says nothing."""
    network = Network(
        port=settings.take("LSB_MBD_PORT", integer(1, LAST_PORT), None),
        munge_port=settings.take("GSCHED_MUNGE_PORT", integer(1, LAST_PORT), None),
        munge_socket=settings.take("GSCHED_MUNGE_SOCKET", absolute_path, ""),
        tls_dir=settings.take("GSCHED_TLSDIR", absolute_path, os.path.join(conf_dir, TLS_FOLDER)),
    )
    at = settings.place("GSCHED_MUNGE_PORT")
    if network.munge_port is not None and at is not None:
        if network.port is None:
            findings.error(at, "GSCHED_MUNGE_PORT is a second port of a shared cluster: LSB_MBD_PORT names the first")
        elif all(settings.place(name) is None for name in MASTER_LISTS):
            findings.error(at, "GSCHED_MUNGE_PORT needs LSF_MASTER_LIST: hosts without a door find the master by it")
        elif network.port == network.munge_port:
            findings.error(at, f"GSCHED_MUNGE_PORT and LSB_MBD_PORT are both {network.port}; each needs its own")
    return network


def _mail_to(text: str) -> str:
    """`!U`, `!U@site`: !U is the user. Raises BadRequest."""
    if not text or not text.isprintable() or " " in text:
        raise BadRequest(f"'{show(text)}' is not of the form !U or !U@HOST")
    return text


def _mail_server(text: str) -> str:
    """`SMTP:host[:port]` without its first word. Raises BadRequest."""
    kind, _, server = text.partition(":")
    host, _, port = server.partition(":")
    if kind.upper() != "SMTP" or not host or not (not port or (port.isascii() and port.isdigit() and len(port) < 6)):
        raise BadRequest(f"'{show(text)}' is not of the form SMTP:HOST[:PORT]")
    return server


def _parse_script(text: str) -> bool:
    if not yes_or_no(text):
        raise BadRequest(
            "scripts are always read for #BSUB lines; LSB_BSUB_PARSE_SCRIPT=N in the environment turns it off"
        )
    return True


def _socket_folder(text: str) -> str:
    folder = absolute_path(text)
    size = len(os.fsencode(folder))
    if size > MAX_RUN_DIR_BYTES:
        raise BadRequest(f"the path has {size} bytes; sockets lie in it, so at most {MAX_RUN_DIR_BYTES} are possible")
    return folder


def _admin_hosts(text: str) -> tuple[str, ...]:
    words = text.split()
    if ALL_HOSTS in words:
        if len(words) > 1:
            raise BadRequest(f"'{show(text)}': {ALL_HOSTS} stands alone")
        return (ALL_HOSTS,)
    return tuple(dict.fromkeys(host_name(word) for word in words))


def _users(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(user_name(word) for word in text.split()))


def _unit(text: str) -> str:
    try:
        return unit_letter(text)
    except BadRequest:
        raise BadRequest(f"'{show(text)}' is none of KB, MB, GB, TB, PB, EB and ZB") from None
