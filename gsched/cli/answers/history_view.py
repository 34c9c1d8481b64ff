"""A job's stored events as `ghist` tells them: one remark per fact, and the state each leads to.

An event that cannot be read becomes a line that says so; only a job whose submission cannot be read has no history.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator, Mapping

import msgspec

from gsched.base.coded_text import AnyText, CodedText, coded, sentence
from gsched.base.errors import GschedError
from gsched.base.ids import show_job
from gsched.cli.render.jobs import history, job_lines
from gsched.cli.render.jobs.history import HistoryEvent, HistoryRecord, Remark
from gsched.cli.render.jobs.job_devices import gpus_of
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.requirement_texts import shown_in, shown_with_gpus
from gsched.model import event as events
from gsched.model.gpus.gpu_idle import GPU_IDLE
from gsched.model.hosts.host import Gpu
from gsched.model.hosts.kept_output import shown_size
from gsched.model.jobs.failure import failure_of
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.model.jobs.job_service import SERVICE_IDLE
from gsched.model.jobs.left_running import left_running_text
from gsched.model.jobs.notice import event_text, not_sent
from gsched.model.ledgers.allocation import Allocation
from gsched.model.texts_of_before import says_requeued
from gsched.model.views.view import EventRecord, JobHistory, JobView

MOST_LEFT_NAMED = 10
"""Processes that a job had left running, by name."""


def signal_name(number: int) -> str:
    """`KILL` for 9; 0 stands for "terminate", which ends in KILL as well."""
    try:
        return signals.Signals(number or signals.SIGKILL).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def history_record(stored: JobHistory, unit: str = "M", known: Mapping[str, Gpu] | None = None) -> HistoryRecord:
    """The history of one job; sizes in requirements are in `unit`, a letter. `known`: the devices of all hosts by UUID,
    where the GPUs that its last attempt had are to be told one by one.

    Raises GschedError when nothing says what was submitted.
    """
    teller = _Teller(unit)
    told = tuple(remark for record in stored.events for remark in teller.tell(record))
    if teller.submitted is None:
        raise GschedError(f"Job <{show_job(stored.job_id)}>: the record of its submission cannot be read")
    told_of, at = teller.submitted.spec, teller.submitted.at
    view = JobView(
        job_id=stored.job_id,
        spec=told_of,
        state="",
        submitted_at=at,
        usage=teller.usage,
        allocation=teller.allocation,
        dispatched_at=teller.dispatched_at,
    )
    held = gpus_of(view, known) if known is not None else ()
    return HistoryRecord(job=ShownJob(view=view, gpus_held=held), events=told, last=teller.last(view))


class _Teller:
    """Goes through the events in order; knows whether the job has been dispatched, which gives some their words."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self.submitted: events.JobSubmitted | None = None
        self.usage: Usage | None = None
        self.allocation: Allocation | None = None
        """Of the last attempt."""
        self.dispatched_at: float | None = None
        self._gpu = ""
        self._result: AttemptResult | None = None
        self._ended_at: float | None = None
        self._state = "PEND"
        self._before_loss = "RUN"
        self._succeeded = False

    def last(self, view: JobView) -> JobView:
        """The job as its last event left it."""
        if self._state != "END" or self._result is None:
            return msgspec.structs.replace(view, state=self._state)
        state = "DONE" if self._succeeded else "EXIT"
        return msgspec.structs.replace(view, state=state, finished_at=self._ended_at, result=self._result)

    def tell(self, record: EventRecord) -> Iterator[HistoryEvent]:
        try:
            event = events.decode_event(record.payload.encode())
        except (msgspec.MsgspecError, ValueError):
            yield Remark(at=record.at, text=f"A record of this job cannot be read (event {record.seq}, {record.kind})")
            return
        if isinstance(event, events.JobSubmitted):
            self.submitted = event
            self._gpu = event.spec.combined_gpu_req
            self._state = "PSUSP" if event.spec.hold else "PEND"
            return
        if isinstance(event, events.JobModified | events.JobSwitched):
            self._gpu = event.spec.combined_gpu_req
        for remark in self._remarks(event):
            if remark.state:
                self._state = remark.state
            yield remark

    def _remarks(self, event: events.AnyEvent) -> Iterator[HistoryEvent]:
        match event:
            case events.JobDispatched():
                self.allocation, self.dispatched_at = event.allocation, event.at
                yield history.Dispatched(
                    at=event.at, placed=event.allocation.hosts, effective_req=self._effective(event.effective_req)
                )
            case events.JobStarted():
                yield history.Starting(at=event.at, pid=event.pid)
                if event.home or event.cwd:
                    yield history.Executing(at=event.at, exec_home=event.home, exec_cwd=event.cwd, pid=event.pid)
            case events.JobPartStarted() | events.JobPartEnded():
                yield self._on_other_host(event)
            case events.JobMessagePosted():
                yield history.MessagePosted(at=event.at, text=event.text, user=event.user, box=event.box)
            case events.JobNoted():
                yield Remark(at=event.at, text=sentence(event.text))
            case events.JobFinished():
                yield from self._ended(event)
                if event.post_processed:
                    yield from self._post_processed(event.at, failed=bool(event.result.post_code))
            case events.JobPostProcessed():
                yield from self._post_processed(event.at, failed=event.failed)
            case _:
                yield from self._changes(event)

    def _post_processed(self, at: float, *, failed: bool) -> Iterator[HistoryEvent]:
        """What follows a job's end is over."""
        if failed:
            yield history.post_failed(at)
        elif self._succeeded:  # LSF says it of jobs that are done, not of those that exited
            yield history.post_done(at)

    def _on_other_host(self, event: events.JobPartStarted | events.JobPartEnded) -> Remark:
        """The job's part there is open, or over."""
        if isinstance(event, events.JobPartStarted):
            return Remark(at=event.at, text=f"Ready on host <{event.host}>")
        if self.usage is not None:
            self.usage = self.usage.with_late(event.host, event.late_cpu_s, event.usage.gpus)
        return Remark(at=event.at, text=f"Over on host <{event.host}>")

    def _host(self) -> str:
        return self.allocation.first_host if self.allocation is not None else ""

    def _effective(self, text: str) -> str:
        return shown_in(self._unit, shown_with_gpus(text, self._gpu, is_effective=True))

    def _changes(self, event: events.AnyEvent) -> Iterator[HistoryEvent]:
        match event:
            case events.JobRequeued():
                yield from self._requeued(event)
            case events.JobSuspended(by_system=True):
                yield history.suspended_by_system(event.at, sentence(event.reason) or "by the system")
            case events.JobSuspended():
                state = "USUSP" if self._state not in ("PEND", "PSUSP") else "PSUSP"
                yield history.suspended(event.at, state=state, why=_said_of_stop(event.reason))
            case events.JobResumed():
                state = "PEND" if self._state in ("PEND", "PSUSP") else "RUN"
                yield (
                    Remark(at=event.at, state=state, text="Running")
                    if event.by_system
                    else history.resumed(event.at, state=state, why=event.reason)
                )
            case events.JobSignalRequested():
                yield _signalled(event)
            case events.JobStatusLost():
                self._before_loss = self._state
                yield history.unreachable(event.at)
            case events.JobStatusRegained():
                yield Remark(
                    at=event.at,
                    state=self._before_loss,
                    text="Running" if self._before_loss == "RUN" else "The execution host answers again",
                )
            case events.StaleResultRecorded():
                text = (
                    f"Attempt {event.attempt} on host <{event.host}>, given up before, has ended: {_how(event.result)}"
                )
                yield Remark(at=event.at, text=text)
            case events.JobIdleWarned() | events.JobIdleActed() | events.JobIdleOver():
                yield _idle(event)
            case events.JobServiceAnswered():
                yield Remark(at=event.at, text=sentence(coded("service.answers", event.port, self._host())))
            case _:
                yield from self._rearranged(event)

    def _rearranged(self, event: events.AnyEvent) -> Iterator[HistoryEvent]:
        match event:
            case events.JobGpusMoved() | events.JobGpusKept() | events.JobSignalsSent():
                yield _done_on_host(event)
            case events.JobEndWarned() | events.JobPreemptionWithdrawn() | events.JobResizeWithdrawn():
                yield _about_its_end(event)
            case events.JobSwitched():
                yield history.switched(event.at, event.spec.queue, event.by)
            case events.JobMoved():
                yield history.moved(event)
            case events.JobForced():
                yield history.forced(event.at, event.by)
            case events.JobModified():
                yield _modified(event)
            case events.JobRequeueRequested():
                yield from _requeue_requested(event)
            case events.ArrayElementsFinished():
                yield from self._ended(event)
            case events.JobNoticeSettled():
                yield Remark(at=event.at, text=_notice(event))
            case events.JobOutputRemoved():
                yield Remark(at=event.at, text=sentence(_removed(event)))
            case events.ArrayElementsRequeued():
                yield history.requeued(event.at, hold=event.hold)
            case _:
                return

    def _requeued(self, event: events.JobRequeued) -> Iterator[HistoryEvent]:
        """The attempt's end, where the job ran, and why it waits again."""
        if event.result is not None and not event.failed_start:
            yield Remark(at=event.at, text=f"Exited {_how(event.result)}; job will be requeued and rerun")
            if event.result.term_reason:
                yield Remark(at=event.at, text=job_lines.completion(event.result.term_reason))
            if left := left_running_text(event.result, most=MOST_LEFT_NAMED):
                yield Remark(at=event.at, text=left)
            yield from _why(event.at, event.result)
        yield history.requeued(event.at, hold=event.hold)
        if event.reason and not says_requeued(event.reason):
            yield Remark(at=event.at, text=f"Pending: {sentence(event.reason)}")

    def _ended(self, event: events.JobFinished | events.ArrayElementsFinished) -> Iterator[HistoryEvent]:
        result = event.result
        self.usage = result.usage
        self._result, self._ended_at = result, event.at
        self._succeeded = result.succeeded
        yield history.HistoryEnd(
            at=event.at,
            exit_code=result.exit_code,
            signal=result.signal,
            cpu_s=result.usage.cpu_s if result.started else None,
            succeeded=result.succeeded,
            term_reason=result.term_reason,
        )
        if left := left_running_text(result, most=MOST_LEFT_NAMED):
            yield Remark(at=event.at, text=left)
        if result.problem and not result.started:
            yield Remark(at=event.at, text=sentence(result.problem))
        yield from _why(event.at, result)


