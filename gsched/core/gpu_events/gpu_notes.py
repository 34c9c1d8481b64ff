"""What agents say of GPUs, in the histories of the jobs that it concerns: who is on them, what was changed below a job.

Nothing is measured here and nobody is ended for it. The agents keep such GPUs from being offered, and the host ledger
what is inconsistent; who changed a compute mode or an MIG layout cannot be known.
"""

from __future__ import annotations

from collections.abc import Collection

from gsched.base.coded_text import AnyText, CodedText, CodedValue, coded, has_code
from gsched.core.attempts.attempt_notes import named, note, running_on
from gsched.core.decision import Decision
from gsched.model.event import JobNoted
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.jobs.job import STARTED
from gsched.model.ledgers.allocation import HeldGpu
from gsched.model.ledgers.devices import is_astray

MOST_FOREIGN = 10
"""So many foreign processes are noted of one job at most."""
_FOREIGN = "note.foreign_process"


def note_gpus(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each thing once for each run and GPU."""
    for gpu in report.gpus:
        _note_left_behind(host, gpu, decision)
        _note_foreign(host, gpu, decision)
        _note_changed_mode(host, gpu, decision)
        _note_escaped(host, gpu, decision)
        for job in running_on(decision.state, host, gpu.mps_lost):
            note(job, coded("note.mps_ended", job.attempt, gpu.index, gpu.uuid, host), decision)


def _note_left_behind(host: str, gpu: Gpu, decision: Decision) -> None:
    for job_id, attempt in named(gpu.left_behind):
        _note_news(job_id, coded("note.gpu_not_clean", gpu.index, gpu.uuid, host, attempt, gpu.problem), decision)


def _note_foreign(host: str, gpu: Gpu, decision: Decision) -> None:
    """Who came to a GPU that a job holds, all of it or a part."""
    if not gpu.foreign_pids:
        return
    ledger = decision.state.ledger.hosts.get(host)
    holders = ledger.holders if ledger is not None else {}
    devices = [gpu.uuid, *(part.uuid for part in gpu.mig_devices)]
    for job_id, attempt in (key for uuid in devices for key in holders.get(uuid, ())):
        job = decision.state.jobs.get(job_id)
        if job is None or job.attempt != attempt or job.allocation is None or job.started_at is None:
            continue
        for process in (each for each in gpu.processes if each.pid in gpu.foreign_pids):
            if sum(has_code(each, _FOREIGN) for each in job.notes) >= MOST_FOREIGN:
                break
            user: CodedValue = process.user or coded("user.somebody")
            who = user if process.used_mib is None else coded("user.with_memory", user, process.used_mib)
            _note_news(job_id, coded(_FOREIGN, gpu.index, gpu.uuid, host, attempt, process.pid, who), decision)


def _note_news(job_id: int, text: CodedText, decision: Decision) -> None:
    """The last parameter, whose process it is or what is on the GPU, may change without being news."""
    state = decision.state
    job = state.jobs.get(job_id)
    if job is None or job_id in state.quarantined:
        return
    if not any(_is_same(text, each, but=(len(text.values) - 1,)) for each in job.notes):
        note(job, text, decision)


def _note_changed_mode(host: str, gpu: Gpu, decision: Decision) -> None:
    """A compute mode that somebody has changed under a job."""
    if gpu.mode_given is None or gpu.mode is None:
        return
    for job_id, attempt in decision.state.ledger.host(host).holders.get(gpu.uuid, ()):
        job = decision.state.jobs.get(job_id)
        if job is None or job.attempt != attempt or job.state not in STARTED:
            continue
        modes = (gpu.mode_given.value, gpu.mode.value)
        note(job, coded("note.mode_changed", gpu.index, gpu.uuid, host, *modes, attempt), decision)


def _note_escaped(host: str, gpu: Gpu, decision: Decision) -> None:
    """A job's process on a GPU that the job does not hold; which of them was seen first is not news."""
    for process in gpu.processes:
        job = next(running_on(decision.state, host, (process.job,)), None) if process.escaped else None
        if job is None:
            continue
        who = (process.pid, process.user or "unknown")
        text = coded("note.escaped_process", job.attempt, *who, gpu.index, gpu.uuid, host)
        if not any(_is_same(text, each, but=(1, 2)) for each in job.notes):
            note(job, text, decision)


def _is_same(text: CodedText, other: AnyText, but: Collection[int]) -> bool:
    """Whether they are alike, whatever the parameters at the places `but` are."""
    if not isinstance(other, CodedText) or text.code != other.code or len(text.values) != len(other.values):
        return False
    pairs = enumerate(zip(text.values, other.values, strict=True))
    return all(one == another for place, (one, another) in pairs if place not in but)


def note_lost_parts(host: str, decision: Decision) -> None:
    """Note each job of the host of which a part of a GPU is gone, or whose GPU is split, once for each GPU.

    The host ledger must have what was seen last. Nobody is ended: a job whose part is gone fails by itself, and one
    that had not begun to use it may live.
    """
    ledger = decision.state.ledger.host(host)
    if not ledger.gpus_known or not ledger.inconsistent:
        return
    for (job_id, attempt), part in ledger.held.items():
        job = decision.state.jobs.get(job_id)
        if job is None or job.attempt != attempt:
            continue
        for held in part.gpus:
            gpu = ledger.gpus.get(held.board)
            # A GPU that is gone as a whole, or lost, is another matter.
            if gpu is not None and not gpu.fault and is_astray(held, ledger.gpus):
                text = _lost_part(attempt, held, host)
                if text not in job.notes:
                    decision.record(JobNoted(at=decision.now, job_id=job_id, text=text))


def _lost_part(attempt: int, held: HeldGpu, host: str) -> CodedText:
    gpu = (held.index, held.board, host)
    if not held.parent:
        return coded("note.gpu_split", attempt, *gpu)
    return coded("note.mig_device_gone", attempt, held.uuid, held.profile, *gpu)
