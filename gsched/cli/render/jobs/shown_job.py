"""A job and how much of it is to be shown. What a layout prints that does not stand in the job's view is derived here.

None means unknown or not applicable and prints as `-` or not at all, never as 0. Nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo

import msgspec

from gsched.base.coded_text import has_code, sentence
from gsched.base.ids import array_of, index_of
from gsched.cli.render.jobs.job_devices import AffinityUnit, GpuOfJob
from gsched.cli.render.text.reason_texts import DEFAULT_LEVEL, reason_texts
from gsched.cli.render.text.requirement_texts import shown_in, shown_with_gpus
from gsched.model.gpus.gpu_idle import JobIdleness
from gsched.model.gpus.gpu_idle import of_job as idleness_of_job
from gsched.model.gpus.gpu_use import JobGpuUse, of_job
from gsched.model.jobs.failure import failure_of
from gsched.model.jobs.job import FINISHED, AttemptFailure, AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.texts_of_before import is_of_hosts
from gsched.model.views.message_boxes import PROFILES_BOX
from gsched.model.views.view import JobView, Message

SOON_S = 5.0
"""A job that was dispatched begins within that time, unless something keeps it."""
BY_USER = "The job was suspended by user"
BY_SYSTEM = "The job was suspended by the system"


def slots_on_host(part: HostAllocation) -> str:
    """`4*h`, or `h` for one slot."""
    return part.host if part.slots == 1 else f"{part.slots}*{part.host}"


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job, one element of an array, or (`array_spec`) all elements of an array that have not started."""

    view: JobView
    level: int = DEFAULT_LEVEL
    """How much of the pending reasons is told (reason_texts)."""
    with_hosts: bool = False
    """With the names of hosts in them."""
    unit: str = "M"
    """The letter of sizes in requirements."""
    now: float | None = None
    """Seconds since 1970: what a job waits for that should have begun is told."""
    zone: tzinfo | None = None
    """Of times in pending reasons; None: they are UTC."""
    external_indices: tuple[str, ...] = ()
    """Names of external load indices, for the second block of the threshold table."""
    thresholds: Mapping[str, str] = {}
    """Load index -> `sched/stop`, `-` for the one that is not set."""
    exceptions: tuple[str, ...] = ()
    """In bjobs' words; empty where they were not asked for."""
    judges_idle: bool = False
    """Its queue has JOB_IDLE: bjobs prints the idle factor."""
    affinity: tuple[AffinityUnit, ...] | None = None
    """Its processor units; None when they were not asked for."""
    host_file: Mapping[str, int] = {}
    """Slots on each host that -hostfile asked for; empty where that was not asked for."""
    gpus_held: tuple[GpuOfJob, ...] = ()
    """Its GPUs one by one; empty when they were not asked for."""

    web_address: str = ""
    """Where the pages of `gsched web` are; empty: nowhere."""

    @property
    def spec(self) -> JobSpec:
        return self.view.spec

    @property
    def web_path(self) -> str:
        """Where its service is on these pages."""
        return f"/jobs/{self.job_id}.{self.index}/service" if self.index else f"/jobs/{self.job_id}/service"

    # -- names ----------------------------------------------------------------------------------------------------

    @property
    def job_id(self) -> int:
        """The job's number; of an element that of its array."""
        return array_of(self.view.job_id)

    @property
    def index(self) -> int:
        """Array index; 0 for a job that is no array element."""
        return index_of(self.view.job_id)

    @property
    def array_spec(self) -> str:
        """`[1-10:2]%5` for what stands for all elements of an array that have not started; empty otherwise."""
        return "" if self.index else self.spec.array_text

    @property
    def label(self) -> str:
        """`101` or `101[3]`."""
        return f"{self.job_id}[{self.index}]" if self.index else str(self.job_id)

    @property
    def display_name(self) -> str:
        """JOB_NAME: -J (with the index of an array element), else the command."""
        return self.spec.listed_name(self.view.job_id)

    # -- what was asked for ---------------------------------------------------------------------------------------

    @property
    def hosts_asked(self) -> tuple[str, ...]:
        """The hosts of -m as they may be typed again: `h`, `h+2`, `h!`, `others`."""
        return tuple(_asked_hosts(self.spec))

    @property
    def notify(self) -> str:
        """When mail is sent: `begins`, `ends`, `begins/ends`."""
        moments = (("begins", self.spec.notify_begin), ("ends", self.spec.notify_end or self.spec.notify_error))
        return "/".join(word for word, is_set in moments if is_set)

    @property
    def combined_req(self) -> str:
        return shown_in(self.unit, shown_with_gpus(self.spec.combined_req, self.spec.combined_gpu_req))

    @property
    def effective_req(self) -> str:
        text = shown_with_gpus(self.view.effective_req, self.spec.combined_gpu_req, is_effective=True)
        return shown_in(self.unit, text)

    # -- where it runs --------------------------------------------------------------------------------------------

    @property
    def placed(self) -> tuple[HostAllocation, ...]:
        """First execution host first."""
        return self.view.allocation.hosts if self.view.allocation is not None else ()

    @property
    def reserved_mem_mib(self) -> float | None:
        """rusage[mem=...] over all its hosts; None: it has reserved none, or has not started."""
        amounts = [part.amounts["mem"] for part in self.placed if "mem" in part.amounts]
        return sum(amounts) if amounts else None

    @property
    def gpus(self) -> str:
        """`host:gpus=0,1;`"""
        return self.view.allocation.gpu_message() if self.view.allocation is not None else ""

    @property
    def gpu_count(self) -> int:
        return sum(len(part.gpus) for part in self.placed)

    @property
    def usage(self) -> Usage:
        """Its `cpu_s` is believed only where `usage.sampled_at` is set or the job has ended."""
        ended = self.result
        return ended.usage if ended is not None else self.view.usage or Usage()

    @property
    def idle_factor(self) -> float | None:
        """CPU time of each second that it ran; None where that is not known, and before it ran."""
        is_known = self.usage.sampled_at is not None or (self.ended_at is not None and self.ran)
        return self.usage.cpu_s / self.used_s if is_known and self.used_s else None

    @property
    def used_s(self) -> float | None:
        """Seconds in which it has used what `usage` says: up to its end, or to the last look at it."""
        end, begin = self.ended_at or self.usage.sampled_at, self.view.dispatched_at
        return None if end is None or begin is None else max(0.0, end - begin)

    @property
    def gpu_use(self) -> JobGpuUse:
        """What it has made of all its GPUs together."""
        return of_job(self.usage.gpus, self.gpu_count)

    @property
    def idle(self) -> JobIdleness | None:
        """How idle all GPUs of a running job are; None where that is not known."""
        return idleness_of_job(self.view.idle, self.gpu_count)

    # -- why it waits, and how it ended ---------------------------------------------------------------------------

    @property
    def pending_reasons(self) -> tuple[str, ...]:
        """One text per reason, without the closing `;`."""
        return reason_texts(self.view.pending_reasons, self.level, with_hosts=self.with_hosts, zone=self.zone)

    @property
    def is_ineligible(self) -> bool:
        """It waits for what it says itself, or its queue does, and could not start even on an empty cluster."""
        return self.view.state == "PSUSP" or (
            bool(self.view.pending_reasons) and has_code(self.view.pending_reasons[0].text, *_INELIGIBLE)
        )

    @property
    def suspending_reasons(self) -> tuple[str, ...]:
        if self.view.state not in ("USUSP", "SSUSP"):
            return ()
        return (sentence(self.view.suspending_reason) or (BY_USER if self.view.state == "USUSP" else BY_SYSTEM),)

    @property
    def ended_at(self) -> float | None:
        return self.view.finished_at if self.view.state in FINISHED else None

    @property
    def result(self) -> AttemptResult | None:
        """How it ended; None before, and where that is not known."""
        return self.view.result if self.view.state in FINISHED else None

    @property
    def exit_code(self) -> int | None:
        return self.result.exit_code if self.result is not None else None

    @property
    def signal(self) -> int | None:
        return self.result.signal if self.result is not None else None

    @property
    def term_reason(self) -> str:
        """TERM_OWNER … or empty. A job that merely failed has none."""
        return self.result.term_reason if self.result is not None else ""

    @property
    def failure(self) -> AttemptFailure | None:
        """Why it failed; None for a job that has not."""
        return failure_of(self.result) if self.result is not None else None

    @property
    def ran(self) -> bool:
        """False for a job that ended without its command having run."""
        return self.view.state not in FINISHED or (self.result is not None and self.result.started)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Those in its boxes that have no heading of their own."""
        return tuple(each for each in self.view.messages if each.box != PROFILES_BOX)

    @property
    def profiles(self) -> str:
        """Where files of profilers are, and their names; empty: it has none."""
        return next((each.text for each in self.view.messages if each.box == PROFILES_BOX), "")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts of the scheduler's own, shown at the end of `gjobs -l`."""
        waits = self.view.state in ("PEND", "PSUSP")
        said = tuple(each for each in self.spec.warnings if waits or not is_of_hosts(each))
        texts = (*said, *(note for note in self.view.notes if note not in said))
        not_begun = () if self.now is None else _not_begun(self.view, self.now)
        return (*map(sentence, texts), *_still_held(self.view), *not_begun)