def _said_of_stop(reason: AnyText) -> str:
    """What the user said who suspended the job."""
    return str(reason.values[0]) if isinstance(reason, CodedText) and reason.values else ""


def _requeue_requested(event: events.JobRequeueRequested) -> Iterator[HistoryEvent]:
    """Why its attempt is to end, and how long it has to save its state."""
    if event.gpu_fault:
        yield Remark(at=event.at, text=f"Requeue requested: {sentence(event.gpu_fault)}")
    elif event.reason:
        yield Remark(at=event.at, text=f"Requeue requested: {sentence(event.reason)}")
    elif event.preempted_by:
        text = f"Requeue requested: preempted by job <{show_job(event.preempted_by)}>"
        yield Remark(at=event.at, text=text)
    else:
        yield history.requeue_requested(event.at, event.by)
    if event.save_by is not None:
        yield Remark(at=event.at, text=f"Asked to save its state; it has {event.save_by - event.at:.0f} seconds")


_RESIZED = {
    "resize.released": "Release allocation on Hosts/Processors <{0}>",
    "resize.added": "Additional allocation on Hosts/Processors <{0}>",
    "resize.requested": "Request {0} more slots",
    "resize.cancelled": "Cancel the request for more slots",
}
"""Code of a change -> what LSF says of it."""


