"""What an executor is asked to run, what it reports, and what every executor can do.

The order is complete: paths hold no %J any more, the environment is exactly what the job sees. It is written into the
attempt's folder and read there, by the supervisor and by every later agent. Nothing here acts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.job_controls import JobControls
from gsched.run.account import UnixAccount
from gsched.run.containers.container import Container
from gsched.run.report.job_report import ReportFacts


class JobStep(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs before or after the job, by /bin/sh, without input and output."""

    command: str
    what: AnyText = ""
    """What people call it, where `level` does not say it: "the queue's post-exec command"."""
    level: str = ""
    """Whose pre-execution command it is: `job`, `queue` or `application`; empty: none."""
    is_site: bool = False
    """Configured by the site: runs in /tmp with a plain PATH, not in the job's directory with the job's PATH."""
    undoes_first: bool = False
    """Of a step after the job: takes back what the very first step has made, and is not run where that one failed."""


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """Mail about one job: where it goes, by what, and when."""

    to: str
    sender: str
    facts: ReportFacts
    program: str = ""
    """Command line of a program that takes the address as its last argument and the mail as its input."""
    server: str = ""
    """`host[:port]`, where there is no program."""
    begin: bool = False
    end: bool = False
    error: bool = False
    """At the end of a job that fails."""


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """The control group that an attempt runs in, and what cannot be opened there."""

    kind: str
    """"v1" or "v2"."""
    folders: tuple[str, ...]
    minors: tuple[int, ...] | None = None
    """Device minors of the GPUs that it may open; None: all, the group is there to stop and end what runs in it."""
    denied: tuple[tuple[int, int], ...] = ()
    """Major and minor of other devices that it may not open: render nodes of foreign GPUs, GPUs of high numbers."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to be run."""

    job_id: int
    attempt: int
    command: str
    """A line for /bin/sh -c. Of a job with a script: only what is shown of it."""
    account: UnixAccount | None = None
    """Whom the job runs as; None: as the agent's own user."""
    granted: tuple[tuple[int, int, int], ...] = ()
    """(kind, soft, hard) of setrlimit(2): the limits with which a session of that user begins on this host."""
    site_account: UnixAccount | None = None
    """Whom the site's own steps run as; None: as the job."""
    site_environment: dict[str, str] = {}
    """All that they are told then, but for how the job ended."""
    script_words: tuple[str, ...] = ()
    """Arguments of the script."""
    script: str | None = None
    """The text of a script, executed by the interpreter of its `#!` line, by /bin/sh without one.

    Bytes that are not UTF-8 are carried, here and in the other texts, as by the error handler "surrogateescape".
    """
    environment: dict[str, str] = {}
    """All of it, but for PWD, LS_JOBPID, LSB_JOBRES_PID and the attempt's mark, which are added."""
    cwd: str = "/"
    home: str = ""
    umask: int = 0o022
    nice: int = 0
    """Added to the agent's own niceness (nice(2)); a negative one needs root."""
    input_file: str = ""
    """Empty means /dev/null. Relative paths are relative to `cwd`."""
    output_file: str = ""
    """Empty means a file in the attempt's folder."""
    output_overwrite: bool = False
    error_file: str = ""
    """Empty, or the same as `output_file`: standard error goes where standard output goes if that has a file."""
    error_overwrite: bool = False
    output_required: bool = False
    """Where one of these files cannot be opened, the job fails; else what it prints is kept in the attempt's folder."""
    run_limit_s: int | None = None
    """Seconds of run time, time suspended not counted. At the limit SIGUSR2, then INT, TERM, KILL."""
    terminate_interval_s: float = 10.0
    """Seconds between those signals."""
    limits: dict[str, float] = {}
    """Limits by LSF's names, in the units of model.queue.Queue.limits; those of memory kill at once, the others begin
    with signals that a job can take notice of."""
    hostfile: str = ""
    """Text of the file `hostfile` in the attempt's folder: a host per slot. Empty: no such file."""
    host_gpus: dict[str, int] = {}
    """GPUs that the job has on each of its hosts; hosts without one are not named."""
    cpus: tuple[int, ...] = ()
    """CPUs that the job is bound to; none: it is not bound."""
    memory_nodes: tuple[int, ...] = ()
    """NUMA nodes of which alone it may have memory; none: of all."""
    affinity_hostfile: str = ""
    """Text of the file `affinity` in the attempt's folder: a line per task. Empty: no such file."""
    job_files: dict[str, str] = {}
    """Further files for the job in the attempt's folder: name -> text."""
    input: str | None = None
    """Not None: what standard input is to be, in place of `input_file`."""
    interactive: str = ""
    """`pipe` or `pty`: what the job prints and reads goes by way of `terminal`, not by files."""
    folders: tuple[str, ...] = ()
    """Folders to be made if they are missing."""
    first: tuple[JobStep, ...] = ()
    """Steps before the job, in the job's main process: when one fails the job does not run (`job_process`). Of a part:
    before it is open, as children of its supervisor."""
    last: tuple[JobStep, ...] = ()
    """Steps after the job, which all run; the attempt has not ended before they have."""
    first_timeout_s: int = 0
    last_timeout_s: int = 0
    """How long all steps before the job, and all after it, may take; 0: any time. What is there then is killed."""
    job_starter: str = ""
    """JOB_STARTER: a command line with the job's in place of %USRCMD, or behind it."""
    container: Container | None = None
    """What its processes run in; the steps around it do not."""
    login_shell: str = ""
    """-L: path of a shell whose login files are read before."""
    warning_signal: int = 0
    """Not 0: sent to the job `warning_s` before its run limit or `terminate_at` (seconds since the epoch)."""
    warning_s: int = 0
    warning_target: str = ""
    """Whom it is sent to: `main`, the job's main process; `steps`, each srun, which passes it on to its tasks; empty:
    all of its processes."""
    ends_by_term: bool = False
    """It is ended as Slurm and PBS do it, by SIGTERM and KILL_WAIT_S later SIGKILL; and one that was told to end has
    been ended, whatever its exit code."""
    controls: JobControls = JobControls()
    """What is done to it in place of stopping it, letting it go on, ending it."""
    done_codes: tuple[int, ...] = ()
    """Exit codes, beside 0, with which it has done what it was to do; the executor does not look at them."""
    terminate_at: float | None = None
    attempt_line: str = ""
    """Not empty: the job has run before. Its output files are not overwritten; this line goes in between."""
    gpu_lock_uuids: tuple[str, ...] = ()
    """Real GPUs to lock machine-wide against other clusters."""
    fence: Fence | None = None
    """None: none, and its processes are found by their parents and by their mark."""
    any_gpu: bool = False
    """It may use GPUs that it does not hold; the executor does not look at it."""
    gpus_unknown: bool = False
    """Nobody on this host knows any more which GPUs it holds; the executor does not look at it."""
    report: ReportFacts | None = None
    """For the report in the output file; None: there is none."""
    report_room: int = 0
    """Bytes to be left for it above the output; 0: it stands below."""
    mail: Mail | None = None
    """None: no mail is sent."""
    is_part: bool = False
    """The part of a job on a host that is not its first: no process is started, its supervisor is there until it is
    told to end (see `supervisor.host_parts`). `command` and streams mean nothing then."""
    cluster_id: str = ""
    """Whose store has ordered it, and of which generation that was; the executor does not look at it."""
    generation: int = 0
    holding: HostAllocation | None = None
    """What the attempt holds on this host; kept for the hello after a restart, the executor does not look at it."""


