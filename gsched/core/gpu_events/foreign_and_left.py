"""What the agents find on GPUs that should not be there, in the histories of the jobs that it concerns.

The agents judge, and keep such GPUs from being offered; nothing is measured or decided here.
"""

from __future__ import annotations

from gsched.core.attempts.attempt_notes import named, note
from gsched.core.decision import Decision
from gsched.model.host import Gpu, GpuReport

MOST_STRANGERS = 10
"""So many strangers are noted of one job at most."""
_STRANGER = "A stranger is on GPU"


def note_remnants(host: str, report: GpuReport, decision: Decision) -> None:
    """Note once of each job what it has left on a GPU, and who came to a GPU that it holds."""
    for gpu in report.gpus:
        for job_id, attempt in named(gpu.left_behind):
            text = f"GPU {gpu.index} ({gpu.uuid}) of {host} is not clean after run {attempt}: "
            _note(job_id, text, f"{gpu.problem}; no job gets it until it is", decision)
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
            if sum(each.startswith(_STRANGER) for each in job.notes) >= MOST_STRANGERS:
                break
            text = (
                f"{_STRANGER} {gpu.index} ({gpu.uuid}) of {host}, which run {attempt} holds: process {process.pid} of "
            )
            memory = "" if process.used_mib is None else f" ({process.used_mib} MiB)"
            _note(job_id, text, f"{process.user or 'somebody'}{memory}", decision)


def _note(job_id: int, text: str, detail: str, decision: Decision) -> None:
    """What stands in `detail` may change without being news."""
    job = decision.state.jobs.get(job_id)
    if (
        job is not None
        and job_id not in decision.state.quarantined
        and not any(each.startswith(text) for each in job.notes)
    ):
        note(job, text + detail, decision)