_INELIGIBLE = (
    *("dependency.not_satisfied", "dependency.invalid", "pending.start_time"),
    *("pending.suspended", "pending.suspended_by_admin", "pending.restart_pause", "pending.new_job_delay"),
    *("queue.gone", "queue.inactivated", "queue.inactivated_why", "queue.window_closed"),
)


def _asked_hosts(spec: JobSpec) -> Iterator[str]:
    """The hosts of -m as they may be typed again."""
    levels = spec.host_levels or (0,) * len(spec.hosts)
    yield from (f"{host}!" for host in spec.first_hosts if host not in spec.hosts)
    for host, level in zip(spec.hosts, levels, strict=False):
        yield host + ("!" if host in spec.first_hosts else "") + (f"+{level}" if level else "")
    if spec.other_hosts:
        yield "others"


def _still_held(view: JobView) -> Iterator[str]:
    """What a finished job has on its other hosts until its parts there have ended."""
    for part in view.allocation.hosts if view.allocation is not None else ():
        if part.host in view.leaving:
            held = f"{part.slots} slot{'s' * (part.slots > 1)}"
            if part.gpus:
                held += f" and GPU{'s' * (len(part.gpus) > 1)} {','.join(str(gpu.index) for gpu in part.gpus)}"
            yield f"{held} of host {part.host} are still held: what the job had there has not ended"


def _not_begun(view: JobView, now: float) -> Iterator[str]:
    """Which hosts a job waits for that was dispatched a while ago: LSF's state for it is RUN."""
    if not view.awaited or view.dispatched_at is None or now - view.dispatched_at < SOON_S:
        return
    first = view.allocation.first_host if view.allocation is not None else ""
    if view.awaited == (first,):
        yield f"starting: waiting for the job's files (input, output, working directory) on host {first}"
    else:
        hosts = f"host{'s' * (len(view.awaited) > 1)} {', '.join(view.awaited)}"
        yield f"starting: waiting for {hosts} to open what the job has there"