class SaveOrder(NamedTuple):
    """What asks a job to save its state before it is ended, and how long it has for that."""

    signal: int
    """0: nothing here."""
    grace_s: int
    target: str = ""
    """As `warning_target` of an order."""


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an attempt in place of those of its order; the fields are as there."""

    run_limit_s: int | None = None
    limits: dict[str, float] = {}


def written_order(order: Order) -> bytes:
    """As it is written down. Bytes that are not UTF-8 (lone surrogates) are carried by json of the standard library
    alone, which takes several times as long.
    """
    try:
        return msgspec.json.encode(order, enc_hook=UnixAccount.fields)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(order, enc_hook=UnixAccount.fields)).encode()


def read_order(data: bytes) -> Order:
    """An order as it was written down, perhaps by an earlier version: what that did not know yet has its default.
    Raises ValueError for anything else.
    """
    try:
        return _DECODER.decode(data)
    except (TypeError, msgspec.MsgspecError):  # also a text with bytes that are not UTF-8, which only json reads
        pass
    try:
        return msgspec.convert(json.loads(data), Order, dec_hook=_account_of)
    except (TypeError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def _account_of(kind: type, fields: Any) -> object:
    """Raises TypeError for what is not as it was written."""
    try:
        return UnixAccount.of(fields)
    except LookupError as error:
        raise TypeError(f"{kind.__name__} without {error}") from error


_DECODER = msgspec.json.Decoder(Order, dec_hook=_account_of)
"""Takes a quarter of the time that json and convert do: each supervisor reads its order."""


class StartedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs. `started_at` is in seconds since the epoch, UTC; `pid` leads a process group of its own."""

    pid: int
    started_at: float
    exec_home: str
    exec_cwd: str
    boot_id: str


Unkillable = tuple[int, str]
"""Number and name of a process that SIGKILL does not end."""

RunKey = tuple[int, int]
"""(job id, attempt)."""

OnStarted = Callable[[int, int, StartedInfo], None]
OnEnded = Callable[[int, int, AttemptResult], None]
OnWarned = Callable[[int, int, float | None], None]
"""Hears job, attempt, and when the job is ended (UTC seconds), once its supervisor has warned it of that."""
OnUnkillable = Callable[[int, int, tuple[Unkillable, ...]], None]