def _modified(event: events.JobModified) -> HistoryEvent:
    """What was changed; also slots that have come or gone while it ran, or are asked for."""
    change = event.changes[0] if event.changes else ""
    if not isinstance(change, CodedText) or change.code not in _RESIZED:
        return history.Modified(at=event.at, user=event.by, changes=tuple(map(sentence, event.changes)))
    by = "" if change.code == "resize.added" else f" by user or administrator <{event.by}>"
    return Remark(at=event.at, text=_RESIZED[change.code].format(*change.values) + by)


def _done_on_host(event: events.JobGpusMoved | events.JobGpusKept | events.JobSignalsSent) -> Remark:
    """What became there of what was asked of it."""
    if isinstance(event, events.JobSignalsSent):
        return Remark(at=event.at, text=f"Its processes on host <{event.host}> were sent the signal")
    if isinstance(event, events.JobGpusMoved):
        return Remark(at=event.at, text="Moved off its GPU, which is given back")
    return Remark(at=event.at, text=f"It keeps its GPU: {sentence(event.why)}")


def _about_its_end(event: events.JobEndWarned | events.JobPreemptionWithdrawn | events.JobResizeWithdrawn) -> Remark:
    """That it was warned of its end, or is not to end after all."""
    if isinstance(event, events.JobResizeWithdrawn):
        text = "No job needs its lent GPUs any more: it keeps them, and is not ended after its time to save"
        return Remark(at=event.at, text=text)
    if isinstance(event, events.JobPreemptionWithdrawn):
        by = show_job(event.preempted_by)
        return Remark(at=event.at, text=f"Job <{by}> needs its place no more: it is not ended after its time to save")
    left = "" if event.ends_by is None else f"; it has {max(event.ends_by - event.at, 0.0):.0f} seconds"
    return Remark(at=event.at, text=f"Warned of its end{left}")


