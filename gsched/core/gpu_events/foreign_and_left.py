"""What the agents find on GPUs that should not be there, in the histories of the jobs that it concerns.

The agents judge, and keep such GPUs from being offered; nothing is measured or decided here.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, CodedText, CodedValue, coded, has_code
from gsched.core.attempts.attempt_notes import named, note
from gsched.core.decision import Decision
from gsched.model.host import Gpu, GpuReport

MOST_STRANGERS = 10
"""So many strangers are noted of one job at most."""
_FOREIGN = "note.foreign_process"


def note_remnants(host: str, report: GpuReport, decision: Decision) -> None:
    """Note once of each job what it has left on a GPU, and who came to a GPU that it holds."""
    for gpu in report.gpus:
        for job_id, attempt in named(gpu.left_behind):
            text = coded("note.gpu_not_clean", gpu.index, gpu.uuid, host, attempt, gpu.problem)
            _note(job_id, text, decision)
        if gpu.strangers:
            _note_strangers(host, gpu, decision)


def _note_strangers(host: str, gpu: Gpu, decision: Decision) -> None:
    ledger = decision.state.ledger.hosts.get(host)
    holders = ledger.holders if ledger is not None else {}
    devices = [gpu.uuid, *(part.uuid for part in gpu.mig_devices)]
    for job_id, attempt in (key for uuid in devices for key in holders.get(uuid, ())):
        job = decision.state.jobs.get(job_id)
        if job is None or job.attempt != attempt or job.allocation is None or job.started_at is None:
            continue
        for process in (each for each in gpu.processes if each.pid in gpu.strangers):
            if sum(has_code(each, _FOREIGN) for each in job.notes) >= MOST_STRANGERS:
                break
            user: CodedValue = process.user or coded("user.somebody")
            who = user if process.used_mib is None else coded("user.with_memory", user, process.used_mib)
            text = coded(_FOREIGN, gpu.index, gpu.uuid, host, attempt, process.pid, who)
            _note(job_id, text, decision)


def _note(job_id: int, text: CodedText, decision: Decision) -> None:
    """The last parameter, whose process it is or what is on the GPU, may change without being news."""
    state = decision.state
    job = state.jobs.get(job_id)
    if job is not None and job_id not in state.quarantined and not any(_is_same(text, each) for each in job.notes):
        note(job, text, decision)


def _is_same(text: CodedText, other: AnyText) -> bool:
    return isinstance(other, CodedText) and text.code == other.code and text.values[:-1] == other.values[:-1]