def _signalled(event: events.JobSignalRequested) -> Remark:
    """Who wants it to end, and why."""
    why = f"its part on host <{event.lost_part}> has ended" if event.lost_part else ""
    if event.gpu_fault:
        why = "a GPU of it has failed"
    elif event.keyword == GPU_IDLE:
        why = "its GPUs are idle"
    elif event.keyword == SERVICE_IDLE:
        why = "nobody uses its service"
    if why:
        return Remark(at=event.at, text=f"The system ends the job because {why}")
    if event.step is not None:
        what = f"Signal <{signal_name(event.signal)}>" if event.signal else "The end"
        return Remark(at=event.at, text=f"{what} of step <{event.step}> requested by user <{event.by}>")
    return history.signalled(event.at, signal_name(event.signal), event.by)


def _idle(event: events.JobIdleWarned | events.JobIdleActed | events.JobIdleOver) -> Remark:
    """What was said to the job because its GPUs are idle, and what followed."""
    if isinstance(event, events.JobIdleWarned):
        return Remark(at=event.at, text=f"Warning {event.warning.number}: {sentence(event.warning.text)}")
    return Remark(at=event.at, text=sentence(event.text))


def _removed(event: events.JobOutputRemoved) -> AnyText:
    whose = "output.removed_for_user" if event.of_user else "output.removed_for_host"
    return coded(whose, event.attempt, event.host, shown_size(event.size), event.limit_mib)


def _notice(event: events.JobNoticeSettled) -> str:
    if event.problem:
        return sentence(not_sent(event.event, event.way, event.problem))
    return sentence(coded("notice.sent", event_text(event.event), event.way))


def _why(at: float, result: AttemptResult) -> Iterator[HistoryEvent]:
    if why := job_lines.why_it_failed(failure_of(result)):
        yield Remark(at=at, text=f"Failed: {why}")


def _how(result: AttemptResult) -> str:
    if result.signal is not None:
        return f"by signal {result.signal}"
    return "status unknown" if result.exit_code is None else f"with exit code {result.exit_code}"
